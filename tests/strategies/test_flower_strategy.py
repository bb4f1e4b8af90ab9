from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from flwr.app import Array, ArrayRecord, ConfigRecord
from flwr.serverapp.strategy import Strategy

from fedsuite.config import to_flat
from fedsuite.errors import RunFailed
from fedsuite.federation import RoundResult, Task
from fedsuite.run_folder import RunFolder
from simulations.client_app import app as client_app
from simulations.engines.inprocess import InProcessGrid, server_identity
from strategies.flower_strategy import FedsuiteStrategy
from tests.harness import results_of, run_toy, toy_settings
from tests.toy import ToyStrategy


@pytest.fixture(autouse=True)
def identity() -> Iterator[None]:
    with server_identity():
        yield


def setup(results: Path, make: Any = ToyStrategy, **changes: Any) -> tuple[FedsuiteStrategy, Any]:
    settings = toy_settings(results, **changes)
    grid = InProcessGrid(client_app, settings.num_clients, to_flat(settings))
    folder = RunFolder(results / "run")
    folder.path.mkdir(parents=True)
    return FedsuiteStrategy(make(settings), settings, folder, settings.num_clients), grid


def start_arrays(settings_width: int = 4) -> ArrayRecord:
    return ArrayRecord({"w": Array(np.zeros(settings_width, np.float32))})


def test_start_is_the_whole_run_in_flowers_terms(tmp_path: Path) -> None:
    strategy, grid = setup(tmp_path / "a")
    assert isinstance(strategy, Strategy)
    result = strategy.start(grid, num_rounds=3, timeout=30)
    own = run_toy(tmp_path / "b", num_rounds=3)
    history = (tmp_path / "a" / "run" / "history.jsonl").read_bytes()
    assert history == (own.path / "history.jsonl").read_bytes()
    assert list(result.arrays) == ["w"]
    assert set(result.evaluate_metrics_clientapp[3]) == {"loss"}
    assert "model.safetensors" in results_of(own)


def test_start_refuses_what_it_would_ignore(tmp_path: Path) -> None:
    strategy, grid = setup(tmp_path)
    with pytest.raises(ValueError, match="initial_arrays: the strategy makes its own"):
        strategy.start(grid, start_arrays())
    with pytest.raises(ValueError, match="train_config"):
        strategy.start(grid, train_config=ConfigRecord({"a": 1}))


def test_flowers_own_loop_can_drive_a_round_of_one_exchange(tmp_path: Path) -> None:
    strategy, grid = setup(tmp_path / "a")
    result = Strategy.start(strategy, grid, strategy.initial_arrays(grid), num_rounds=3)
    own = safetensors.numpy.load(run_toy(tmp_path / "b", num_rounds=3).model.read_bytes())
    np.testing.assert_array_equal(result.arrays["w"].numpy(), own["w"])
    losses = [result.train_metrics_clientapp[n]["train-loss"] for n in (1, 2, 3)]
    assert losses[2] < losses[0]


def test_bad_replies_are_not_merged_there_either(tmp_path: Path) -> None:
    strategy, grid = setup(tmp_path, fault="nan")
    with pytest.raises(RunFailed, match=r"round 2, train: .*site-1: rejected"):
        Strategy.start(strategy, grid, start_arrays(), num_rounds=3)


def test_config_of_the_caller_reaches_the_tasks(tmp_path: Path) -> None:
    strategy, grid = setup(tmp_path)
    messages = list(strategy.configure_train(2, start_arrays(), ConfigRecord({"lr": 0.5}), grid))
    assert [dict(m.content["config"])["lr"] for m in messages] == [0.5] * 3
    assert dict(messages[0].content["config"])["round"] == 2
    with pytest.raises(RuntimeError, match="call configure_train before"):
        setup(tmp_path / "other")[0].aggregate_train(1, [])


class TwoExchanges(ToyStrategy):
    def round(self, number, state, clients):
        yield [Task(c.partition, "train", state.arrays) for c in clients]
        yield [Task(c.partition, "evaluate", state.arrays) for c in clients]
        return RoundResult(state)


class EvaluatesFirst(ToyStrategy):
    def round(self, number, state, clients):
        yield [Task(c.partition, "evaluate", state.arrays) for c in clients]
        return RoundResult(state)


@pytest.mark.parametrize("make", [TwoExchanges, EvaluatesFirst])
def test_richer_rounds_say_that_they_need_start(tmp_path: Path, make: Any) -> None:
    strategy, grid = setup(tmp_path, make)
    with pytest.raises(RuntimeError, match=r"not one exchange of training tasks.*start\(\)"):
        Strategy.start(strategy, grid, start_arrays(), num_rounds=1)
