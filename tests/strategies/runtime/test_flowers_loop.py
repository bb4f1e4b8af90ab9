"""Flower's own loop, and one of its privacy wrappers, around every strategy whose training is one exchange.

Tiny runs of tests/golden/runs.py with generated data: our loop carries one out as it stands there, Flower's
`Strategy.start` another with the same settings.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, Result, Strategy

from fedsuite.arrays import Arrays, fingerprint
from fedsuite.roster.members import ROSTER, write_roster
from fedsuite.runs.folder import RunFolder, folder_of, read_stored_config
from fedsuite.runs.versions import Checkpoints
from fedsuite.settings.config import read_config
from simulations.client_app import app as client_app
from simulations.engines.inprocess import InProcessGrid, server_identity
from simulations.systems import load_system, to_run_config
from strategies.averaging import distance
from strategies.house_averaging import HouseAveraging
from strategies.language_encoder_fedavg import LanguageEncoderFedAvg
from strategies.local_only import LocalOnly
from strategies.neighbour_averaging import NeighbourAveraging
from strategies.runtime.flower_strategy import FedsuiteStrategy
from strategies.runtime.packing import arrays_of, is_packed
from tests.golden.runs import Plays
from tests.strategies.runtime.loops import round_metrics

pytestmark = pytest.mark.slow

RUNS = {
    "vln-train-parallel": HouseAveraging,  # eta decays, every second round is evaluated
    "vln-speaker": HouseAveraging,
    "vln-explore-fed-lan-seen": LanguageEncoderFedAvg,
    "vln-explore-env-based": LanguageEncoderFedAvg,  # merges nothing
    "vln-train-local-only": LocalOnly,
    "cdl-ring-two-mixings": NeighbourAveraging,
}
HOUSES = "vln-train-parallel"
Wrap = Callable[[FedsuiteStrategy], Strategy]


class Noted(FedsuiteStrategy):
    """Remembers which arrays every round began with."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.began_with: list[ArrayRecord] = []

    def configure_train(self, number: int, arrays: ArrayRecord, *rest: Any) -> Iterable[Message]:
        self.began_with.append(arrays)
        return super().configure_train(number, arrays, *rest)


@dataclass(frozen=True)
class Played:
    """A run in Flower's loop: its result, the arrays before round 1 and after every round, and what it left."""

    result: Result
    rounds: list[Arrays]
    folder: RunFolder

    def metrics(self, number: int) -> dict[str, Any]:
        """All of a round's."""
        trained = self.result.train_metrics_clientapp[number]
        return {**self.result.evaluate_metrics_clientapp.get(number, {}), **trained}


@pytest.fixture(autouse=True)
def identity() -> Iterator[None]:
    with server_identity():
        yield


def in_flowers_loop(plays: Plays, name: str, results: Path, wrap: Wrap = lambda s: s) -> Played:
    """The run of that name in Flower's loop, in a folder of its own."""
    stored = read_stored_config(RunFolder(plays.folder(name)))
    system = load_system(str(stored["system"]))
    settings = read_config(system.config_class, {**stored, "results-dir": str(results)})
    roster, folder = system.prepare(settings, lambda _: None), folder_of(settings)
    folder.path.mkdir(parents=True)
    write_roster(folder.path / ROSTER, roster)
    grid = InProcessGrid(client_app, len(roster), to_run_config(settings))
    strategy = Noted(system.make_strategy(settings, roster), settings, folder, roster)
    assert RUNS[name] is type(strategy.strategy)
    initial = strategy.initial_arrays(grid)
    result = Strategy.start(wrap(strategy), grid, initial, num_rounds=settings.num_rounds)
    rounds = [numbers(record) for record in (*strategy.began_with, result.arrays)]
    return Played(result, rounds, folder)


def numbers(record: ArrayRecord) -> Arrays:
    assert not is_packed(record)
    return arrays_of(record)


