"""`fedsuite watch`: what it shows of a run that grows, that has ended, that failed, and of one that nobody writes to."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fedsuite.history import LATE, Kind, event, line_about
from fedsuite.history.events import AFTER_THE_ROUNDS
from fedsuite.history.quiet import Changes
from simulations.results.watching import loop
from simulations.results.watching.loop import watch_run
from simulations.results.watching.screen import BLOCKS, clock, curve, screen, status_text
from simulations.results.watching.state import standing
from tests.growing import SECONDS, GrowingRun, finished
from tests.harness import ROOT, run_toy

Call = Callable[..., tuple[int, str, str]]
BOUND_S = 60.0
ESCAPE = "\x1b"


def shown(folder: Path, quiet_s: float = 0.0) -> str:
    console = Console(file=StringIO(), width=100)
    console.print(screen(standing(folder), quiet_s))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert ESCAPE not in text
    return str(text)


def test_a_running_run_tells_round_time_curves_clients_and_failures(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "run", rounds=10)
    assert "round 0/10" in shown(run.path) and "starting" in shown(run.path)
    for number in range(4):
        run.round(number, failure="out of memory" if number == 2 else "")
    run.ask(4, answered=2)
    with run.timings.path.open("a") as file:
        file.write('{"round": 4, "kind": "cli')  # being written
    now = standing(run.path)
    assert (now.status, now.done, now.planned, now.took_s) == ("running", 3, 10, SECONDS)
    assert now.left_s == pytest.approx(7 * SECONDS)
    assert now.metrics["val.sr"] == 0.2 and now.curves["val.sr"] == [0.0, 0.2]
    assert [(c.name, c.status) for c in now.clients] == [
        ("oak", "ok"), ("elm", "ok"), ("ash", "working"),
    ]  # fmt: skip
    assert [(f.round, f.client, f.reason) for f in now.failures] == [(2, "ash", "out of memory")]
    text = shown(run.path)
    for part in ("round 3/10", "about 0:14 min left", "train: 2 of 3 clients", "✓ oak", "… ash",
                 "failures: 1", "round 2  ash: out of memory", "val.sr", "▁█"):  # fmt: skip
        assert part in text
    run.timings.truncate(4)  # without the torn line
    run.round(4)
    assert standing(run.path).clients == [] and "train:" not in shown(run.path)


def test_a_client_that_no_step_waited_for_has_not_failed(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "run")
    run.round(1, "not waited for", LATE)
    assert not standing(run.path).failures and "failures" not in shown(run.path)


def test_who_is_lost_and_who_is_back_is_told(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "run")
    run.round(0)
    run.ask(1, answered=1)
    for kind, sign in ((Kind.LOST, "?"), (Kind.SENT_AGAIN, "…")):
        told = event(1, kind) | {"client": "ash", "reason": "Node Unavailable"}
        run.timings.append([told])
        text = shown(run.path)
        assert f"{sign} ash" in text and line_about(told) in text
    run.round(1)
    assert "ash" not in shown(run.path)


@pytest.mark.parametrize("prefix", ["", AFTER_THE_ROUNDS])
@pytest.mark.parametrize("kind", [*Kind, "moved"])
def test_no_event_ends_watching(tmp_path: Path, kind: Kind, prefix: str) -> None:
    """What the screen does not show as a number it tells; "moved" is of another version."""
    told = event(1, kind, prefix)
    fields = {
        "clients": 3,
        "rounds": 4,
        "task": "score",
        "done": 12,
        "client": "ash",
        "name": "ash",
    }
    fields |= {"reason": "Node Unavailable", "status": "ok", "seconds": 1.0, "metrics": {}}
    run = GrowingRun(tmp_path / "run")
    run.round(0)
    run.timings.append([told | fields])
    assert line_about(told | fields) in shown(run.path)
    assert ("1: moved" in shown(run.path) or "1: closing-moved" in shown(run.path)) == (
        kind == "moved"
    )


@pytest.mark.parametrize(
    "odd",
    [
        {"kind": "exchange", "clients": 3},
        {"kind": "exchange", "task": "train", "clients": "three"},
        {"kind": "exchange", "task": "train", "clients": 3, "partitions": 7},
        {"kind": "exchange", "task": "train", "clients": 3, "partitions": ["oak"]},
        {"kind": "exchange", "task": "train", "clients": float("inf")},
        {"kind": "client", "name": "oak", "task": "train", "partition": 0, "status": "error", "round": "one"},
        {"kind": "messages"},
        {"kind": "lost"},
        [],
        None,
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_event_is_one_line(tmp_path: Path, odd: object, call: Call) -> None:
    run = GrowingRun(tmp_path / "run")
    run.round(0)
    with run.timings.path.open("a") as file:
        file.write(json.dumps({"round": 1, **odd} if isinstance(odd, dict) else odd) + "\n")
    code, _, error = call("watch", str(run.path), engine=False)
    assert code == 2 and error.count("\n") == 1 and f"{run.timings.path}: " in error
    assert "times alone are lost" in error


def test_a_run_that_has_ended_is_shown_once(tmp_path: Path, call: Call) -> None:
    finished(tmp_path / "run")
    code, out, _ = call("watch", str(tmp_path / "run"), engine=False)
    assert code == 0 and "completed" in out and "round 4/4" in out and ESCAPE not in out
    assert "left" not in out


def test_real_and_failed_runs(tmp_path: Path, call: Call) -> None:
    run = run_toy(tmp_path / "runs")
    code, out, _ = call("watch", "run", engine=False)  # by its name inside runs/
    assert code == 0 and "round 4/4" in out and "train-loss" in out
    run.end("failed", "round 4, train: site-1: the toy broke", "run")
    assert "failed" in shown(run.path) and "round 4, train: site-1: the toy broke" in shown(
        run.path
    )
    code, _, error = call("watch", "nowhere", engine=False)
    assert code == 2 and "nowhere: no such run" in error


def test_nobody_at_work_is_said_and_lines_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = GrowingRun(tmp_path / "run")
    run.round(0)
    now = standing(run.path)
    assert status_text(now, 5.0) == "running, but by no process of this machine"
    assert "nothing new for 2:00 min" in status_text(now, 120.0)
    run.round(1)
    assert "left" in shown(run.path, 5.0) and "left" not in shown(run.path, 120.0)
    with run.run.locked():
        assert status_text(standing(run.path), 5.0) == "running"
    monkeypatch.setattr(loop, "PATIENCE_S", 0.1)
    console = Console(file=StringIO())
    watch_run(run.path, 0.05, console)
    assert "no longer watched" in console.file.getvalue()  # type: ignore[attr-defined]


def started(folder: Path, **options: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [
        sys.executable,
        "-m",
        "simulations.commands.cli",
        "watch",
        str(folder),
        "--every",
        "0.1",
    ]
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    return subprocess.Popen(command, env=environment, **given)  # type: ignore[call-overload, no-any-return]


def test_a_log_gets_a_line_per_round_until_the_end(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "run")
    run.round(0)
    process = started(run.path)
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    run.timings.append([event(1, Kind.LOST) | {"client": "ash", "reason": "gone"}])
    for number in (1, 2):
        run.round(number)
    lines += [process.stdout.readline() for _ in range(3)]
    run.end("failed", "no memory")
    rest, _ = process.communicate(timeout=BOUND_S)
    assert process.returncode == 0
    assert lines == [
        "run: running, round 0/4\n",
        "round 1: ash is lost (gone); waiting for it to come back\n",
        "round 1/4  train.loss 0.5  local-steps 10  (2.0 s)\n",
        "round 2/4  val.sr 0.2  train.loss 0.3333  local-steps 20  (2.0 s)\n",
    ]
    assert rest == "run: failed: no memory\n"


def test_ctrl_c_ends_quietly(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "run")
    run.round(0)
    main, side = os.openpty()
    process = started(run.path, stdout=side, stderr=side, stdin=subprocess.DEVNULL)
    os.close(side)
    seen, give_up = "", time.monotonic() + BOUND_S
    while "round 0/4" not in seen and time.monotonic() < give_up:
        seen += os.read(main, 4096).decode(errors="replace")
    process.send_signal(signal.SIGINT)
    assert process.wait(BOUND_S) == 0
    assert ESCAPE in seen and "Traceback" not in seen
    os.close(main)


def test_curves_and_clocks() -> None:
    assert curve([0, 1, 2, 3, 4, 5, 6, 7]) == BLOCKS
    assert curve([2.0, 2.0]) == "▁▁" and curve([1.0]) == "▁"
    assert curve([*[0.0] * 50, *[1.0] * 50], 4) == "▁▁██"
    assert [clock(s) for s in (0.4, 65, 3725)] == ["0:00 min", "1:05 min", "1:02:05 h"]


def test_changes_are_seen_once(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "run")
    changes = Changes([run.path])
    assert [changes.came(), changes.came()] == [True, False]
    run.round(0)
    assert [changes.came(), changes.came()] == [True, False] and changes.quiet_s < BOUND_S
