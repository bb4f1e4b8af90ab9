"""What all sides of benchmarks/peers.py train, and the bare PyTorch loops, in one process and over a pool of two.

Every client has made-up rows of its own and trains one epoch in batches of 10; the round's clients count alike. Who is
asked, the first weights and the order of the rows are draws of the project's streams, so that all sides do the same sums.
"""

import multiprocessing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedsuite import rng_for, torch_generator_for

ROWS, CLASSES, BATCH, RATE, WORKERS = 50, 10, 10, 0.05, 2
Weights = dict[str, np.ndarray]
Merged = Callable[[], None]  # called when a round is merged
Play = Callable[[str, int, Merged, Path], Weights]
"""(name of the work, rounds, merged, an empty folder) -> the final weights."""


@dataclass(frozen=True)
class Work:
    """shape: of a row. asked: clients of a round. goal: most times the milliseconds of the bare loop over two processes,
    on Ray."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    clients: int
    asked: int
    rounds: int
    goal: float


def regression() -> nn.Module:
    """650 numbers."""
    return nn.Linear(64, CLASSES)


def cnn() -> nn.Module:
    """1,111,946 numbers. Smooth all through: in ReLU and max pooling the last bit of a sum decides where a gradient
    goes, and after ten rounds equal sums in two orders are 1e-3 apart in single weights, not 1e-7."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(32, 64, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, CLASSES)),
    )


WORKS = {
    "regression": Work(regression, (64,), 100, 10, 40, 2.5),
    "cnn": Work(cnn, (1, 28, 28), 100, 10, 10, 1.0),
    "many": Work(regression, (64,), 5000, 50, 30, 2.5),
}


@cache
def data_of(name: str, partition: int) -> tuple[Tensor, Tensor]:
    """x [ROWS, *shape], y [ROWS]; made at the first visit."""
    random = torch_generator_for(0, "rows", partition=partition)
    x = torch.randn(ROWS, *WORKS[name].shape, generator=random)
    return x, x.flatten(1)[:, :CLASSES].argmax(1)


def asked(work: Work, number: int) -> list[int]:
    """The clients of a round, ascending: those that the seeded participation of a run draws."""
    rng = rng_for(0, "participation of all clients", number)
    return sorted(map(int, rng.choice(work.clients, size=work.asked, replace=False)))


def initial(name: str) -> dict[str, Tensor]:
    """The weights that every side begins with."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng_for(0, "initial model").integers(2**63)))
        return WORKS[name].make().state_dict()


@cache
def _network(name: str) -> nn.Module:
    return WORKS[name].make()


def visit(name: str, state: dict[str, Tensor], partition: int, number: int) -> dict[str, Tensor]:
    """A client's weights after its epoch; the next visit of this process writes over them."""
    model, (x, y) = _network(name), data_of(name, partition)
    model.load_state_dict(state)
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    order = rng_for(0, "mini-batches", number, partition).permutation(ROWS)
    for rows in torch.from_numpy(order).split(BATCH):
        cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.state_dict()


def _visited(job: tuple[str, Weights, int, int]) -> Weights:
    name, server, partition, number = job
    state = {k: torch.from_numpy(v) for k, v in server.items()}
    return {k: v.numpy() for k, v in visit(name, state, partition, number).items()}


def bare(
    name: str,
    rounds: int,
    merged: Merged,
    visits: Callable[[list[tuple[str, Weights, int, int]]], Iterable[Weights]],
) -> Weights:
    """The loop; visits: gives the weights of every job, in order."""
    server = {k: v.numpy() for k, v in initial(name).items()}
    for number in range(1, rounds + 1):
        jobs = [(name, server, k, number) for k in asked(WORKS[name], number)]
        summed = {k: np.zeros(v.shape) for k, v in server.items()}
        for weights in visits(jobs):
            for key, value in weights.items():
                summed[key] += value
        server = {k: (v / len(jobs)).astype(np.float32) for k, v in summed.items()}
        merged()
    return server


def bare_one(name: str, rounds: int, merged: Merged, folder: Path) -> Weights:
    """In this process."""
    torch.set_num_threads(1)
    return bare(name, rounds, merged, lambda jobs: map(_visited, jobs))


def bare_two(name: str, rounds: int, merged: Merged, folder: Path) -> Weights:
    """Over a pool of two, a client at a time; its weights travel as arrays both ways."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(WORKERS, torch.set_num_threads, (1,)) as pool:
        return bare(name, rounds, merged, lambda jobs: pool.imap(_visited, jobs))
