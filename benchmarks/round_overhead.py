"""Seconds of a federated round on Ray over those of the same local training in a bare PyTorch loop.

Twelve generated houses, all taking part, about 22 optimizer steps each, the agent of the quickstart. Both use the same
number of processes, one torch thread each. The bare loop is a process pool: workers keep their houses open, get the
agent's arrays, train, return them, and the caller averages; no Flower, no messages, no history, no checkpoints. Start-up
is counted in neither: the first round of each is left out. The bare rounds are measured before and after the federated
ones, so that drift of the machine shows.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import finish, median
from fedsuite.arrays import Arrays, load_arrays, module_arrays
from fedsuite.averaging.merging import mean, server_step, shares
from fedsuite.runs.folder import folder_of
from fedsuite.settings.config import read_config
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, join_houses
from fedsuite.vln.data.roster import make_roster, open_house
from fedsuite.vln.data.sources import open_sources, prepare_sources
from fedsuite.vln.environment import World
from fedsuite.vln.plan import initial_agent
from fedsuite.vln.stages import local_steps
from fedsuite.vln.training.learner import TrainingData, train_locally
from fedsuite.vln.training.rmsprop import RMSprop
from simulations.app.machine import keep_freed_memory
from simulations.engines.ray.launch import run_ray
from simulations.engines.ray.placement import Placement
from simulations.systems import to_run_config

HOUSES, STEPS, GOAL = 12, 22, 1.05
_worker: dict[str, Any] = {}


def settings(folder: Path, rounds: int) -> FedVLNConfig:
    """All houses take part in every round; tau gives about STEPS steps of B = 64 from about 60 paths x 3 instructions."""
    config = read_config(
        FedVLNConfig,
        {
            "name": "round-overhead", "results-dir": str(folder / "runs"),
            "num-rounds": rounds, "evaluate-every": 0, "checkpoint-every": 1,
            "data": {
                "cache-dir": str(folder / "cache"), "generated-seen-houses": HOUSES, "generated-unseen-houses": 1,
                "generated-paths-per-house": 60,
            },
            "agent": {
                "hidden-size": 128, "word-embedding-size": 64, "action-embedding-size": 16, "angle-feature-size": 16,
                "max-actions": 15, "train-max-actions": 10,
            },
            "objective": {"kind": "imitation", "learning-rate": 1e-3},
            "federation": {
                "participation-rate": 1.0, "local-epochs": 8, "server-learning-rate": 1.0, "client-optimizer": "fresh",
            },
        },
    )  # fmt: skip
    return config


def _open(config: FedVLNConfig) -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    sources = open_sources(config)
    houses = [open_house(config, sources, s, k) for k, s in enumerate(sources.training_scans)]
    _worker.update(
        config=config,
        houses=[(h, join_houses([h])) for h in houses],
        agent=initial_agent(config, make_roster(config, sources)),
    )


def _train(job: tuple[int, int, Arrays]) -> tuple[int, Arrays]:
    partition, number, arrays = job
    house: House
    world: World
    house, world = _worker["houses"][partition]
    config: FedVLNConfig = _worker["config"]
    agent, own = _worker["agent"], config.objective
    load_arrays(agent, arrays)
    agent.train()
    samples = house.samples["train"]
    steps = local_steps(len(samples), config.federation.local_epochs, own.batch_size)
    optimizer = RMSprop(agent.parameters(), own.learning_rate, own.bias_correction)
    parts = [TrainingData(samples, own.teacher_weight)]
    train_locally(agent, optimizer, world, parts, config, steps, number, partition)
    return len(samples), module_arrays(agent)


def bare_rounds(config: FedVLNConfig, rounds: int, workers: int) -> list[float]:
    """Seconds per round of the pool, first round left out."""
    arrays = module_arrays(initial_agent(config, make_roster(config, open_sources(config))))
    seconds = []
    with multiprocessing.get_context("spawn").Pool(workers, _open, (config,)) as pool:
        for number in range(1, rounds + 1):
            start = time.monotonic()
            jobs = [(k, number, arrays) for k in range(HOUSES)]
            replies = list(pool.imap(_train, jobs, chunksize=1))
            weights = shares([n for n, _ in replies])
            arrays, _ = server_step(arrays, mean(arrays, [a for _, a in replies], weights))
            seconds.append(time.monotonic() - start)
    return seconds[1:]


def federated_rounds(config: FedVLNConfig, workers: int) -> list[float]:
    """Seconds per round on Ray, first round left out."""
    folder = folder_of(config)
    clients = len(make_roster(config, open_sources(config)))
    run_ray(to_run_config(config), folder, clients, Placement(workers))
    rows = [json.loads(line) for line in (folder.path / "timings.jsonl").read_text().splitlines()]
    seconds = [r["seconds"] for r in rows if r["kind"] == "round" and r["round"] > 1]
    return seconds[: config.num_rounds - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=4, help="federated rounds, the first is not counted"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = settings(Path(folder), arguments.rounds)
        prepare_sources(config)
        before = bare_rounds(config, 3, arguments.workers)
        federated = federated_rounds(config, arguments.workers)
        after = bare_rounds(config, 3, arguments.workers)
    print(
        "bare rounds, before:",
        [round(s, 2) for s in before],
        "after:",
        [round(s, 2) for s in after],
    )
    print("federated rounds:   ", [round(s, 2) for s in federated])
    ratio = median(federated) / median(before + after)
    finish("round_overhead", ratio, GOAL, workers=arguments.workers, clients=HOUSES)


if __name__ == "__main__":
    main()
