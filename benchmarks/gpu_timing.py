"""How long some work takes on a GPU, and how many kernels; on a CPU how many of torch's operators."""

import math
import time
from collections.abc import Callable
from unittest.mock import patch

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.operations import Counting
from benchmarks.pretended_graphs import PretendedGraphs
from benchmarks.report import median
from fedsuite.vln.model import products


def seconds(work: Callable[[], object], repeats: int, device: str) -> float:
    """Median time of a call, after two that are not counted."""

    def wait() -> float:
        if device != "cpu":
            torch.cuda.synchronize()
        return time.perf_counter()

    times = []
    for _ in range(2 + repeats):
        start = wait()
        work()
        times.append(wait() - start)
    return median(times[2:])


def measured(
    name: str,
    work: Callable[[], object],
    number: int,
    repeats: int,
    device: str,
    graphs: PretendedGraphs | None = None,
) -> dict[str, float]:
    """Milliseconds and operations of a call, of one house; on a GPU how busy it is; graphs: replayed by the work."""
    taken = seconds(work, repeats, device)
    told = {f"{name}-ms": 1000 * taken / number}
    if device == "cpu":
        # As on a GPU: without oneDNN, which multiplies house by house.
        before = graphs.replays if graphs else 0
        with patch.object(products, "_LARGE", math.inf), Counting() as operations:
            work()
        replays = graphs.replays - before if graphs else 0
        return told | {f"{name}-operations": (operations.number + replays) / number}
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        work()
    # Besides kernels and copies there is what the host calls to launch them.
    kernels = [e for e in found.events() if e.device_type.name == "CUDA"]
    at_work_s = sum(e.time_range.elapsed_us() for e in kernels) / 1e6
    return told | {f"{name}-operations": len(kernels) / number, f"{name}-busy": at_work_s / taken}
