"""A system that only sends messages: a linear model as large as asked for, and one step on one example at each client.

A node imports it for every message, as it does any system of somebody's own, so nothing else is here.
"""

from dataclasses import dataclass
from typing import Any

import torch

from fedsuite import FedAvgSettings, roster_of, setting, torch_system

NAME = "benchmarks.messages_system:SYSTEM"
WIDTH = 256


@dataclass(frozen=True)
class Settings(FedAvgSettings):
    system: str = setting(NAME, "this system")
    nodes: int = setting(3, "clients", ge=1, le=1000)
    rows: int = setting(400, "of the layer that makes a message as large as it is", ge=1, le=10**6)


def names(count: int) -> list[str]:
    return [f"node-{number:02d}" for number in range(count)]


def example(config: Settings, node: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(1, WIDTH), torch.zeros(1, dtype=torch.long)


SYSTEM = torch_system(
    "deployed-messages",
    Settings,
    clients=lambda config: roster_of(names(config.nodes), [1] * config.nodes),
    model=lambda config: torch.nn.Linear(WIDTH, config.rows),
    loss=torch.nn.functional.cross_entropy,
    data=example,
)
