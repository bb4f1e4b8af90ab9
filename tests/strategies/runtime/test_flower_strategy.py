import copy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from flwr.app import Array, ArrayRecord, ConfigRecord, Message
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, Strategy

from fedsuite.errors import RunFailed
from fedsuite.federation import RoundResult, Task
from simulations.engines.inprocess import server_identity
from strategies.runtime.post import STRAY
from strategies.sequential_averaging import SequentialAveraging
from tests.harness import Recorder, results_of, run_toy
from tests.strategies.runtime.loops import Scored, in_flower, looped, round_metrics
from tests.toy import ToyClient, ToySettings, ToyStrategy


@pytest.fixture(autouse=True)
def identity() -> Iterator[None]:
    with server_identity():
        yield


def start_arrays(settings_width: int = 4) -> ArrayRecord:
    return ArrayRecord({"w": Array(np.zeros(settings_width, np.float32))})


def test_start_is_the_whole_run_in_flowers_terms(tmp_path: Path) -> None:
    strategy, grid = in_flower(tmp_path / "a", ToyStrategy)
    assert isinstance(strategy, Strategy)
    result = strategy.start(grid, num_rounds=3, timeout=30)
    own = run_toy(tmp_path / "b", num_rounds=3)
    history = (tmp_path / "a" / "run" / "history.jsonl").read_bytes()
    assert history == (own.path / "history.jsonl").read_bytes()
    assert list(result.arrays) == ["w"]
    assert set(result.evaluate_metrics_clientapp[3]) == {"loss"}
    assert "model.safetensors" in results_of(own)


def test_start_refuses_what_it_would_ignore(tmp_path: Path) -> None:
    strategy, grid = in_flower(tmp_path, ToyStrategy)
    with pytest.raises(ValueError, match="initial_arrays: the strategy makes its own"):
        strategy.start(grid, start_arrays())
    with pytest.raises(ValueError, match="train_config"):
        strategy.start(grid, train_config=ConfigRecord({"a": 1}))


def test_flowers_own_loop_can_drive_a_round_of_one_exchange(tmp_path: Path) -> None:
    strategy, grid = in_flower(tmp_path / "a", ToyStrategy)
    result = Strategy.start(strategy, grid, strategy.initial_arrays(grid), num_rounds=3)
    own = safetensors.numpy.load(run_toy(tmp_path / "b", num_rounds=3).model.read_bytes())
    np.testing.assert_array_equal(result.arrays["w"].numpy(), own["w"])
    losses = [result.train_metrics_clientapp[n]["train-loss"] for n in (1, 2, 3)]
    assert losses[2] < losses[0]


def test_bad_replies_are_not_merged_there_either(tmp_path: Path) -> None:
    strategy, grid = in_flower(tmp_path, ToyStrategy, fault="nan")
    with pytest.raises(RunFailed, match=r"round 2, train: .*site-1: rejected"):
        Strategy.start(strategy, grid, start_arrays(), num_rounds=3)


def test_a_merge_that_nobody_must_get_ends_the_run_there_too(tmp_path: Path) -> None:
    strategy, grid = in_flower(tmp_path, ToyStrategy, fault="server-nan")
    with pytest.raises(RunFailed, match=r"round 2: the merged model: .*NaN"):
        Strategy.start(strategy, grid, start_arrays(), num_rounds=3)


def test_config_of_the_caller_reaches_the_tasks(tmp_path: Path) -> None:
    strategy, grid = in_flower(tmp_path, ToyStrategy)
    messages = list(strategy.configure_train(2, start_arrays(), ConfigRecord({"lr": 0.5}), grid))
    assert [dict(m.content["config"])["lr"] for m in messages] == [0.5] * 3
    assert dict(messages[0].content["config"])["round"] == 2
    with pytest.raises(RuntimeError, match="call configure_train before"):
        in_flower(tmp_path / "other", ToyStrategy)[0].aggregate_train(1, [])


class TrainsTwice(ToyStrategy):
    def train(self, number, state, clients):
        yield [Task(c.partition, "train", state.arrays) for c in clients]
        yield [Task(c.partition, "train", state.arrays) for c in clients]
        return RoundResult(state)


class EvaluatesInTraining(ToyStrategy):
    def train(self, number, state, clients):
        yield [Task(c.partition, "evaluate", state.arrays) for c in clients]
        return RoundResult(state)


class EvaluatesTwice(ToyStrategy):
    def evaluate(self, number, state, clients):
        yield [Task(c.partition, "evaluate", state.arrays) for c in clients]
        yield [Task(c.partition, "evaluate", state.arrays) for c in clients]
        return RoundResult(state)


@pytest.mark.parametrize(
    ("make", "step"),
    [(TrainsTwice, "train"), (EvaluatesInTraining, "train"), (EvaluatesTwice, "evaluate")],
)
def test_richer_rounds_say_that_they_need_start(tmp_path: Path, make: Any, step: str) -> None:
    strategy, grid = in_flower(tmp_path, make)
    with pytest.raises(
        RuntimeError, match=rf"does not {step} with one exchange.*configure_{step}.*start\(\)"
    ):
        Strategy.start(strategy, grid, start_arrays(), num_rounds=1)


