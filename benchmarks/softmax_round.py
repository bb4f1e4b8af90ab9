"""Seconds of a round of ten small clients in process over those of a bare PyTorch loop that trains and averages the same.

Softmax regression, 64 -> 10, 50 rows a client, batches of 10, one epoch: so little arithmetic that what a round costs
besides is what is measured. The bare loop has no messages, history, checkpoints or checks of replies. Both run in turn,
`--repeats` times; the median round of each, the first ones left out. Both end at the same weights, to rounding.
"""

import argparse
import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.report import finish, median
from fedsuite import (
    FedAvgSettings,
    Node,
    Roster,
    System,
    rng_for,
    roster_of,
    run,
    setting,
    torch_generator_for,
    torch_system,
)

CLIENTS, ROWS, INPUTS, CLASSES, GOAL = 10, 50, 64, 10, 1.35


@dataclass(frozen=True)
class Settings(FedAvgSettings):
    system: str = setting("benchmarks.softmax_round:SYSTEM", "this system")


def rows_of(config: Settings, partition: int) -> tuple[Tensor, Tensor]:
    """x [ROWS, INPUTS], y [ROWS]."""
    random = torch_generator_for(config.seed, "rows", partition=partition)
    x = torch.randn(ROWS, INPUTS, generator=random)
    return x, x[:, :CLASSES].argmax(1)


def clients_of(config: Settings) -> Roster:
    return roster_of([f"client-{n}" for n in range(CLIENTS)], [ROWS] * CLIENTS)


def data_of(config: Settings, node: Node) -> tuple[Tensor, Tensor]:
    return rows_of(config, node.partition)


def model_of(config: Settings) -> torch.nn.Module:
    return torch.nn.Linear(INPUTS, CLASSES)


SYSTEM: System[Settings] = torch_system(
    "softmax", Settings, clients=clients_of, data=data_of, model=model_of, loss=cross_entropy
)


def federated(folder: Path, rounds: int) -> tuple[list[float], dict[str, np.ndarray]]:
    """Seconds of every round but the first ten, and the final weights."""
    toml = folder / "softmax.toml"
    toml.write_text(
        'system = "benchmarks.softmax_round:SYSTEM"\nevaluate-every = 0\n'
        f"num-rounds = {rounds}\ncheckpoint-every = {rounds}\n"
        f"[training]\nbatch-size = 10\nlearning-rate = 0.1\n"
    )
    played: Any = run(toml, results_dir=folder / "runs", quiet=True, overwrite=True)
    lines = (played.folder / "timings.jsonl").read_text().splitlines()
    seconds = [row["seconds"] for row in map(json.loads, lines) if row["kind"] == "round"]
    return seconds[11:], load_file(played.folder / "model.safetensors")


def bare(rounds: int) -> tuple[list[float], dict[str, np.ndarray]]:
    """The same in a loop."""
    config, seconds = Settings(), []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng_for(0, "initial model").integers(2**63)))
        model = model_of(config)
    data = [rows_of(config, k) for k in range(CLIENTS)]
    server = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    for number in range(1, rounds + 1):
        start = time.perf_counter()
        summed = {k: np.zeros(v.shape) for k, v in server.items()}
        for partition, (x, y) in enumerate(data):
            model.load_state_dict({k: torch.from_numpy(v) for k, v in server.items()})
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            order = rng_for(0, "mini-batches", number, partition).permutation(ROWS)
            for rows in torch.from_numpy(order).split(10):
                cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
                optimizer.zero_grad()
            for name, value in model.state_dict().items():
                summed[name] += value.numpy() / CLIENTS
        server = {k: v.astype(np.float32) for k, v in summed.items()}
        seconds.append(time.perf_counter() - start)
    return seconds[10:], server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    torch.set_num_threads(1)
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.repeats):
            alone, expected = bare(arguments.rounds)
            seconds, found = federated(Path(folder), arguments.rounds)
            theirs, ours = theirs + alone, ours + seconds
            for name, value in expected.items():
                np.testing.assert_allclose(found[name], value, atol=1e-5)
    print(f"a round: {1e3 * median(ours):.2f} ms, bare: {1e3 * median(theirs):.2f} ms")
    finish("softmax_round", median(ours) / median(theirs), GOAL, clients=CLIENTS)


if __name__ == "__main__":
    main()
