"""Warm client processes: as cold ones but quick, and nothing of them is left behind."""

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedsuite.errors import InputError
from simulations.deploy.programs import WARM
from simulations.deploy.warm import start as warm
from simulations.engines.processes import living_processes, wait_until
from tests.harness import ROOT

LIMIT_S = 60.0
ENTRY = "tests.simulations.deploy.warm_main:main"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="w-"))
    (folder / "tmp").mkdir()
    real = folder / "real" / "flwr-clientapp"
    real.parent.mkdir()
    text = "from tests.simulations.deploy.warm_main import main\n\nmain()\n"
    # As pip writes it, for an interpreter whose path has blanks.
    real.write_text(f"#!/bin/sh\n'''exec' '{sys.executable}' \"$0\" \"$@\"\n' '''\n{text}")
    real.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def environment(place: Path) -> dict[str, str]:
    programs = str(Path(sys.executable).parent)
    paths = os.pathsep.join([str(place / "real"), programs, os.environ["PATH"]])
    own = {"PATH": paths, "PYTHONPATH": str(ROOT), "OWN": "ü\n2", "FLWR_HOME": str(place / "home")}
    return {**os.environ, **own}


@pytest.fixture(scope="module")
def warmed(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    with warm.warm_clients(environment, None, ENTRY) as found:
        yield found


def start(
    environment: dict[str, str], *arguments: str, program: str = warm.CLIENT, **popen: object
) -> subprocess.Popen[str]:
    """`flwr-clientapp ARGUMENTS`, found on PATH as SuperExec finds it."""
    found = shutil.which(program, path=environment["PATH"])
    assert found is not None
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    options = {**pipes, "env": environment, "text": True, **popen}
    return subprocess.Popen([found, *arguments], **options)  # type: ignore[call-overload]


def done(environment: dict[str, str], *arguments: str, **popen: Any) -> tuple[int, str, str]:
    process = start(environment, *arguments, **popen)
    out, err = process.communicate("typed", timeout=LIMIT_S)
    return process.returncode, out, err


def pid_of(process: subprocess.Popen[str]) -> int:
    """The pid that a child says in its first line."""
    assert process.stdout is not None
    return int(process.stdout.readline().split()[1])


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal."""
    (mask,) = re.findall(
        r"SigCgt:\s+(\w+)", Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    )
    return bool(int(mask, 16) >> (number - 1) & 1)


def is_alive(pid: int) -> bool:
    return any(p.pid == pid for p in living_processes())


def answers(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out + err


def test_children_compute_what_new_processes_compute(
    warmed: dict[str, str], environment: dict[str, str]
) -> None:
    code, cold, err = done(environment, "compute")
    assert code == 0, err
    for _ in range(2):
        code, out, err = done(warmed, "compute")
        assert (code, out.splitlines()[1:]) == (0, cold.splitlines()[1:]) and err == ""


def test_a_child_stands_where_the_program_stands(
    warmed: dict[str, str], environment: dict[str, str], tmp_path: Path
) -> None:
    said = [done(e, "surroundings", cwd=tmp_path) for e in (environment, warmed)]
    lines = [out.split("\n", 1)[1] for _, out, _ in said]
    assert lines[0] == lines[1]
    assert str(tmp_path) in lines[1] and "ü\n2" in lines[1] and "typed" in lines[1]
    assert [err for _, _, err in said] == ["to stderr\n"] * 2


def test_unseeded_numbers_differ_as_between_new_processes(warmed: dict[str, str]) -> None:
    drawn = [done(warmed, "drawn")[1].splitlines()[1].split() for _ in range(2)]
    assert set(drawn[0]).isdisjoint(drawn[1])


def test_exit_codes_and_signals_go_both_ways(warmed: dict[str, str]) -> None:
    assert done(warmed, "exit", "3")[0] == 3
    assert done(warmed, "die")[0] == -signal.SIGKILL
    for number, code in ((signal.SIGINT, 7), (signal.SIGTERM, -signal.SIGTERM)):
        process = start(warmed, "sleep", "60")
        pid = pid_of(process)
        assert wait_until(
            lambda p=process.pid: catches(p, signal.SIGHUP), 5
        )  # handed on from now on
        process.send_signal(number)
        assert answers(process)[0] == code and not is_alive(pid)


def test_a_child_dies_with_its_program(warmed: dict[str, str]) -> None:
    process = start(warmed, "sleep", "60")
    pid = pid_of(process)
    process.kill()
    process.communicate(timeout=LIMIT_S)
    assert wait_until(lambda: not is_alive(pid), 5)


def test_many_at_once(warmed: dict[str, str]) -> None:
    processes = [start(warmed, "exit", str(n)) for n in range(8)]
    assert [answers(p)[0] for p in processes] == list(range(8))


def test_another_environment_gets_a_new_process(warmed: dict[str, str]) -> None:
    code, out, err = done({**warmed, "OMP_NUM_THREADS": "3"}, "exit", "4")
    assert code == 4 and out.startswith("exit")
    assert "starts cold" in err and "another OMP_NUM_THREADS" in err


def test_packages_of_an_app_go_before_those_of_the_server(
    warmed: dict[str, str], tmp_path: Path
) -> None:
    """As those of an app bundle do, whose folder comes first on the path."""
    assert done(warmed, "where")[1].splitlines()[1] == str(ROOT / "fedsuite" / "__init__.py")
    own = tmp_path / "app"
    for package in ("fedsuite", "strategies", "clients", "simulations"):
        (own / package).mkdir(parents=True)
        (own / package / "__init__.py").touch()
    code, out, err = done(warmed, "where", str(own))
    assert code == 0, err
    assert out.split()[-1] == str(own / "fedsuite" / "__init__.py")


def test_a_server_that_is_gone_is_said_and_replaced(environment: dict[str, str]) -> None:
    with warm.warm_clients(environment, None, ENTRY) as found:
        process = start(found, "sleep", "60")
        pid = pid_of(process)
        (server,) = [p.parent for p in living_processes() if p.pid == pid]
        os.kill(server, signal.SIGKILL)
        code, text = answers(process)
        assert code == 1 and "the warm server is gone" in text
        assert wait_until(lambda: not is_alive(pid), 5)
        code, out, err = done(found, "exit", "5")
        assert code == 5 and out.startswith("exit") and "starts cold" in err
        folder = Path(found["PATH"].split(os.pathsep)[0]).parent
    assert not folder.exists()


def test_all_of_a_supernodes_programs_start_warm(warmed: dict[str, str]) -> None:
    folder = Path(warmed[WARM])
    assert warmed["PATH"].split(os.pathsep)[0] == str(folder)
    assert sorted(p.name for p in folder.iterdir()) == sorted([warm.CLIENT, *warm.OTHERS])
    for entry in (warm.ENTRY, *warm.OTHERS.values()):
        module, _, name = entry.partition(":")
        assert callable(getattr(importlib.import_module(module), name))
    code, out, err = done(warmed, "--help", program="flower-superexec")
    assert code == 0 and "--runtime-api-address" in out and err == ""


OWNER = """
import os, sys, time
from simulations.deploy.warm.start import warm_clients
with warm_clients(os.environ, None, {entry!r}) as found:
    print(found["PATH"].split(os.pathsep)[0], flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_an_owner_that_was_ended(
    environment: dict[str, str], number: signal.Signals
) -> None:
    command = [sys.executable, "-c", OWNER.format(entry=ENTRY)]
    owner = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert owner.stdout is not None
    path = owner.stdout.readline().strip()
    client = start({**environment, "PATH": path + os.pathsep + environment["PATH"]}, "sleep", "60")
    pid = pid_of(client)
    (server,) = [p.parent for p in living_processes() if p.pid == pid]
    owner.send_signal(number)
    owner.communicate(timeout=LIMIT_S)
    client.communicate(timeout=LIMIT_S)
    gone = wait_until(lambda: not (is_alive(pid) or is_alive(server)), 15)
    assert gone and wait_until(lambda: not Path(path).parent.exists(), 5)


def test_it_starts_in_a_fraction_of_the_time(
    warmed: dict[str, str], environment: dict[str, str]
) -> None:
    """On a busy machine one of the two may have to wait: once in three times is enough."""

    def seconds(each: dict[str, str]) -> float:
        begin = time.monotonic()
        assert done(each, "compute")[0] == 0
        return time.monotonic() - begin

    done(warmed, "compute")
    assert any(seconds(warmed) < seconds(environment) / 2 for _ in range(3))


def test_a_missing_program_is_bad_input(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"flwr-clientapp: not on the SuperNode's PATH; install"),
        warm.warm_clients({"PATH": str(tmp_path)}, None),
    ):
        pass
