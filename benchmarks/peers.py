"""A short run of this project beside bare PyTorch loops and plain Flower: three workloads on one machine, in one go.

    python -m benchmarks.peers [--rounds N] [--work regression cnn many] [--sides bare-1 inprocess flower]

regression: softmax regression, 64 to 10, of 100 clients, 10 a round; cnn: a network of 1.1 million numbers on images of
28 x 28, the same clients; many: the regression with 5,000 clients, 50 a round. Sides: a bare loop in one process (bare-1)
and over a pool of two (bare-2), this project in process and on Ray with two workers, plain Flower with two actors; bare-2
and ray, of which the goals are, always play. All must end at the same weights: Flower adds in float32, in the
order of the replies, so that its may be off by a thousandth of the way from the first weights.

Every side plays in a process of its own. A round: the median time between two merges, those to the third left out. First
round: from the start of that process until the first round is merged. CPU seconds: user and system time of the whole run, of
that process and all below it (Ray's too: they are known by a variable of their environment), as last seen in /proc, which is
read ten times a second; what a process uses after that, and one that lives for less, is not counted. The ratio is the
worst of: on Ray over bare-2, over its goal; seconds until Ray's first round, over 8.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from benchmarks.peer_work import WORKS, Play, Weights, initial
from benchmarks.report import finish, median

SIDES = {
    "bare-1": "benchmarks.peer_work:bare_one",
    "bare-2": "benchmarks.peer_work:bare_two",
    "inprocess": "benchmarks.peer_ours:in_process",
    "ray": "benchmarks.peer_ours:on_ray",
    "flower": "benchmarks.plain_flower:play",
}
BASE, OURS = "bare-2", "ray"
FIRST_GOAL_S, LEFT_OUT, LIMIT_S, GRACE_S = 8.0, 3, 600.0, 10.0
TOLERANCE = 1e-3
MARK, TICKS = "FEDSUITE_PEERS", os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Took:
    """What a side took."""

    round_ms: float
    first_s: float
    cpu_s: float


class Family:
    """All processes with the mark in their environment, and the CPU seconds that each had when it was last seen."""

    def __init__(self, mark: str) -> None:
        self._mark = f"{MARK}={mark}".encode()
        self._seen: dict[tuple[str, str], float] = {}  # by process id and start

    def look(self) -> list[int]:
        """Those that are alive."""
        alive = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark not in (process / "environ").read_bytes().split(b"\0"):
                    continue
                fields = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile, or is somebody else's
            self._seen[process.name, fields[19]] = sum(map(int, fields[11:13])) / TICKS
            alive.append(int(process.name))
        return alive

    @property
    def cpu_s(self) -> float:
        return sum(self._seen.values())

    def end(self) -> list[int]:
        """Those that had to be killed, since they were still there some seconds later."""
        last = time.monotonic() + GRACE_S
        while (left := self.look()) and time.monotonic() < last:
            time.sleep(0.1)
        killed = left
        while left:
            for process in left:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.1)
            left = self.look()
        return killed


def play(side: str, work: str, rounds: int, begin: float, folder: Path) -> None:
    """In the side's own process: the run, its final weights and the seconds after `begin` at which rounds were merged."""
    module, _, name = SIDES[side].partition(":")
    played: Play = getattr(import_module(module), name)
    stamps: list[float] = []
    weights = played(work, rounds, lambda: stamps.append(time.time() - begin), folder)
    np.savez(folder / "weights.npz", **weights)  # type: ignore[arg-type]
    (folder / "stamps.json").write_text(json.dumps(stamps))


def measured(side: str, work: str, rounds: int) -> tuple[Took, Weights]:
    """A process that plays the side, watched to its end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder, mark = Path(name), f"{os.getpid()}-{side}-{work}"
        told = {"FLWR_HOME": str(folder / "flower"), MARK: mark, "OMP_NUM_THREADS": "1"}
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
        command = [sys.executable, "-m", "benchmarks.peers", "--work", work, "--play", side]
        command += ["--rounds", str(rounds), "--folder", name, "--begin", str(time.time())]
        family = Family(mark)
        with (folder / "said").open("w") as said:
            process = subprocess.Popen(
                command, stdout=said, stderr=said, env={**os.environ, **quiet, **told}
            )
            try:
                _watch(process, family)
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
                left = family.end()
                process.wait()
        if process.returncode or left:
            end = (folder / "said").read_text(errors="replace")[-3000:]
            raise SystemExit(
                f"{end}\n{work}, {side}: exit code {process.returncode} (it has {LIMIT_S:.0f} s), killed: {left}"
            )
        stamps = json.loads((folder / "stamps.json").read_text())
        assert len(stamps) == rounds
        with np.load(folder / "weights.npz") as kept:
            weights = dict(kept)
    between = np.diff(stamps)[LEFT_OUT - 1 :].tolist()
    return Took(1e3 * median(between), stamps[0], family.cpu_s), weights


def _watch(process: subprocess.Popen[bytes], family: Family) -> None:
    limit = time.monotonic() + LIMIT_S
    while process.poll() is None and time.monotonic() < limit:
        family.look()
        time.sleep(0.1)


def apart(one: Weights, other: Weights) -> float:
    """The Euclidean distance."""
    parts = (np.linalg.norm(one[name] - value) for name, value in other.items())
    return math.hypot(*map(float, parts))


def compared(work: str, sides: list[str], rounds: int) -> dict[str, Took]:
    """Every side of one workload; AssertionError where its weights are not those of the bare loop over two processes."""
    took: dict[str, Took] = {}
    expected: Weights = {}
    begun = {k: v.numpy() for k, v in initial(work).items()}
    for side in sides:
        took[side], found = measured(side, work, rounds)
        expected = expected or found
        assert found.keys() == expected.keys()
        off = apart(found, expected) / apart(expected, begun)
        own = took[side]
        print(
            f"{work:11}{side:10}{own.round_ms:9.1f} ms a round,{own.first_s:6.1f} s to the first,"
            f"{own.cpu_s:6.1f} CPU s; weights off by {off:.1e}",
            flush=True,
        )
        assert off <= TOLERANCE, f"{work}, {side}: not the weights of {sides[0]}"
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=0, help="else 40, 10 and 30")
    parser.add_argument("--work", nargs="+", choices=WORKS, default=[*WORKS])
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=[*SIDES])
    parser.add_argument("--play", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--begin", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play:
        play(given.play, given.work[0], given.rounds, given.begin, given.folder)
        return
    if given.rounds and given.rounds <= LEFT_OUT:
        parser.error(f"--rounds: at least {LEFT_OUT + 1}, since {LEFT_OUT} are left out")
    others = [side for side in SIDES if side in given.sides and side not in (BASE, OURS)]
    worst, results = 0.0, {}
    for work in given.work:
        rounds, goal = given.rounds or WORKS[work].rounds, WORKS[work].goal
        took = compared(work, [BASE, OURS, *others], rounds)
        times, first = took[OURS].round_ms / took[BASE].round_ms, took[OURS].first_s
        print(
            f"{work}: on Ray {times:.2f} times {BASE} (at most {goal}), first round {first:.1f} s"
        )
        worst = max(worst, times / goal, first / FIRST_GOAL_S)
        rows = {side: {k: round(v, 2) for k, v in asdict(t).items()} for side, t in took.items()}
        results[work] = {"rounds": rounds, "times": round(times, 2), "goal": goal, **rows}
    finish("peers", worst, 1.0, **results)


if __name__ == "__main__":
    main()
