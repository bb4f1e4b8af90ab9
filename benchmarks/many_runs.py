"""How long it takes to load many long runs: `python -m benchmarks.many_runs [--runs 50]`.

Writes run folders such as federated navigation leaves them: every client trains every round, and is scored every fifth.
Then loads their frames in a fresh process and prints seconds and peak memory. The ratio is the CPU time until rounds and
clients are there as frames over that of the plain reader for all lines, without frames.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np

from benchmarks.report import finish
from fedsuite.history import HISTORY, TIMINGS, HistoryWriter, load_runs, read_rows
from fedsuite.vln.metrics import AGENT

SCORES = (*(metric.name for metric in AGENT), "count")
TRAINING = ("steps", "imitation-loss", "sampled-loss", "gradient-norm", "decisions")
BYTES = 1_862_980
EVERY = 5
FRAMES = ("about", "rounds", "clients", "evaluations", "messages", "timing")


def write_runs(folder: Path, runs: int, rounds: int, clients: int) -> None:
    """run-000, run-001, ... in `folder`, each with a history and timings."""
    rng = np.random.default_rng(0)
    for number in range(runs):
        run = folder / f"run-{number:03d}"
        run.mkdir(parents=True)
        rows = [row for r in range(rounds + 1) for row in _round(r, clients, rng)]
        HistoryWriter(run / HISTORY).append(history for history, _ in rows)
        HistoryWriter(run / TIMINGS).append(timing for _, timing in rows)


def _round(
    number: int, clients: int, rng: np.random.Generator
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Lines of a round for history and timings."""
    scored = number % EVERY == 0
    for task, names, due in (("train", TRAINING, number > 0), ("evaluate", _scores(), scored)):
        for partition in range(clients) if due else ():
            head = {"round": number, "kind": "client", "partition": partition,
                    "name": f"house{partition:06d}", "task": task, "status": "ok"}  # fmt: skip
            up = BYTES if task == "train" else 0
            sent = {"reason": "", "num-examples": 276, "bytes-down": BYTES, "bytes-up": up}
            seconds = {"seconds": rng.random(), "compute-seconds": rng.random()}
            yield head | sent | {"metrics": _metrics(names, rng)}, head | seconds
    metrics = _metrics([f"train.{n}" for n in TRAINING[1:]] + ["local-steps"], rng)
    metrics |= _metrics(_scores(), rng) if scored else {}
    row = {"round": number, "kind": "round"}
    yield row | {"metrics": metrics}, row | {"seconds": rng.random(), "metrics": metrics}


def _scores() -> list[str]:
    return ["loss", *(f"val_seen.{name}" for name in SCORES)]


def _metrics(names: Sequence[str], rng: np.random.Generator) -> dict[str, float]:
    return dict(zip(names, rng.random(len(names)).tolist(), strict=True))


def load(folder: Path) -> list[dict[str, Any]]:
    """Load every frame; a line for each: rows, and seconds, CPU seconds with imports, and peak memory up to then."""
    begin, runs, lines = time.perf_counter(), load_runs(folder), []
    for name in FRAMES:
        line: dict[str, Any] = {"frame": name, "rows": len(getattr(runs, name))}
        line |= {"seconds": time.perf_counter() - begin, "CPU seconds": time.process_time()}
        lines.append(line | {"peak GB": getrusage(RUSAGE_SELF).ru_maxrss / 1024**2})
    return lines


def plain_seconds(run: Path) -> float:
    """CPU seconds of the plain reader for the history of one run."""
    begin = time.process_time()
    read_rows(run / HISTORY)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=365)
    parser.add_argument("--clients", type=int, default=61)
    parser.add_argument("--load", type=Path, help="load these runs and print JSON")
    given = parser.parse_args()
    if given.load:
        print(json.dumps(load(given.load)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_runs(Path(folder), given.runs, given.rounds, given.clients)
        command = [sys.executable, "-m", "benchmarks.many_runs", "--load", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        plain = given.runs * plain_seconds(Path(folder) / "run-000")
    lines = {line["frame"]: line for line in json.loads(done.stdout)}
    for line in lines.values():
        print(line)
    spent = lines["clients"]["CPU seconds"] - lines["about"]["CPU seconds"]
    seconds = round(lines["clients"]["seconds"], 2)
    finish("many_runs", spent / plain, 0.5, seconds=seconds, plain_cpu_seconds=round(plain, 2))


if __name__ == "__main__":
    main()
