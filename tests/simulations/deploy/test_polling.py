"""A SuperNode that asks more often than Flower's: its loop's clock, and only that, is another."""

import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from simulations.deploy import polling
from tests.harness import ROOT


def test_flowers_loop_has_the_clock_that_is_replaced() -> None:
    """Also what a new version of Flower is held against: the loop sleeps by `time.sleep`, 3 s when idle."""
    source = Path(__import__(polling.LOOP, fromlist=["time"]).__file__).read_text()
    assert "time.sleep(3)" in source and "from time import" not in source


def test_the_clock_cuts_sleeps_short_and_is_otherwise_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    clock = polling.Clock(0.7)
    for seconds in (3, 0.5):
        clock.sleep(seconds)
    assert slept == [0.7, 0.5] and clock.monotonic is time.monotonic


@pytest.mark.parametrize("known", [True, False])
def test_a_loop_without_such_a_clock_is_left_alone(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = ModuleType("loop")
    if known:
        loop.time = time  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, polling.LOOP, loop)
    assert polling.ask_every(0.7) is known
    assert isinstance(getattr(loop, "time", None), polling.Clock) is known


def test_the_program_runs_as_if_started_by_itself(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(
        "import sys, flwr.supernode.start_client_internal as loop\n"
        "print(__name__, sys.argv, loop.time.longest_s)\nsys.exit(7)\n"
    )
    command = [sys.executable, "-m", "simulations.deploy.polling", "0.5", str(program), "--a", "b"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == f"__main__ {[str(program), '--a', 'b']} 0.5"
    assert done.returncode == 7
