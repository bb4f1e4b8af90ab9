"""A small system whose clients' changes are added by secure sums: softmax regression, five sites, with ways to lose some."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Message
from flwr.app.error import Error

import clients.summing
import strategies.sum_exchanges
from fedsuite.averaging.settings import FedAvgSettings
from fedsuite.randomness import torch_generator_for
from fedsuite.roster.members import roster_of
from fedsuite.runs.folder import RunFolder, folder_of
from fedsuite.settings.config import read_config, setting
from simulations.client_app import app as client_app
from simulations.engines.inprocess import InProcessGrid, server_identity
from simulations.server_app import serve
from simulations.systems import Node, System, settings_of, to_run_config
from simulations.torch_system import torch_system
from tests.harness import prepared

SITES = {"north": 30, "south": 40, "east": 50, "west": 60, "sea": 70}  # rows of each
NODE_LOST = 4  # Flower's code


@dataclass(frozen=True)
class Settings(FedAvgSettings):
    """All keys."""

    system: str = setting("tests.summed_runs:SYSTEM", "this system")


def rows_of(config: Settings, node: Node) -> tuple[torch.Tensor, ...]:
    """A site's own data: x [n, 4], y [n]."""
    random = torch_generator_for(config.seed, "rows", partition=node.partition)
    x = torch.randn(node.member.examples, 4, generator=random)
    return x, x[:, :3].argmax(1)


def system_of(model: Callable[[], torch.nn.Module]) -> System[Settings]:
    """With this network of 4 inputs and 3 outputs."""
    return torch_system(
        "regression",
        Settings,
        clients=lambda config: roster_of(list(SITES), list(SITES.values())),
        model=lambda config: model(),
        loss=torch.nn.functional.cross_entropy,
        data=rows_of,
    )


def wide() -> System[Settings]:
    """With 4,099 numbers."""
    return system_of(lambda: torch.nn.Sequential(torch.nn.Linear(4, 512), torch.nn.Linear(512, 3)))


def normed() -> System[Settings]:
    """With buffers, one of which is a count."""
    return system_of(lambda: torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3)))


SYSTEM = system_of(lambda: torch.nn.Linear(4, 3))
VALUES: dict[str, Any] = {
    "system": "tests.summed_runs:SYSTEM", "num-rounds": 3, "seed": 3, "evaluate-every": 1, "checkpoint-every": 1,
    "training.learning-rate": 0.3, "training.batch-size": 20, "federation.secure-sum": True,
}  # fmt: skip
PLAIN = {"federation.secure-sum": False}
Losses = Mapping[tuple[int, str], Collection[int]]


def config_of(results: Path, name: str, **changes: Any) -> dict[str, Any]:
    """A whole run-config; keys of `changes` are whole ones."""
    values = {**VALUES, "results-dir": str(results), "name": name, **changes}
    return to_run_config(read_config(Settings, values, "test"))


class LosingGrid(InProcessGrid):
    """Some members are lost at a stage of a round: before they compute, or on the way back."""

    def __init__(self, config: Mapping[str, Any], losses: Losses, late: bool = False) -> None:
        super().__init__(client_app, len(prepared(config)), config)
        self.losses, self.late = losses, late
        self.sent: list[tuple[int, Message]] = []  # replies of training, by partition

    def _reply(self, message: Message) -> Message:
        asked = message.content["config"]
        assert isinstance(asked, ConfigRecord)
        partition = self.partition_of(message.metadata.dst_node_id)
        what = str(asked.get("stage", message.metadata.message_type))
        at = (int(str(asked.get("round", 0))), what)
        lost = partition in self.losses.get(at, ())
        if not lost or self.late:
            reply = super()._reply(message)
            self.sent += [(partition, reply)] if message.metadata.message_type == "train" else []
        return Message(Error(NODE_LOST, "gone"), reply_to=message) if lost else reply

    def partition_of(self, node: int) -> int:
        return int(str(self.contexts[node].node_config["partition-id"]))


def run(
    results: Path, name: str, losses: Losses | None = None, late: bool = False, **changes: Any
) -> RunFolder:
    """A whole run in this process."""
    changes = {"min-reply-fraction": 0.3, **changes}
    config = config_of(results, name, **changes)
    return played(LosingGrid(config, losses or {}, late), config)


def played(grid: InProcessGrid, config: Mapping[str, Any]) -> RunFolder:
    with server_identity():
        serve(grid, config)
    return folder_of(settings_of(config)[1])


def without_masks(patch: pytest.MonkeyPatch) -> None:
    """The plain sum of whole numbers modulo 2^32, in the place of masks and of what takes them off."""
    patch.setattr(clients.summing, "masked", lambda own, drawn, listed, members, vector: vector)
    patch.setattr(
        strategies.sum_exchanges, "unmasked", lambda listed, members, total, alive, shares: total
    )
