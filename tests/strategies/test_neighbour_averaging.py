"""Neighbour averaging by hand: clients are functions, and what they get back is checked against the matrix."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.message_keys import TERMS
from fedsuite.driving.metrics import ERRORS
from fedsuite.driving.topology import Overlay, both_ways
from fedsuite.driving.topology.mixing_matrix import MixingSchedule, rebalance
from fedsuite.driving.topology.relay import relay_schedule
from fedsuite.federation import ClientInfo, Reply, RoundResult, ServerState, Task
from strategies.neighbour_averaging import (
    SILOS,
    Costs,
    NeighbourAveraging,
    errors_by_silo,
    training_metrics,
)
from tests.harness import changed
from tests.schedules import contraction, make_schedule

INITIAL = {
    "w": np.zeros((3, 2), np.float32),
    "n.running_mean": np.zeros(2, np.float32),
    "n.running_var": np.ones(2, np.float32),
    "n.num_batches_tracked": np.array(0),
}
COSTS = Costs(cycle_time_ms=50.0, edges=4.0, bits=800)
Train = Callable[[int, Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


def strategy_of(
    kind: str, num_silos: int, per_client: int = 1, **settings: Any
) -> NeighbourAveraging:
    config = changed(
        CDLConfig(), scenario=kind if kind != "star" else "fedavg", num_rounds=4, **settings
    )
    silos = list(range(num_silos))
    silos_of = [silos[i : i + per_client] for i in range(0, num_silos, per_client)]
    return NeighbourAveraging(config, INITIAL, silos_of, make_schedule(num_silos, kind, 3), COSTS)


def clients_of(strategy: NeighbourAveraging) -> list[ClientInfo]:
    return [ClientInfo(p, f"silo-{p}", 10) for p in range(len(strategy.silos_of))]


def answers(
    strategy: NeighbourAveraging, tasks: Sequence[Task], train: Train, missing: Sequence[int] = ()
) -> list[Reply]:
    """One reply per task; metrics say silo numbers, so that what is reported can be checked."""
    replies = []
    for task in tasks:
        held = strategy.silos_of[task.partition]
        if task.partition in missing and task.kind == "train":
            continue
        if task.kind == "train":
            rows = [train(s, {k: v[i] for k, v in task.arrays.items()}) for i, s in enumerate(held)]
            arrays = {k: np.stack([r[k] for r in rows]) for k in rows[0]}
            names = (*TERMS, "sub-network-distance")
            metrics = {f"silo.{s}.{n}": float(s) for s in held for n in names}
        else:
            arrays, metrics = {}, {}
            for s in held:
                for label, scale in (("own", 1), ("average", 2)):
                    metrics[f"silo.{s}.{label}.squared-error"] = scale * (s + 1.0) ** 3
                    metrics[f"silo.{s}.{label}.absolute-error"] = scale * 1.0 * (s + 1)
                    metrics[f"silo.{s}.{label}.count"] = float(s + 1)
        replies.append(Reply(task.partition, arrays, 10, metrics))
    return replies


def play(
    strategy: NeighbourAveraging, exchanges: Any, train: Train, missing: Sequence[int] = ()
) -> RoundResult:
    try:
        tasks = next(exchanges)
        while True:
            tasks = exchanges.send(answers(strategy, tasks, train, missing))
    except StopIteration as stop:
        assert isinstance(stop.value, RoundResult)
        return stop.value


def add_own_number(silo: int, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        **arrays,
        "w": arrays["w"] + np.float32(silo),
        "n.num_batches_tracked": arrays["n.num_batches_tracked"] + 1,
    }


def stay(silo: int, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    return arrays


def state_of(strategy: NeighbourAveraging) -> ServerState:
    return play(strategy, strategy.start([]), stay).state


@pytest.mark.parametrize("per_client", [1, 2, 5])
@pytest.mark.parametrize("kind", ["ring", "star", "complete", "local"])
def test_rows_of_the_matrix_mix_the_replies(kind: str, per_client: int) -> None:
    strategy = strategy_of(kind, 5, per_client)
    state = state_of(strategy)
    matrix = make_schedule(5, kind, 3).matrix(0)
    result = play(strategy, strategy.train(1, state, []), add_own_number)
    expected = matrix @ np.arange(5.0)
    for i in range(5):
        np.testing.assert_allclose(result.state.arrays["w"][i], expected[i], rtol=1e-6)
    assert result.state.arrays["n.num_batches_tracked"].tolist() == [1] * 5
    assert result.metrics["train.loss"] == 2.0
    assert result.metrics["simulated-seconds"] == pytest.approx(0.05)
    assert result.metrics["overlay-bytes"] == 4 * 800 / 8


def test_an_absent_silo_keeps_its_backbone_and_the_others_go_on_without_it() -> None:
    strategy = strategy_of("complete", 4)
    state = play(strategy, strategy.train(1, state_of(strategy), []), add_own_number).state
    result = play(strategy, strategy.train(2, state, []), add_own_number, missing=[2])
    before = 1.5  # all silos after round 1
    np.testing.assert_allclose(result.state.arrays["w"][2], before, rtol=1e-6)
    for i in (0, 1, 3):
        np.testing.assert_allclose(result.state.arrays["w"][i], before + 4 / 3, rtol=1e-6)
    assert result.metrics["silos-missing"] == 1
    assert "silos-missing" not in play(strategy, strategy.train(2, state, []), stay).metrics


def test_what_is_mixed_beside_the_model_goes_its_way_and_is_no_part_of_the_result() -> None:
    base = strategy_of("complete", 4)
    strategy = NeighbourAveraging(
        base.config, INITIAL, base.silos_of, replace(make_schedule(4, "complete"), absence=rebalance), COSTS,
        {"tracker.w": np.zeros((3, 2), np.float32)},
    )  # fmt: skip

    def train(silo: int, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {**arrays, "tracker.w": arrays["tracker.w"] + np.float32(4 ** (silo + 1))}

    state = state_of(strategy)
    assert state.arrays["tracker.w"].shape == (4, 3, 2)
    result = play(strategy, strategy.train(1, state, []), train, missing=[3])
    # The links to the absent silo return to the others: 1/2 of oneself, 1/4 of either of the others.
    trackers = [(8 + 16 + 64) / 4, (4 + 32 + 64) / 4, (4 + 16 + 128) / 4, 0.0]
    np.testing.assert_allclose(result.state.arrays["tracker.w"][:, 0, 0], trackers)
    assert result.metrics["consensus-distance"] == 0
    done = play(strategy, strategy.finish(4, result.state, clients_of(strategy)), stay).state.arrays
    assert done.keys() == INITIAL.keys() | {f"{SILOS}{k}" for k in INITIAL}
    asked = next(strategy.evaluate(1, result.state, clients_of(strategy)))
    assert not [k for task in asked for k in task.arrays if "tracker" in k]


def test_messages_under_way_are_kept_between_rounds_and_those_that_did_not_come_count_again() -> (
    None
):
    """A chain of three, by hand; what silo 2 sent in the first round is all there is of it in the second."""
    config = changed(CDLConfig(), scenario="mst", num_rounds=4)
    schedule = relay_schedule(Overlay("mst", 3, both_ways([(0, 1), (1, 2)])))
    strategy = NeighbourAveraging(config, INITIAL, [[0], [1], [2]], schedule, COSTS)
    state = play(strategy, strategy.train(1, state_of(strategy), []), add_own_number).state
    assert state.arrays["w"].shape == (3 + 4, 3, 2)
    np.testing.assert_allclose(state.arrays["w"][:3, 0, 0], [1 / 3, 1, 1], rtol=1e-6)
    result = play(strategy, strategy.train(2, state, []), add_own_number, missing=[2])
    expected = [(1 / 3 + 2 + 2) / 3, (1 / 3 + 2 + 2) / 3, 1]
    np.testing.assert_allclose(result.state.arrays["w"][:3, 0, 0], expected, rtol=1e-6)
    assert result.metrics["consensus-distance"] == pytest.approx(6 * 2 / 9 * (13 / 9 - 1) ** 2)
    done = play(strategy, strategy.finish(2, result.state, clients_of(strategy)), stay).state.arrays
    assert done[f"{SILOS}w"].shape == (3, 3, 2)


def test_pure_mixing_contracts_by_the_spectral_bound() -> None:
    rng = np.random.default_rng(0)
    for kind in ("ring", "star"):
        strategy = strategy_of(kind, 7)
        state = state_of(strategy)
        start = {**state.arrays, "w": rng.standard_normal((7, 3, 2)).astype(np.float32)}
        state = ServerState(start, state.scalars)
        bound = contraction(make_schedule(7, kind, 3).matrix(0)) ** 2
        mean = start["w"].mean(0)
        for number in range(1, 30):
            result = play(strategy, strategy.train(number, state, []), stay)
            before = result.metrics["consensus-distance-before-mixing"]
            assert result.metrics["consensus-distance"] <= bound * before * (1 + 1e-5) + 1e-12
            state = result.state
        np.testing.assert_allclose(state.arrays["w"].mean(0), mean, atol=1e-6)
        assert kind == "ring" or result.metrics["consensus-distance"] < 1e-12


def test_errors_are_pooled_over_samples_and_averaged_over_silos() -> None:
    strategy = strategy_of("ring", 3)
    metrics = play(
        strategy, strategy.evaluate(0, state_of(strategy), clients_of(strategy)), stay
    ).metrics
    assert metrics["rmse"] == pytest.approx(np.sqrt(2 * 36 / 6))
    assert metrics["mae"] == pytest.approx(2.0)
    assert [metrics[f"silo.{s}.rmse"] for s in range(3)] == pytest.approx([1, 2, 3])
    assert metrics["silo-rmse.mean"] == pytest.approx(2.0)
    assert metrics["silo-rmse.worst"] == pytest.approx(3.0)
    assert metrics["silo.2.average-rmse"] == pytest.approx(np.sqrt(2 * 9))


def test_the_worst_silo_has_the_lowest_of_what_should_be_high() -> None:
    sums = {"own.squared-error": 8.0, "own.count": 2.0}
    replies = [
        Reply(
            s,
            {},
            1,
            {f"silo.{s}.{k}": v * (s + 1) for k, v in sums.items()} | {f"silo.{s}.own.count": 2.0},
        )
        for s in range(3)
    ]
    for lower, worst in ((True, np.sqrt(12)), (False, 2.0)):
        row = replace(ERRORS[0], lower=lower)
        assert errors_by_silo(replies, [row])["silo-rmse.worst"] == pytest.approx(worst)


def test_what_silos_are_trained_by_is_a_mean_and_what_they_spent_the_most() -> None:
    config = changed(CDLConfig(), scenario="ring", **{"objective.loss": "none"})
    replies = [
        Reply(p, {}, 1, {f"silo.{s}.{k}": float(s) for s in held for k in (*TERMS, "epsilon")})
        for p, held in enumerate([(0, 4), (2,)])
    ]
    assert training_metrics(replies, config) == {f"train.{TERMS[0]}": 2.0}
    private = changed(config, **{"privacy.unit": "example"})
    assert training_metrics(replies, private) == {"train.epsilon": 4.0}


def test_the_result_is_the_average_model_with_the_silos_beside_it() -> None:
    strategy = strategy_of("local", 3, cross_evaluation=True)
    state = play(strategy, strategy.train(1, state_of(strategy), []), add_own_number).state
    result = play(strategy, strategy.finish(1, state, clients_of(strategy)), stay)
    np.testing.assert_allclose(result.state.arrays["w"], 1.0, rtol=1e-6)
    assert result.state.arrays[f"{SILOS}w"].shape == (3, 3, 2)
    assert result.metrics["everywhere-rmse.mean"] == pytest.approx(np.sqrt(12.0))


def test_several_mixings_count_in_steps_time_and_bytes() -> None:
    strategy = strategy_of("ring", 4, per_client=4, mixings_per_round=3)
    exchanges = strategy.train(2, state_of(strategy), [])
    tasks = next(exchanges)
    assert tasks[0].config == {"first-mixing": 3, "mixings": 3}
    replies = answers(strategy, tasks, stay)
    with pytest.raises(StopIteration) as stop:
        exchanges.send(replies)
    metrics = stop.value.value.metrics
    assert metrics["mixings"] == 6 and metrics["simulated-seconds"] == pytest.approx(0.3)


def test_data_weights_replace_the_uniform_row() -> None:
    strategy = strategy_of("star", 2)
    row = np.array([[0.25, 0.75], [0.25, 0.75]])
    strategy.schedule = MixingSchedule("star", 2, row > 0, constant=row)
    result = play(strategy, strategy.train(1, state_of(strategy), []), add_own_number)
    np.testing.assert_allclose(result.state.arrays["w"], 0.75, rtol=1e-6)
