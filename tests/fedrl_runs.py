"""A tiny FedRL run: its settings, what it writes and sends, and what each party keeps to itself."""

import dataclasses
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid
from safetensors.numpy import load_file

from clients.party import PartyClient
from fedsuite.arrays import Arrays
from fedsuite.fedrl.config import FedRLConfig
from simulations.client_app import app as client_app
from simulations.engines.inprocess import InProcessGrid, server_identity
from simulations.fedrl import system as fedrl_system
from simulations.fedrl.client import _open_site
from simulations.server_app import serve
from simulations.systems import Node, settings_of
from tests.harness import Recorder, arrays_in, config_from, prepared


class Dying(PartyClient):
    """Its process is killed when beta gets its first "learn" of round 2, if and as long as a file says so."""

    def fit(
        self, parameters: list[np.ndarray], config: dict[str, Any]
    ) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        own = self.site.config
        marker = Path(own.data.cache_dir) / f"{own.name}.dies"
        due = (self.site.role, config["phase"], config["round"]) == ("beta", "learn", 2)
        if due and marker.exists():
            marker.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(parameters, config)


def _make_client(config: FedRLConfig, node: Node) -> PartyClient:
    client = fedrl_system.SYSTEM.make_client(config, node)
    assert isinstance(client, PartyClient)
    return Dying(client.site)


# Tables and plots are another matter, and drawing them takes longer than these runs.
SYSTEM = dataclasses.replace(
    fedrl_system.SYSTEM, report=lambda config, folder: None, make_client=_make_client
)
TINY: dict[str, Any] = {
    "system": "tests.fedrl_runs:SYSTEM", "maps": 200, "step-limit": 6, "evaluation-episodes": 5,
    "round-length": 32, "batch-size": 8, "memory": 100, "filters": 4, "epsilon-steps": 40, "num-rounds": 2,
}  # fmt: skip
ROLES = ("alpha", "beta", "gamma")


def config_of(cache: Path, results: Path, name: str = "run", **changes: Any) -> dict[str, Any]:
    """The run-config of a tiny run; keys in snake case."""
    paths = {"cache-dir": str(cache), "results-dir": str(results), "name": name}
    return config_from({**TINY, **paths}, **changes)


def settings_from(config: dict[str, Any]) -> FedRLConfig:
    settings = settings_of(config)[1]
    assert isinstance(settings, FedRLConfig)
    return settings


def play(
    config: dict[str, Any],
    wrap: Callable[[Grid], Grid] = lambda grid: grid,
    resident: bool = True,
) -> None:
    """A whole run in this process; `wrap` may put something around the grid.

    Parties that are not resident are forgotten after every message, so that each is answered from disk.
    """

    def forgetful(message: Message, context: Context) -> Message:
        _open_site.cache_clear()
        return client_app(message, context)

    parties = len(prepared(config))
    grid = InProcessGrid(client_app if resident else forgetful, parties, config)
    for context in grid.contexts.values():
        context.node_config["resident"] = resident
    with server_identity():
        serve(wrap(grid), config)


def recorded(config: dict[str, Any]) -> list["Letter"]:
    """The messages of a whole run, questions and answers, in the order of their sending."""
    recorders: list[Recorder] = []

    def wrap(grid: Grid) -> Grid:
        recorders.append(Recorder(grid))
        return recorders[0]

    play(config, wrap)
    return list(_letters(recorders[0], len(settings_from(config).federation.roles)))


@dataclass(frozen=True, eq=False)
class Letter:
    """A message to a party, and what came back: arrays, configuration and metrics, all that there is."""

    partition: int
    phase: str
    config: dict[str, Any]
    down: Arrays
    up: Arrays
    metrics: dict[str, Any]
    names: tuple[tuple[str, ...], tuple[str, ...]]  # of all records, down and up


def _letters(recorder: Recorder, num_parties: int) -> Iterator[Letter]:
    nodes = {10_007 * (num_parties - p): p for p in range(num_parties)}
    # A relay waits for the answers to one batch before it goes on, and they come in the order of sending.
    for question, answer in zip(recorder.sent, recorder.received, strict=True):
        assert answer.metadata.src_node_id == question.metadata.dst_node_id
        assert not answer.has_error(), answer.error
        config = record_of(question, "config", ConfigRecord)
        yield Letter(
            partition=nodes[question.metadata.dst_node_id],
            phase=str(config.get("phase", "identity")),
            config=config,
            down=arrays_in(question),
            up=arrays_in(answer),
            metrics=record_of(answer, "metrics", MetricRecord),
            names=(tuple(question.content), tuple(answer.content)),
        )


def record_of(message: Message, name: str, kind: type) -> dict[str, Any]:
    """A record of scalars, {} if it is not there."""
    record: Any = message.content.get(name, {})
    assert isinstance(record, kind) or record == {}
    return dict(record)


def kept_by(results: Path, role: str, number: int, name: str = "run") -> Arrays:
    """What a party wrote to its own disk when round `number` closed."""
    return load_file(results / name / "clients" / role / f"round-{number:06d}.safetensors")


def artefacts(results: Path, name: str) -> dict[str, bytes]:
    """All that must be equal between equal runs: history, model, checkpoints and every party's own state."""
    folder = results / name
    paths = [folder / "history.jsonl", folder / "model.safetensors"]
    paths += [p for p in sorted((folder / "checkpoints").rglob("*")) if p.is_file()]
    paths += sorted((folder / "clients").rglob("*.safetensors"))
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths}


def assert_same(found: Arrays, expected: Arrays, tolerance: float) -> None:
    """Same names, and numbers that are no further apart than `tolerance`."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=tolerance, err_msg=name)
