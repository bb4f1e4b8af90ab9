"""A SuperLink's SuperExec: it outlives errors of the SuperLink, and where it ends, so does the program that needs it."""

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedsuite.errors import RunFailed
from simulations.deploy import programs, superexec
from simulations.deploy.programs import SUPEREXEC, run_program
from simulations.deploy.superexec import COMMAND, STARTER, start_this_superexec
from simulations.engines.flower import command_path
from simulations.engines.processes import living_processes, wait_until
from tests.harness import WAIT_S
from tests.simulations.deploy.fake_superlink import NOTHING, SuperLink, serving

MODULE = "simulations.deploy.superexec"
ROOT = Path(__file__).parents[3]


# --- errors of the SuperLink ----------------------------------------------------------------------


@pytest.fixture
def superlink() -> Iterator[SuperLink]:
    """One that answers the first question for work by an error, and later ones by "none"."""
    with serving() as server:
        server.answers["acquire-task"] = [500, NOTHING]
        yield server


@pytest.fixture
def started(superlink: SuperLink) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """A SuperExec of this SuperLink, by these words before its program."""
    processes = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        place = ["--insecure", "--runtime-api-address", superlink.address]
        command = [sys.executable, *words, command_path(SUPEREXEC), *place]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "FLWR_TELEMETRY_ENABLED": "0"}
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_after_an_error_it_asks_again(
    superlink: SuperLink, started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = started("-m", MODULE)
    assert wait_until(lambda: len(superlink.asked) >= 3, WAIT_S)
    assert process.poll() is None


@pytest.mark.slow
def test_what_this_is_for(
    superlink: SuperLink, started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Flower's ends; where a version asks again by itself, ours can go."""
    assert started().wait(WAIT_S) != 0
    assert superlink.asked == ["acquire-task"]


def test_the_superlink_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    starter = importlib.import_module(STARTER)
    given = getattr(starter, COMMAND)
    monkeypatch.setattr(starter, COMMAND, given)
    asked = ("127.0.0.1:1", None, None, 7, False)
    assert start_this_superexec()
    found = getattr(starter, COMMAND)(*asked)
    assert found == [sys.executable, "-m", MODULE, command_path(SUPEREXEC), *given(*asked)[1:]]
    assert "--parent-pid" in found


@pytest.mark.parametrize("program", ["flower-superlink", SUPEREXEC])
def test_a_flower_that_cannot_be_given_it_is_run_as_it_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: str,
) -> None:
    monkeypatch.delattr(importlib.import_module(STARTER), COMMAND)
    monkeypatch.setattr(superexec, "try_again", lambda _: False)
    monkeypatch.setattr(sys, "argv", sys.argv)
    file = tmp_path / program
    file.write_text("import sys; print(*sys.argv[1:])", encoding="utf-8")
    superexec.main([str(file), "--port", "1"])
    said = "this Flower's SuperExec cannot be made to ask again after an error 500"
    assert capsys.readouterr().out == f"{said}\n--port 1\n"


# --- its end --------------------------------------------------------------------------------------

STARTS_ONE = """
import subprocess, sys, time
subprocess.Popen([sys.executable, {file!r}])
print("started", flush=True)
time.sleep({stays})
sys.exit(7)
"""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "LOOK_S", 0.1)
    monkeypatch.setattr(programs, "ENDING_S", 2.0)


def play(folder: Path, lives: float, stays: float) -> int:
    """A program that ends after `stays` seconds, and its SuperExec after `lives`."""
    file = folder / SUPEREXEC
    file.write_text(f"import time; time.sleep({lives})", encoding="utf-8")
    program = folder / "program.py"
    program.write_text(STARTS_ONE.format(file=str(file), stays=stays), encoding="utf-8")
    return run_program([sys.executable, str(program)], dict(os.environ), folder, lambda _: None)


def test_a_program_without_it_is_ended(tmp_path: Path, quick: None) -> None:
    began = time.monotonic()
    with pytest.raises(RunFailed, match=rf"{SUPEREXEC}, .* has ended; .* start it again"):
        play(tmp_path, lives=2.0, stays=10 * WAIT_S)
    assert time.monotonic() - began < WAIT_S
    assert not [p for p in living_processes() if _runs_in(p.pid, tmp_path)]


def test_both_may_end(tmp_path: Path, quick: None) -> None:
    """As where somebody else stops a SuperLink, which first stops its SuperExec."""
    assert play(tmp_path, lives=2.0, stays=3.0) == 7


def _runs_in(pid: int, folder: Path) -> bool:
    try:
        return str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
