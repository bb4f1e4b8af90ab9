"""A SuperNode that asks more often than Flower's: its loop's clock, and only that, is another."""

import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from simulations.deploy import polling
from tests.harness import ROOT


def test_flowers_loop_has_the_clock_that_is_replaced() -> None:
    """Also what a new version of Flower is held against: the loop sleeps by `time.sleep`, 3 s when idle."""
    source = Path(__import__(polling.LOOP, fromlist=["time"]).__file__).read_text(encoding="utf-8")
    assert "time.sleep(3)" in source and "from time import" not in source


class Watch:
    """Time that passes by sleeping alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.slept = 1000.0, list[float]()
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.pass_by)

    def pass_by(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_a_node_without_messages_asks_more_and_more_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message that comes at any time waits a twentieth of what it has been waited for, and Flower's loop as often as said
    where messages come."""
    watch = Watch(monkeypatch)
    clock = polling.Clock(0.7)
    began = watch.now
    while watch.now < began + 600:
        clock.sleep(3)
        assert watch.slept[-1] <= max(0.7, 0.05 * (watch.now - began))
    assert watch.slept[:10] == [0.7] * 10 and watch.slept[-1] == polling.LONGEST_S
    assert watch.slept == sorted(watch.slept)
    clock.sleep(0.5)  # one has come, and its answer is waited for
    watch.slept.clear()
    clock.sleep(3)
    assert watch.slept == [0.7]


def test_answers_of_its_clients_are_seen_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    clock = polling.Clock(0.7)
    clock.sleep(3)
    began = watch.now
    watch.slept.clear()
    while watch.now < began + 60:
        clock.sleep(0.5)
    assert watch.slept[0] == polling.FIRST_LOOK_S and watch.slept[-1] == 0.5
    assert polling.Clock(0.7).time is time.time


def test_who_asks_more_often_than_flower_looks_for_answers_as_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(monkeypatch)
    polling.Clock(0.05).sleep(0.5)
    assert watch.slept == [0.05]


def test_flowers_superexec_has_what_is_replaced() -> None:
    loop = __import__(polling.EXEC_LOOP, fromlist=["time"])
    source = Path(loop.__file__).read_text(encoding="utf-8")
    assert "time.sleep(task_poll_interval)" in source and loop.time is time
    assert f"{polling.GIVEN_WORK}(launch_result, combined_res.task)" in source


def test_an_idle_superexec_asks_more_and_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, work = Watch(monkeypatch), list[tuple[Any, ...]]()
    loop = ModuleType("loop")
    loop.time, loop._handle_launch_result = time, lambda *given: work.append(given)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, polling.EXEC_LOOP, loop)
    assert polling.ask_seldom_when_idle() and not polling.ask_seldom_when_idle()
    began = watch.now
    while watch.now < began + 600:
        loop.time.sleep(0.2)
        assert watch.slept[-1] <= max(0.2, 0.05 * (watch.now - began))
    assert watch.slept[:10] == [0.2] * 10 and watch.slept[-1] == polling.LONGEST_EXEC_S
    loop._handle_launch_result("accepted", "a task")
    loop.time.sleep(0.2)
    assert work == [("accepted", "a task")] and watch.slept[-1] == 0.2
    loop.time.sleep(30)  # more seldom than that was asked for
    assert watch.slept[-1] == 30 and loop.time.time is time.time


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
        "print(__name__, sys.argv, loop.time.own_s)\nsys.exit(7)\n"
    )
    command = [sys.executable, "-m", "simulations.deploy.polling", "0.5", str(program), "--a", "b"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == f"__main__ {[str(program), '--a', 'b']} 0.5"
    assert done.returncode == 7


LEAVES = """
import sys, threading, time
sys.path.insert(0, {root!r})
from simulations.deploy import polling
polling.ask_every = polling.try_again = lambda *_: True
polling._over_any_line = lambda: True
polling.main(["1", {program!r}])
print("ended by itself", flush=True)
"""
ON_ITS_OWN = (
    "import threading, time; threading.Thread(target=time.sleep, args=[{s}], daemon={d}).start()"
)


@pytest.mark.parametrize("lives_on", [True, False])
def test_a_supernode_whose_loop_has_ended_ends(tmp_path: Path, lives_on: bool) -> None:
    """Where it would live on by threads that wait for nobody."""
    program = tmp_path / "program.py"
    program.write_text(ON_ITS_OWN.format(s=600, d=not lives_on), encoding="utf-8")
    code = LEAVES.format(root=str(ROOT), program=str(program))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    wanted = "the SuperNode has stopped asking for messages; why stands above"
    assert done.stdout.strip() == (wanted if lives_on else "ended by itself"), done.stderr
    assert done.returncode == int(lives_on)
