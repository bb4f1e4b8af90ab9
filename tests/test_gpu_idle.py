"""What `benchmarks.gpu_idle` makes of a trace and of looks at threads; the GPU is the one thing that is not there."""

import argparse
import threading
import time

import numpy as np
import pytest
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks import gpu_idle
from benchmarks.gpu_idle import Look, Watch, at_work, idle_by_place, told, trace_of


def by_moments(
    looks: list[Look], busy: list[list[int]], window: tuple[int, int]
) -> dict[str, float]:
    """The same, one ns after another."""
    found = dict[str, float]()
    for moment in range(*window):
        place = next((places for now, places in looks if moment < now), None)
        if place is not None and not any(begin <= moment < end for begin, end in busy):
            for name, share in place.items():
                found[name] = found.get(name, 0.0) + share
    return found


@pytest.mark.parametrize("seed", range(20))
def test_idle_time_is_shared_out_as_by_single_moments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = np.unique(rng.integers(0, 200, 2 * rng.integers(0, 12)))
    busy = edges[: len(edges) // 2 * 2].reshape(-1, 2)
    times = np.unique(rng.integers(1, 200, rng.integers(1, 15))).tolist()
    shares = [{"a": 1.0}, {"b": 0.25, "c": 0.75}]
    looks = [(now, shares[rng.integers(2)]) for now in times]
    found = idle_by_place(looks, busy, (0, 200))
    assert {k: v for k, v in found.items() if v} == by_moments(looks, busy.tolist(), (0, times[-1]))


def test_work_that_overlaps_counts_once_and_inside_the_window_alone() -> None:
    spans = [("kernel", 5, 10), ("gpu_memcpy", 0, 7), ("kernel", 30, 40), ("cpu_op", 0, 99), ("kernel", 90, 20)]  # fmt: skip
    events = [{"cat": cat, "ts": ts, "dur": dur} for cat, ts, dur in spans]
    trace = {"traceEvents": [*events, {"cat": "kernel", "ts": 1}], "baseTimeNanoseconds": 1_000_000}
    found = at_work(trace, (1_002_000, 1_100_000)) - 1_000_000
    assert found.tolist() == [[2_000, 15_000], [30_000, 70_000], [90_000, 100_000]]
    assert at_work({"traceEvents": []}, (0, 1)).shape == (0, 2)


def test_times_of_a_trace_are_those_of_the_clock() -> None:
    profiled = profile(activities=[ProfilerActivity.CPU])
    profiled.start()
    with record_function("asleep"):
        begin = time.time_ns()
        time.sleep(0.05)
        end = time.time_ns()
    (found,) = at_work(trace_of(profiled), (0, 2 * end), ["user_annotation"])
    assert np.abs(found - [begin, end]).max() < 10_000_000


def test_who_waits_counts_only_where_all_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_idle, "OURS", {__name__.partition(".")[0]})
    over, works = threading.Event(), threading.Event()

    def waits() -> None:
        over.wait()

    def computes() -> None:
        while not works.is_set():
            sum(range(100))

    threads = [threading.Thread(target=one) for one in (waits, waits, computes)]
    watch = Watch(depth=1)
    for thread in threads:
        thread.start()
    watch.start()
    threads[0].join(0.3)
    works.set()
    threads[2].join()
    threads[0].join(0.3)
    over.set()
    watch.stop()
    (name,) = {place.partition(":")[0] for look in watch.looks for place in look[1]}
    idle = {place.removeprefix(f"{name}:"): ns / watch.whole for place, ns in watch.idle.items()}
    own = "test_who_waits_counts_only_where_all_wait"
    assert 0.3 < idle["computes"] < 0.7 and idle["waits"] > idle[own] > 0.05, idle


def test_steps_are_told_by_function(capsys: pytest.CaptureFixture[str]) -> None:
    given = argparse.Namespace(houses=2, steps=1, device="cpu", launched=False)
    watch = Watch(depth=2)
    gpu_idle.steps(given, watch)
    assert watch.busy == 0 and sum(watch.idle.values()) == pytest.approx(watch.whole, rel=0.2)
    lines = told(watch, 1)
    assert any("stacked.py:" in line and "train_stacked" in line for line in lines), lines
    assert sum(float(line.split("%")[0].split()[-1]) for line in lines) > 70