def test_houses_that_train_in_turn_need_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ToyClient, "_metrics", lambda *_: {"steps": 1})  # as houses say
    initial = {"w": np.zeros(4, np.float32)}
    strategy, grid = in_flower(tmp_path, lambda _: SequentialAveraging(initial, lambda client: 1))
    with pytest.raises(RuntimeError, match="does not train with one exchange"):
        Strategy.start(strategy, grid, start_arrays(), num_rounds=1)


@pytest.mark.parametrize(("every", "scored"), [(1, [1, 2, 3]), (2, [2, 3]), (0, [3])])
def test_evaluations_are_those_of_the_own_loop(
    tmp_path: Path, every: int, scored: list[int]
) -> None:
    changes = {"num_rounds": 3, "evaluate_every": every}

    def make(settings: ToySettings) -> Scored:
        return Scored(settings, scores=(0.1, 0.2, 0.3, 0.4))

    strategy, grid = in_flower(tmp_path / "a", make, **changes)
    result = Strategy.start(strategy, grid, strategy.initial_arrays(grid), num_rounds=3)
    found = {n: dict(m) for n, m in result.evaluate_metrics_clientapp.items()}
    assert found == {n: {"score": (0.1, 0.2, 0.3, 0.4)[n]} for n in scored}
    _, folder = looped(tmp_path / "b", make, **changes)
    own = {n: m["score"] for n, m in round_metrics(folder).items() if n > 0 and "score" in m}
    assert own == {n: m["score"] for n, m in found.items()}


def test_training_tasks_are_told_the_same_as_in_the_own_loop(tmp_path: Path) -> None:
    """Of the best round clients keep their own state for the end of the run; after the last in which they trained, they
    may have to forget."""

    def make(settings: ToySettings) -> Scored:
        return Scored(settings, scores=(0.1, 0.3, 0.2, 0.4))

    sent: dict[str, list[Any]] = {}
    strategy, grid = in_flower(tmp_path / "a", make, num_rounds=3)
    flowers = SendsAtOnce(grid)
    Strategy.start(strategy, flowers, strategy.initial_arrays(flowers), num_rounds=3)
    recorders: list[Recorder] = []
    looped(
        tmp_path / "b", make, lambda g: recorders.append(Recorder(g)) or recorders[0], num_rounds=3
    )
    for name, recorder in (("flower", flowers), ("own", recorders[0])):
        tasks = [m for m in recorder.sent if m.metadata.message_type == "train"]
        configs = [m.content["config"] for m in tasks]
        sent[name] = [(c.get("best-round"), c.get("last-trained")) for c in configs]
    told = zip((0, 1, 1), (0, 1, 2), strict=True)
    assert sent["flower"] == sent["own"] == [pair for pair in told for _ in range(3)]


class SendsAtOnce(Recorder):
    """Lets Flower's own loop through."""

    def send_and_receive(self, messages: Iterable[Message], **kwargs: Any) -> Iterable[Message]:
        kept = list(messages)
        self.sent += kept
        return self.inner.send_and_receive(kept, **kwargs)


@pytest.mark.parametrize("every", [1, 0])
def test_a_round_that_a_wrapper_gave_up_on_is_no_round(tmp_path: Path, every: int) -> None:
    """Flower's privacy wrappers drop a round with an error reply in it and go on; we do not."""
    strategy, grid = in_flower(tmp_path, ToyStrategy, fault="raise", evaluate_every=every)
    private = DifferentialPrivacyServerSideFixedClipping(strategy, 0.0, 1.0, 3)
    with pytest.raises(RunFailed, match="round 2: the replies to 3 tasks never came to be merged"):
        private.start(grid, strategy.initial_arrays(grid), num_rounds=4)


def test_second_replies_and_those_of_strangers_are_ignored_there_too(tmp_path: Path) -> None:
    strategy, grid = in_flower(tmp_path / "a", ToyStrategy)
    own, plain = in_flower(tmp_path / "b", ToyStrategy)
    found = []
    for one, network, more in ((strategy, grid, True), (own, plain, False)):
        asked = one.configure_train(1, one.initial_arrays(network), ConfigRecord(), network)
        replies = list(network.send_and_receive(list(asked)))
        if more:
            second = copy.deepcopy(replies[0])
            second.content["arrays"]["w"] = Array(np.full(4, 9, np.float32))
            stranger = copy.deepcopy(second)
            stranger.metadata.__dict__["_src_node_id"] = 4711
            replies += [second, stranger]
        merged, _ = one.aggregate_train(1, replies)
        assert merged is not None
        found.append(merged["w"].numpy())
    np.testing.assert_array_equal(*found)
    assert strategy.folder.errors.read_text().count(STRAY) == 2 and not own.folder.errors.exists()
