"""On a GPU: in whose code the host is while the GPU has nothing to do, in steps of houses side by side or in rounds.

    python -m benchmarks.gpu_idle [--houses 12] [--steps 8] [--launched] [--depth 2] [--device cuda]
    python -m benchmarks.gpu_idle --config fedvln/r2r-envdrop [--set KEY=VALUE ..] [--first 3] [--rounds 2] [--depth 2]

Steps are those of `gpu_steps`, replayed as CUDA graphs unless `--launched`. Rounds are those of a run in this process, from
the end of round `--first` on, with what its keys say of evaluations; few, since every kernel is an event of some hundred
bytes. torch's profiler says when a kernel or a copy was at work; every millisecond a thread notes in which function of this
project the other threads are, with as many callers as `--depth` says. A thread that waits for others counts only where all
do.

Printed: of the time without work on the GPU the milliseconds by function, of one step or round, and how much of all the
time that is. The result is the whole share without work over 0.4, what the goal of 60 % at work leaves.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks import vln_optimizer_step
from benchmarks.gpu_steps import NARROW, WIDE, step_of
from benchmarks.pretended_graphs import PretendedGraphs
from benchmarks.report import finish
from fedsuite.settings.devices import check_device, device_of
from fedsuite.storage.progress import silent
from fedsuite.vln.model.recording import Recordings
from fedsuite.vln.training.stacked import train_stacked
from simulations.engines.inprocess import run_inprocess
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request

GOAL_IDLE, EVERY_S = 0.4, 0.001
AT_WORK = ("kernel", "gpu_memcpy", "gpu_memset")  # categories of a trace
OURS = {"fedsuite", "clients", "strategies", "simulations"}
# Where a thread waits for another one; autograd has threads of its own for a GPU.
_WAITS = ("threading.py", "queue.py", "_base.py", "selectors.py"), ("_engine_run_backward",)
Place = str  # "file.py:function < file.py:function", the innermost first
Look = tuple[int, dict[Place, float]]  # when, ns; shares of the places, 1 in all


def looked(frames: Sequence[FrameType], depth: int) -> dict[Place, float]:
    """Where threads are that stand at these frames: those that work, or else all of them."""
    found = [(place_of(frame, depth), _waits(frame)) for frame in frames]
    found = [(place, waits) for place, waits in found if place]
    working = [place for place, waits in found if not waits] or [place for place, _ in found]
    number = Counter(working or ["elsewhere"])
    return {place: n / number.total() for place, n in number.items()}


def place_of(frame: FrameType | None, depth: int) -> Place:
    """The innermost functions of this project; "" where there is none."""
    names = list[str]()
    while frame is not None and len(names) < depth:
        if frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
            names.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(names)


def _waits(frame: FrameType) -> bool:
    files, functions = _WAITS
    return Path(frame.f_code.co_filename).name in files or frame.f_code.co_name in functions


class Watch:
    """Looks and kernels from `start` to `stop`. idle: by place, ns; busy, whole: ns."""

    def __init__(self, depth: int) -> None:
        self.depth, self.looks = depth, list[Look]()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        found = torch.cuda.is_available()
        self._profile = profile(activities=[ProfilerActivity.CUDA]) if found else None

    def start(self) -> None:
        if self._profile is not None:
            self._profile.start()
        self._begin = time.time_ns()
        self._thread.start()

    def stop(self) -> None:
        end = time.time_ns()
        self._over.set()
        self._thread.join()
        trace = {"traceEvents": []} if self._profile is None else trace_of(self._profile)
        window = self._begin, end
        busy = at_work(trace, window)
        self.idle = idle_by_place(self.looks, busy, window)
        self.busy, self.whole = int((busy[:, 1] - busy[:, 0]).sum()), end - self._begin

    def _look(self) -> None:
        own = threading.get_ident()
        while not self._over.wait(EVERY_S):
            now = time.time_ns()
            frames = [frame for ident, frame in sys._current_frames().items() if ident != own]
            self.looks.append((now, looked(frames, self.depth)))


def trace_of(profiled: profile) -> dict[str, Any]:
    """What it has seen since its start, which ends here."""
    profiled.stop()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiled.export_chrome_trace(str(file))
        found: dict[str, Any] = json.loads(file.read_text())
    return found


def at_work(
    trace: Mapping[str, Any], window: tuple[int, int], kinds: Collection[str] = AT_WORK
) -> np.ndarray:
    """When the GPU had work, [n, 2] ns as of time.time_ns, in order and apart; kinds: of a trace's events."""
    base = int(trace.get("baseTimeNanoseconds", 0))
    events = [e for e in trace["traceEvents"] if e.get("cat") in kinds and "dur" in e]
    spans = [(base + 1000 * float(e["ts"]), base + 1000 * (float(e["ts"]) + float(e["dur"]))) for e in events]  # fmt: skip
    found = list[list[int]]()
    for begin, end in sorted((max(int(b), window[0]), min(int(e), window[1])) for b, e in spans):
        if end <= begin:
            continue
        if found and begin <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([begin, end])
    return np.array(found, np.int64).reshape(-1, 2)


