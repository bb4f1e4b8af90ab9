"""The round loop alone, around any strategy, with clients of the toy system."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid

from fedsuite.federation import (
    Clients,
    Exchanges,
    RoundResult,
    RoundStrategy,
    Selection,
    ServerState,
    Task,
)
from fedsuite.history import read_rows
from fedsuite.roster.members import ROSTER, write_roster
from fedsuite.runs.folder import RunFolder, folder_of
from fedsuite.storage.files import sha256_of
from simulations.client_app import app as client_app
from simulations.engines.inprocess import InProcessGrid, server_identity
from simulations.systems import to_run_config
from strategies.runtime.flower_strategy import FedsuiteStrategy
from tests.harness import toy_settings
from tests.toy import SYSTEM, ToySettings, ToyStrategy

Wrap = Callable[[Grid], Grid]


def in_flower(
    results: Path, make: Callable[[ToySettings], RoundStrategy], **changes: Any
) -> tuple[FedsuiteStrategy, InProcessGrid]:
    """A strategy with the toy's clients, as Flower has it, and the grid to run it on."""
    settings = toy_settings(results, **changes)
    roster, folder = SYSTEM.prepare(settings, lambda _: None), folder_of(settings)
    folder.path.mkdir(parents=True, exist_ok=True)
    write_roster(folder.path / ROSTER, roster)
    grid = InProcessGrid(client_app, len(roster), to_run_config(settings))
    return FedsuiteStrategy(make(settings), settings, folder, roster), grid


def looped(
    results: Path,
    make: Callable[[ToySettings], RoundStrategy],
    wrap: Wrap = lambda grid: grid,
    **changes: Any,
) -> tuple[RoundResult, RunFolder]:
    """A whole run of the loop."""
    strategy, grid = in_flower(results, make, **changes)
    with server_identity():
        return strategy.run(wrap(grid)), strategy.folder


def left_in(folder: RunFolder) -> dict[str, str]:
    """SHA-256 of history, checkpoints and private states."""
    paths = [folder.path / "history.jsonl", *sorted(folder.checkpoints.rglob("*.*"))]
    paths += sorted(folder.clients.rglob("*.safetensors"))
    return {str(p.relative_to(folder.path)): sha256_of(p.read_bytes()) for p in paths}


def round_metrics(folder: RunFolder) -> dict[int, dict[str, float]]:
    """Metrics of every round; of the end under -1."""
    rows = read_rows(folder.path / "history.jsonl")
    kinds = ("round", "closing")
    return {
        -1 if r["kind"] == "closing" else r["round"]: r["metrics"]
        for r in rows
        if r["kind"] in kinds
    }


class Scored(ToyStrategy):
    """The toy, scored by a list: `scores[n]` after round n; clients are asked too."""

    def __init__(
        self, settings: ToySettings, scores: Sequence[float] = (), patience: int = 0
    ) -> None:
        super().__init__(settings)
        self.scores, self.selection = scores, Selection(("score",), patience)
        self.closed: list[tuple[int, bool]] = []

    def evaluate(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        yield [Task(c.partition, "evaluate", state.arrays) for c in clients]
        return RoundResult(state, {"score": self.scores[number] if self.scores else 0.0})

    def close(self, number: int, state: ServerState, clients: Clients, improved: bool) -> Exchanges:
        yield []
        self.closed.append((number, improved))
        return RoundResult(state, {"closed": float(number)})

    def finish(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        yield []
        return RoundResult(ServerState(state.selected, state.scalars), {"last": float(number)})


class FakeTime:
    """Stands in for the module `time`: waiting costs nothing and is counted."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
