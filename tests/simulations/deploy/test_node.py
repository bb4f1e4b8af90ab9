"""`fedsuite deploy node` with a program that stands for flower-supernode: waiting, refusals, and nothing left behind."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import simulations.deploy.node as deployed
from fedsuite.errors import InputError, RunFailed
from simulations.deploy.kit.address import Address
from simulations.deploy.node import run_node, start_of
from simulations.deploy.polling import ANOTHER
from simulations.engines.processes import can_follow, living_processes, wait_until
from tests.deployment import answering, new_kit, write_program
from tests.harness import ROOT, WAIT_S

ONLINE = "print('INFO :      SuperNode ID: 7', flush=True)\nprint('INFO : at work', flush=True)"


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    return new_kit(tmp_path / "kit")


@pytest.fixture
def superlink(kit: Path) -> Iterator[Address]:
    with answering(kit) as address:
        yield address


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployed, "AGAIN_S", 0.02)


Start = Callable[..., list[str]]


@pytest.fixture
def start(kit: Path, superlink: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """`start(refusals, then, words)`: run the node of oak until it gives up; what it said, its error last."""

    def run(refusals: int, then: str = ONLINE, **words: str) -> list[str]:
        program = write_program(tmp_path / "flower-supernode", refusals, then, **words)
        monkeypatch.setattr(deployed.NodeStart, "command", lambda *_: [str(program)])
        said: list[str] = []
        file = kit / "nodes" / "oak" / "node.toml"
        with pytest.raises((RunFailed, InputError)) as caught:
            run_node(start_of(file, str(superlink), None, None, 0), said.append)
        return [*said, str(caught.value)]

    return run


def tries(tmp_path: Path) -> int:
    return (tmp_path / "flower-supernode.count").stat().st_size


def test_a_node_that_was_here_before_waits_for_its_earlier_self(
    start: Start, superlink: Address, tmp_path: Path, quick: None
) -> None:
    first = start(0)
    assert first[:2] == [f"oak is connected to {superlink}; Ctrl-C ends it", "INFO : at work"]
    assert first[2].startswith("flower-supernode ended with exit code 0 after it had connected")
    (tmp_path / "flower-supernode.count").unlink()
    second = start(3)
    assert tries(tmp_path) == 4
    assert second[0].startswith(
        f"{superlink} refuses oak: its earlier self is not known to be gone yet"
    )
    assert second[1:3] == first[:2] and len(second) == 4


def test_it_does_not_wait_for_ever(
    start: Start, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(0)
    monkeypatch.setattr(deployed, "REFUSED_S", 0.5)
    said = start(10**6)
    assert (
        len(said) == 2 and "its key is not registered there, or another process uses it" in said[1]
    )


def test_an_unregistered_key_is_said_at_once(start: Start, tmp_path: Path) -> None:
    (said,) = start(10**6)
    assert tries(tmp_path) == 1
    assert "refuses oak: its key is not registered there" in said
    assert "node.key.pub with `fedsuite deploy register`, then start the node again" in said


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("Exit Code: 606\nincompatible\n", "another version of Flower; install the same minor version"),
        ("Exit Code: 305\nClient error '401 Unauthorized'\n", "does not take the node's signature; set the clocks"),
        ("Exit Code: 302\nUnable to\nparse\n", "ended with exit code 1: Exit Code: 302 Unable to parse"),
    ],
)  # fmt: skip
def test_other_refusals_are_one_line(start: Start, words: str, complaint: str) -> None:
    (said,) = start(10**6, words=words)
    assert complaint in said and "\n" not in said


def test_what_this_flower_cannot_be_made_to_do_is_said(start: Start, superlink: Address) -> None:
    """Before it has connected, too."""
    line = f"{ANOTHER}SuperNode cannot be made to wait"
    said = start(0, f"print({line!r})\n{ONLINE}")
    assert said[:2] == [line, f"oak is connected to {superlink}; Ctrl-C ends it"]


def test_a_wrong_authority_starts_nothing(start: Start, kit: Path, tmp_path: Path) -> None:
    other = new_kit(tmp_path / "other")
    (kit / "nodes" / "oak" / "ca.crt").write_bytes((other / "ca" / "ca.crt").read_bytes())
    (said,) = start(0)
    assert "is not signed by the authority in" in said
    assert not (tmp_path / "flower-supernode.count").exists()


def test_an_unreachable_superlink_is_waited_for_and_said_once(
    kit: Path, quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(kit) as address:
        pass  # a port that was free a moment ago
    asked: list[Address] = []
    really = deployed.ask

    def ask(superlink: Address, authority: Path) -> object:
        asked.append(superlink)
        if len(asked) < 4:
            return really(superlink, authority)
        return None

    monkeypatch.setattr(deployed, "ask", ask)
    program = write_program(tmp_path / "flower-supernode", 0, ONLINE)
    monkeypatch.setattr(deployed.NodeStart, "command", lambda *_: [str(program)])
    said: list[str] = []
    with pytest.raises(RunFailed, match="after it had connected"):
        file = kit / "nodes" / "oak" / "node.toml"
        run_node(start_of(file, str(address), None, None, 0), said.append)
    assert len(asked) == 4
    assert "cannot be reached" in said[0] and said[0].endswith("trying on")
    assert said[1] == f"{address} answers" and len(said) == 4


def test_what_it_is_started_with(kit: Path) -> None:
    folder = kit / "nodes" / "elm"
    start = start_of(folder / "node.toml", "", None, None, 9094, 0.5)
    _, *ours, program = start.command()[:5]
    assert ours == ["-m", "simulations.deploy.polling", "0.5"]
    assert Path(program).name == "flower-supernode"
    words = start.command()[5:]
    assert start.command("/warm") == ["/warm/flower-supernode", *words]
    assert words == [
        *("--superlink", "localhost:9092", "--root-certificates", str(folder / "ca.crt")),
        *("--auth-supernode-private-key", str(folder / "node.key")),
        *(
            "--host",
            "127.0.0.1",
            "--port",
            "9094",
            "--node-config",
            f'node="{folder / "node.toml"}"',
        ),
    ]
    (folder / "node.toml").write_text('name = "elm"\nroster = "roster.json"\nstate-dir = "state"\n')
    with pytest.raises(InputError, match="superlink is empty, expected HOST:PORT; set it, or give"):
        start_of(folder / "node.toml", "", None, None, 0)
    with pytest.raises(
        InputError, match=r'--superlink: expected HOST:PORT such as .*, got "localhost"'
    ):
        start_of(folder / "node.toml", "localhost", None, None, 0)


# --- processes ------------------------------------------------------------------------------------

COMMAND = """
import shutil, sys
import simulations.deploy.node as deployed
program, found = sys.argv.pop(), shutil.which
deployed.command_path = lambda _: program
shutil.which = lambda name, **where: program if program.endswith(name) else found(name, **where)
from simulations.commands.cli import main
main()
"""
# A client that will not end when it is asked to.
CLIENT = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"


@pytest.mark.skipif(not can_follow(), reason="processes can be followed on Linux only")
@pytest.mark.parametrize(
    ("number", "clients"),
    [(signal.SIGTERM, "--cold"), (signal.SIGINT, "--cold"), (signal.SIGKILL, "--warm")],
)
def test_what_it_started_ends_with_it(
    kit: Path, superlink: Address, tmp_path: Path, number: signal.Signals, clients: str
) -> None:
    then = f"""