def idle_by_place(
    looks: Sequence[Look], busy: np.ndarray, window: tuple[int, int]
) -> dict[Place, float]:
    """ns of the window outside `busy`, shared out as looks in that time say; a look stands for the time since the last."""
    edges = np.array([window[0], *(now for now, _ in looks)])
    # Time at work before any moment: the whole spans before it, and the part of the one that it is in.
    before = np.concatenate([[0], (busy[:, 1] - busy[:, 0]).cumsum()])
    which = np.searchsorted(busy[:, 0], edges, side="right")
    worked = before[which]
    inside = which > 0
    worked[inside] -= np.maximum(busy[which[inside] - 1, 1] - edges[inside], 0)
    idle, found = np.diff(edges) - np.diff(worked), Counter[Place]()
    for rest, (_, places) in zip(idle.tolist(), looks, strict=True):
        for place, share in places.items():
            found[place] += rest * share
    return dict(found)


def steps(given: argparse.Namespace, watch: Watch) -> None:
    """Replayed or launched ones, after three that are not looked at."""
    check_device(given.device)
    torch.set_num_threads(1)
    on_gpu = given.device == "cuda"
    vln_optimizer_step.SIZES = WIDE if on_gpu else NARROW
    recordings = None if given.launched else Recordings(None if on_gpu else PretendedGraphs())
    train = partial(train_stacked, recordings=recordings)
    step = step_of(train, given.houses, device_of(given.device))
    for _ in range(3):
        step()
    watch.start()
    for _ in range(given.steps):
        step()
    if on_gpu:
        torch.cuda.synchronize()
    watch.stop()


def rounds(given: argparse.Namespace, watch: Watch) -> None:
    """Rounds of a run, from the end of the first ones on."""
    with tempfile.TemporaryDirectory() as folder:
        last = given.first + given.rounds
        keys = dict(pair.split("=", 1) for pair in given.set)
        keys |= {
            "device": given.device,
            "num-rounds": str(last),
            "results-dir": folder,
            "name": "idle",
        }
        changes = ["=".join(pair) for pair in keys.items()]
        (plan,) = plan_experiment(Request(Path(given.config), changes)).plans.values()
        plan.system.prepare(plan.settings, silent)

        def note(event: Mapping[str, Any]) -> None:
            if event["kind"] == "round" and event["round"] == given.first:
                watch.start()
            if event["kind"] == "round" and event["round"] == last:
                watch.stop()

        run_inprocess(plan.run_config, note)


def told(watch: Watch, number: int) -> list[str]:
    """Lines, the longest first, until 95 % of the idle time is told."""
    total, so_far, lines = sum(watch.idle.values()), 0.0, list[str]()
    for place, idle in sorted(watch.idle.items(), key=lambda one: -one[1]):
        if so_far > 0.95 * total:
            break
        so_far += idle
        lines.append(f"{idle / number / 1e6:9.2f} ms {100 * idle / watch.whole:5.1f} %  {place}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--houses", type=int, default=12)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--launched", action="store_true")
    parser.add_argument("--config", help="of a run, whose rounds are looked at")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--first", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    given = parser.parse_args()
    watch = Watch(given.depth)
    (rounds if given.config else steps)(given, watch)
    number = given.rounds if given.config else given.steps
    print("\n".join(told(watch, number)))
    idle = 1 - watch.busy / watch.whole
    each = round(watch.whole / number / 1e6, 1)
    finish("gpu_idle", idle / GOAL_IDLE, 1.0, ms=each, idle=round(idle, 4), device=given.device)


if __name__ == "__main__":
    main()
