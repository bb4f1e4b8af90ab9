"""A tiny system of a torch network for runs with differential privacy: five sites, a layer with a count beside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedsuite import FedAvgSettings, roster_of, setting, torch_generator_for, torch_system
from fedsuite.runs.folder import RunFolder
from simulations.engines.inprocess import run_inprocess
from tests.harness import config_from

SIZES = {"north": 30, "south": 40, "east": 50, "west": 60, "sea": 70}
TINY: dict[str, Any] = {
    "system": "tests.privacy.private_regression:SYSTEM",
    "num-rounds": 3,
    "learning-rate": 0.3,
    "checkpoint-every": 1,
    "noise": "seeded",
    "delta": 1e-3,
}


@dataclass(frozen=True)
class Settings(FedAvgSettings):
    """The keys of every averaging."""

    system: str = setting("tests.privacy.private_regression:SYSTEM", "this system")


class Counting(torch.nn.Linear):
    """A layer that has a whole number and a float that nothing moves beside its weights."""

    def __init__(self) -> None:
        super().__init__(4, 3)
        self.register_buffer("seen", torch.tensor(7))
        self.register_buffer("still", torch.ones(2))


def rows_of(config: Settings, node: Any) -> tuple[Tensor, Tensor]:
    """x [n, 4], y [n]."""
    random = torch_generator_for(config.seed, "rows", partition=node.partition)
    x = torch.randn(node.member.examples, 4, generator=random)
    return x, x[:, :3].argmax(1)


SYSTEM = torch_system(
    "private",
    Settings,
    clients=lambda config: roster_of(list(SIZES), list(SIZES.values())),
    model=lambda config: Counting(),
    loss=torch.nn.functional.cross_entropy,
    data=rows_of,
    test=rows_of,
)


def config_of(results: Path, name: str, **changes: Any) -> dict[str, Any]:
    """A run's configuration; keys in snake case."""
    values = {"results-dir": str(results), "name": name}
    return config_from({**TINY, **values}, **changes)


def play(results: Path, name: str, **changes: Any) -> RunFolder:
    """The folder of a whole run."""
    run_inprocess(config_of(results, name, **changes))
    return RunFolder(results / name)