leaf = subprocess.Popen([sys.executable, '-c', {CLIENT!r}], start_new_session=True)
open({str(tmp_path / "leaf")!r}, 'w').write(str(leaf.pid))
{ONLINE}
time.sleep(300)"""
    program = write_program(tmp_path / "flower-supernode", 0, then)
    file = kit / "nodes" / "oak" / "node.toml"
    words = ["deploy", "node", str(file), "--superlink", str(superlink), clients, str(program)]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    watchdog = threading.Timer(WAIT_S, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        assert re.fullmatch(r"[-\dT:.]+Z INFO : at work\n", lines[1]), process.communicate()
        leaf = int((tmp_path / "leaf").read_text())
        assert leaf in {p.pid for p in living_processes()}
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        gone = wait_until(lambda: leaf not in {p.pid for p in living_processes()}, 30)
        assert gone
        if number == signal.SIGKILL:
            return
        assert (process.returncode, out[-9:], err) == (130, " stopped\n", "")
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()


def test_two_at_once_are_not_let_in(
    kit: Path, superlink: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployed, "LOCK_PATIENCE_S", 0.1)
    start = start_of(kit / "nodes" / "oak" / "node.toml", str(superlink), None, None, 0)
    before = time.monotonic()
    with deployed._alone(start), pytest.raises(InputError, match="another `fedsuite deploy node`"):
        run_node(start, print)
    assert time.monotonic() - before < 10