def own_end(plays: Plays, name: str) -> Arrays:
    """What our loop had merged after the last round."""
    stored = Checkpoints(RunFolder(plays.folder(name)).checkpoints).latest()
    assert stored is not None
    return stored.state.arrays


def same_form(found: Arrays, expected: Arrays) -> bool:
    """Names, their order, shapes and types."""
    form = [[(k, a.shape, a.dtype) for k, a in arrays.items()] for arrays in (found, expected)]
    return form[0] == form[1]


@pytest.mark.parametrize("name", RUNS)
def test_flowers_loop_ends_where_ours_does(plays: Plays, tmp_path: Path, name: str) -> None:
    played, end = in_flowers_loop(plays, name, tmp_path), own_end(plays, name)
    assert same_form(played.rounds[-1], end)
    assert fingerprint(played.rounds[-1]) == fingerprint(end)
    own = round_metrics(RunFolder(plays.folder(name)))
    assert round_metrics(played.folder) == {0: own[0]}
    for number in range(1, len(played.rounds)):
        assert played.metrics(number) == own[number]
    assert len(own) == len(played.rounds) + (-1 in own)


# --- differential privacy -----------------------------------------------------------------------

TAKING_PART = 2  # houses a round


def clipped(norm: float, noise: float = 0.0) -> Wrap:
    """Flower's wrapper: every house's change is at most `norm` long, noise of norm noise / houses is added."""
    return lambda strategy: DifferentialPrivacyServerSideFixedClipping(
        strategy, noise, norm, TAKING_PART
    )


def steps(played: Played) -> list[float]:
    """Length of the model's change in every round."""
    return [distance(a, b) for a, b in itertools.pairwise(played.rounds)]


def test_privacy_that_clips_nothing_changes_nothing(plays: Plays, tmp_path: Path) -> None:
    """But the last bits: Flower takes the model away from what came back and adds it again."""
    played, end = in_flowers_loop(plays, HOUSES, tmp_path, clipped(1e6)), own_end(plays, HOUSES)
    assert all(same_form(arrays, end) for arrays in played.rounds)
    for name, array in end.items():
        np.testing.assert_allclose(played.rounds[-1][name], array, rtol=1e-4, atol=1e-6)
    own = round_metrics(RunFolder(plays.folder(HOUSES)))
    for number in range(1, len(played.rounds)):
        assert played.metrics(number) == pytest.approx(own[number], rel=1e-4, abs=1e-6)


def test_clipping_bounds_the_models_step(plays: Plays, tmp_path: Path) -> None:
    """Every house alone would go much further; eta, which decays, scales what is left."""
    norm = 1e-3
    played = in_flowers_loop(plays, HOUSES, tmp_path, clipped(norm))
    etas = [played.metrics(n)["server-learning-rate"] for n in range(1, len(played.rounds))]
    assert len(set(etas)) > 1
    own = round_metrics(RunFolder(plays.folder(HOUSES)))
    for number, (eta, step) in enumerate(zip(etas, steps(played), strict=True), 1):
        assert 0.1 * eta * norm < step <= eta * norm * 1.001
        assert own[number]["update-norm"] > 10 * eta * norm
        assert played.metrics(number)["update-norm"] == pytest.approx(step, rel=1e-3)
    assert all(same_form(arrays, played.rounds[0]) for arrays in played.rounds)


def test_noise_reaches_the_next_rounds_houses(plays: Plays, tmp_path: Path) -> None:
    """Its deviation is noise times norm by houses; rounds go on from the model with the noise."""
    np.random.seed(0)
    played = in_flowers_loop(plays, HOUSES, tmp_path, clipped(1e-6, noise=1e4))
    size = sum(a.size for a in played.rounds[0].values())
    for step in steps(played):
        assert step == pytest.approx(1e-6 * 1e4 / TAKING_PART * size**0.5, rel=0.05)
    assert all(same_form(arrays, played.rounds[0]) for arrays in played.rounds)
