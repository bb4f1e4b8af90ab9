"""The common form of a benchmark's result, and timing helpers."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable


def finish(name: str, ratio: float, goal: float, **details: object) -> None:
    """Print the machine and, as the last line, the result as JSON."""
    print(
        f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    print(json.dumps({"name": name, "ratio": round(ratio, 4), "goal": goal, **details}))


def cpu_seconds(work: Callable[[], object], repeats: int) -> list[float]:
    """CPU seconds of each of `repeats` calls, after one uncounted call."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return times


def median(values: list[float]) -> float:
    """Median."""
    return statistics.median(values)
