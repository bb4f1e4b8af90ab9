"""Seconds and memory of a round with thousands of clients on one host, over those with 61.

    python -m benchmarks.many_clients [--clients 61 610 6100] [--rounds 16] [--engine inprocess] [--cache DIR] [--draws 4]

Generated houses, a tenth of them unseen; 12 train in every round, and its evaluation asks 6 seen and 6 unseen ones. They are
made once and kept in the cache folder, by their settings. Every number of clients has a process of its own, which prepares,
starts and plays a whole run with its report. Start-up: from the start of that process until the server may ask its first
client. A round: its mean, the first left out. Memory and open files: the most at the end of any round, of the process, or of
all processes of the simulation together (memory that they share is counted in each). CPU seconds are those of the same
processes: they say more than the clock where a machine has other work. Houses differ, so that rounds of other houses are
other work: instructions walked and optimizer steps of a round stand beside its seconds, and the smallest number of houses is
generated and played `--draws` times, from other seeds, of which means are taken.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import finish
from fedsuite.history import HISTORY, read_rows
from fedsuite.runs.folder import folder_of
from fedsuite.settings.config import read_config
from fedsuite.storage.progress import in_lines, silent
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.sources import prepare_sources
from simulations.engines.inprocess import run_inprocess
from simulations.engines.ray.launch import run_ray
from simulations.engines.ray.placement import Placement
from simulations.systems import load_system, to_run_config

TRAINED, ASKED, OPEN = 12, 6, 12  # of a round, of each kind in an evaluation, open in a process
MARK = "FEDSUITE_MANY_CLIENTS"
TICKS = os.sysconf("SC_CLK_TCK")


def settings(clients: int, rounds: int, cache: str, runs: str, draw: int = 0) -> FedVLNConfig:
    """Small houses and a small agent; the same work in a round whatever the number of clients."""
    unseen = clients // 10
    return read_config(
        FedVLNConfig,
        {
            "name": f"many-{clients}-{draw}", "results-dir": runs, "num-rounds": rounds,
            "evaluation-clients": ASKED, "open-clients": OPEN,
            "data": {
                "cache-dir": cache, "generated-seen-houses": clients - unseen, "generated-unseen-houses": unseen,
                "generated-paths-per-house": 6, "generated-feature-size": 8, "generated-seed": draw,
            },
            "agent": {
                "hidden-size": 64, "word-embedding-size": 32, "action-embedding-size": 16, "angle-feature-size": 16,
                "max-actions": 15, "train-max-actions": 10,
            },
            "objective": {"kind": "imitation", "learning-rate": 1e-3},
            "federation": {
                "participation-rate": (TRAINED + 0.5) / (clients - unseen), "local-epochs": 4, "client-optimizer": "fresh",
                "server-learning-rate": 1.0, "aggregation": "parallel",
            },
            "evaluation": {"selection": "best-val-unseen"},
        },
    )  # fmt: skip


@dataclass(frozen=True)
class Usage:
    """Of all processes with the mark: CPU seconds so far, memory in MB, open files."""

    cpu_s: float
    memory_mb: float
    files: int


def usage(mark: str) -> Usage:
    found = [_usage_of(process) for process in Path("/proc").glob("[0-9]*") if _has(process, mark)]
    known = [own for own in found if own is not None]
    return Usage(
        sum(u.cpu_s for u in known), sum(u.memory_mb for u in known), sum(u.files for u in known)
    )


def _has(process: Path, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _usage_of(process: Path) -> Usage | None:
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        shares = (process / "smaps_rollup").read_text().splitlines()
        files = sum(1 for _ in (process / "fd").iterdir())
    except OSError:
        return None  # it ended meanwhile
    cpu = sum(map(int, fields[11:15])) / TICKS  # with children that have ended
    memory = sum(int(line.split()[1]) for line in shares if line.startswith("Rss:"))
    return Usage(cpu, memory / 1000, files)


class Watch:
    """Notes when the run was ready, and what its processes used at the end of every round."""

    def __init__(self, begin: float) -> None:
        self.begin, self.ready_s = begin, 0.0
        self.rounds: list[tuple[float, Usage]] = []

    def __call__(self, event: Mapping[str, Any]) -> None:
        if event["kind"] == "ready":
            self.ready_s = time.time() - self.begin
        elif event["kind"] == "round":
            self.rounds.append((float(event["seconds"]), usage(os.environ[MARK])))


def play(config: FedVLNConfig, engine: str, workers: int, begin: float) -> dict[str, float]:
    """One run; what it took. begin: time.time() when the process was started."""
    watch, system = Watch(begin), load_system(config.system)
    if engine == "inprocess":
        run_inprocess(to_run_config(config), watch)
    else:
        roster = system.prepare(config, silent)
        nodes = system.simulated_nodes(config, len(roster))
        run_ray(to_run_config(config), folder_of(config), nodes, Placement(workers), watch)
    counted = watch.rounds[2:]  # round 0 is an evaluation alone, round 1 warms up
    used = [u for _, u in watch.rounds]
    rows = read_rows(folder_of(config).path / HISTORY)
    asked = [r for r in rows if r["kind"] == "client" and r["round"] > 1]
    walked = sum(r["num-examples"] for r in asked if r["task"] == "evaluate")
    return {
        "walked": walked / len(counted),
        "steps": sum(r["metrics"].get("steps", 0) for r in asked) / len(counted),
        "startup_s": watch.ready_s,
        "round_s": sum(s for s, _ in counted) / len(counted),
        "round_cpu_s": (used[-1].cpu_s - used[1].cpu_s) / len(counted),
        "total_s": time.time() - begin,
        "memory_mb": max(u.memory_mb for u in used),
        "files": max(u.files for u in used),
    }


def one_run(given: argparse.Namespace, clients: int, draw: int) -> dict[str, float]:
    """What a run in a process of its own took."""
    begin = time.monotonic()
    prepare_sources(settings(clients, 1, given.cache, "", draw), in_lines(print))
    made = time.monotonic() - begin
    kept = ("rounds", "engine", "cache", "workers")
    with tempfile.TemporaryDirectory() as runs:
        asked = {
            "play": clients,
            "draw": draw,
            "runs": runs,
            **{k: getattr(given, k) for k in kept},
        }
        command = [sys.executable, "-m", "benchmarks.many_clients", "--begin", str(time.time())]
        command += [f"--{name}={value}" for name, value in asked.items()]
        environment = {**os.environ, MARK: f"{os.getpid()}-{clients}-{draw}"}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True, env=environment
        )
    line = {"clients": clients, "made_s": made, **json.loads(done.stdout.splitlines()[-1])}
    print({name: round(value, 2) for name, value in line.items()}, flush=True)
    return line


def measured(given: argparse.Namespace) -> list[dict[str, float]]:
    """One line for each number of clients; of the smallest, means over the draws."""
    few = [one_run(given, given.clients[0], draw) for draw in range(given.draws)]
    mean = {name: sum(line[name] for line in few) / len(few) for name in few[0]}
    return [mean, *(one_run(given, clients, 0) for clients in given.clients[1:])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[61, 610, 6100])
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--engine", choices=("inprocess", "ray"), default="inprocess")
    parser.add_argument("--workers", type=int, default=2, help="of --engine ray")
    parser.add_argument("--cache", default=str(Path("data/cache").absolute()))
    parser.add_argument("--draws", type=int, default=4, help="of the smallest number of houses")
    parser.add_argument("--play", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--draw", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--runs", default="", help=argparse.SUPPRESS)
    parser.add_argument("--begin", type=float, default=0.0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play:
        config = settings(given.play, given.rounds, given.cache, given.runs, given.draw)
        print(json.dumps(play(config, given.engine, given.workers, given.begin)))
        return
    lines = measured(given)
    first, last = lines[0], lines[-1]
    names = ("round_s", "round_cpu_s", "memory_mb")
    ratios = {f"{name}_ratio": round(last[name] / first[name], 3) for name in names}
    rounded = [{k: round(v, 2) for k, v in line.items()} for line in lines]
    worst = max(ratios["round_cpu_s_ratio"], ratios["memory_mb_ratio"])
    finish(
        "many_clients", worst, 1.1, **ratios, engine=given.engine, draws=given.draws, sizes=rounded
    )


if __name__ == "__main__":
    main()
