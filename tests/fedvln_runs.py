"""Tiny FedVLN runs of every stage in this process, with every message kept; two seen and two unseen generated houses."""

import dataclasses
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, MetricRecord
from flwr.client import NumPyClient

from clients.house import HouseClient
from fedsuite.roster.members import Roster
from fedsuite.storage.files import sha256_of
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.roster import make_roster
from fedsuite.vln.data.sources import open_sources
from simulations.fedvln import system as fedvln_system
from simulations.systems import Node, settings_of
from tests.harness import Recorder, config_from, recorded, write_settings

MARKER = "dies"  # a file <results>/<run>.dies: the run is killed once


class Dying(HouseClient):
    """The process is killed when the house of partition 1 is to train in round 3, if and as long as a file says so."""

    def fit(
        self, parameters: list[np.ndarray], config: dict[str, Any]
    ) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        marker = Path(self.config.results_dir) / f"{self.config.name}.{MARKER}"
        if (self.site.partition, config["round"]) == (1, 3) and marker.exists():
            marker.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(parameters, config)


def _make_client(config: FedVLNConfig, node: Node) -> NumPyClient:
    client = fedvln_system.SYSTEM.make_client(config, node)
    if isinstance(client, HouseClient):
        return Dying(client.site, client.config, client.agent, client.speaker)
    return client


# Tables and plots are another matter, and drawing them takes longer than these runs.
SYSTEM = dataclasses.replace(
    fedvln_system.SYSTEM,
    report=lambda config, folder: None,
    draw=lambda config, folder: None,
    make_client=_make_client,
)
TINY: dict[str, Any] = {
    "system": "tests.fedvln_runs:SYSTEM", "generated-seen-houses": 2, "generated-unseen-houses": 2,
    "generated-paths-per-house": 4, "generated-feature-size": 8, "hidden-size": 16, "word-embedding-size": 8,
    "action-embedding-size": 4, "angle-feature-size": 4, "max-actions": 4, "train-max-actions": 3,
    "max-generated-length": 6, "batch-size": 64, "learning-rate": 1e-2, "participation-rate": 1.0, "local-epochs": 1,
    "objective": "imitation", "num-rounds": 1, "server-learning-rate": 1.0, "min-word-count": 1, "evaluate-every": 1,
    "checkpoint-every": 1,
}  # fmt: skip
FIRST_STAGES = ("train", "speaker")
METHODS: dict[str, dict[str, Any]] = {
    "centralised": {"method": "centralised"},
    "env-based": {"method": "local-only"},
    "fed-full": {"share": "agent"},
    "fed-lan": {"share": "language-encoder"},
    "fed-lan-seen": {"share": "language-encoder", "seen_participation_rate": 0.5},
}


@dataclass(frozen=True)
class Chain:
    """Runs of the first two stages, which the later ones start from, and of the tests of one module, below `root`."""

    root: Path
    owner: str = ""  # a module's name: two modules may give their runs the same names

    @property
    def runs(self) -> Path:
        """Where the module's own runs lie."""
        return self.root / "runs" / self.owner

    def config(self, name: str, stage: str = "pre-explore", **changes: Any) -> dict[str, Any]:
        """A run's resolved configuration; keys in snake case."""
        values: dict[str, Any] = {"name": name, "stage": stage}
        values |= {"results-dir": str(self.runs), "cache-dir": str(self.root / "cache")}
        if stage in ("augment", "pre-explore"):
            values |= {"start-from": str(self.run("train"))}
            values |= {"speaker-from": str(self.run("speaker"))}
        return config_from({**TINY, **values}, **changes)

    def settings(self, name: str, stage: str = "pre-explore", **changes: Any) -> FedVLNConfig:
        """The same, read."""
        settings = settings_of(self.config(name, stage, **changes))[1]
        assert isinstance(settings, FedVLNConfig)
        return settings

    def run(self, name: str) -> Path:
        """A run's folder."""
        return self.root / "runs" / name if name in FIRST_STAGES else self.runs / name

    def play(self, name: str, stage: str = "pre-explore", **changes: Any) -> Recorder:
        """Carry a run out; all its messages."""
        return recorded(self.config(name, stage, **changes))

    def write_toml(
        self, folder: Path, name: str, stage: str = "pre-explore", **changes: Any
    ) -> str:
        """The configuration as a file for the command line; its name."""
        settings = self.settings(name, stage, **changes)
        return write_settings(folder / f"{name}.toml", settings).name


@cache
def first_stages(root: Path) -> None:
    """Play them once for all tests of a session."""
    for stage in FIRST_STAGES:
        Chain(root).play(stage, stage)


def chain_in(base: Path, owner: str) -> Chain:
    """A module's chain, below pytest's own folder; `owner` is its `__name__`."""
    chain = Chain(base / "fedvln-chain", owner)
    first_stages(chain.root)
    return chain


def roster_of(config: FedVLNConfig) -> Roster:
    """Who takes part in a run whose data are prepared."""
    return make_roster(config, open_sources(config))


def results_of(run: Path) -> dict[str, str]:
    """SHA-256 of all that must be equal between equal runs."""
    paths = [run / "history.jsonl", run / "model.safetensors"]
    paths += sorted((run / "clients").rglob("*.*"))
    return {str(p.relative_to(run)): sha256_of(p.read_bytes()) for p in paths}


def record_of(message: Message, name: str) -> dict[str, Any]:
    """A ConfigRecord or MetricRecord of a message; {} if there is none."""
    record = message.content.get(name)
    if record is None:
        return {}
    assert isinstance(record, ConfigRecord | MetricRecord)
    return dict(record)


def kind_of(message: Message) -> str:
    """query, train or evaluate."""
    return message.metadata.message_type.partition(".")[0]


def told(messages: Iterable[Message], kind: str) -> Iterator[tuple[Message, dict[str, Any]]]:
    """The server's messages of a kind, each with its config."""
    return ((m, record_of(m, "config")) for m in messages if kind_of(m) == kind)
