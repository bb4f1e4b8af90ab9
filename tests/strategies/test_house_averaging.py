"""One round of federated training, with houses that only pretend to train."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuite.averaging.robust import MERGE_RULES, Merge
from fedsuite.averaging.server_optimizers import SERVER_OPTIMIZERS
from fedsuite.federation import ClientInfo, RateSchedule, ServerState
from strategies.house_averaging import HouseAveraging
from strategies.participation import InGroups, one_by_one
from tests.harness import changed
from tests.strategies.played import CONFIG, INITIAL, Houses, houses, made, run_round

# --- aggregation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "starts", "exchanges"),
    [("parallel", [0, 0, 0], 1), ("sequential", [0, 0.5, 1.5], 3)],
)
def test_both_modes_end_at_four_and_a_half(mode, starts, exchanges):
    """p = (1/4, 1/4, 1/2), eta 2, clients add 1, 2, 3; where they start is what differs."""
    result, federation = run_round(changed(CONFIG, aggregation=mode), houses(4, 4, 8))
    assert result.state.arrays["w"].tolist() == [4.5, 4.5] and result.state.arrays["b"] == 4.5
    assert [t.arrays["w"][0] for t in federation.trained] == starts
    assert len(federation.exchanges) == exchanges
    assert result.metrics["update-norm"] == pytest.approx(4.5 * 3**0.5)
    assert INITIAL["w"].tolist() == [0, 0]


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_a_lost_house(mode):
    """Parallel: the others' weights relative to one another; sequential: it moves nothing."""
    config = changed(CONFIG, aggregation=mode, server_learning_rate=1.0)
    result, _ = run_round(config, houses(4, 4, 8), lost=[2])
    want = 1.5 if mode == "parallel" else 0.25 * 1 + 0.25 * 2
    assert result.state.arrays["w"].tolist() == [want, want]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=7), st.floats(0.1, 3))
def test_parallel_is_the_weighted_mean_times_eta(examples, eta):
    config = changed(CONFIG, server_learning_rate=eta)
    result, _ = run_round(config, houses(*examples))
    mean = np.average(np.arange(len(examples)) + 1, weights=examples)
    assert result.state.arrays["w"] == pytest.approx(np.full(2, eta * mean), rel=1e-5)


# --- who trains, and how long -----------------------------------------------------------------


def test_steps_are_those_of_the_local_epochs():
    config = changed(CONFIG, local_epochs=3)
    result, federation = run_round(config, houses(4, 5, 1))
    assert [t.config["steps"] for t in federation.trained] == [3, 4, 1]
    assert result.state.scalars["local-steps"] == 8 and result.metrics["local-steps"] == 8.0


def test_training_metrics_are_means_over_steps():
    result, _ = run_round(changed(CONFIG, local_epochs=3), houses(4, 5, 1))
    assert result.metrics["train.loss"] == pytest.approx((3 * 1 + 4 * 2 + 1 * 3) / 8)
    assert "train.steps" not in result.metrics


def test_houses_without_training_samples_do_not_train():
    clients = [*houses(8, 8), ClientInfo(2, "unseen", 0, {"val_unseen.count": 5})]
    _, federation = run_round(CONFIG, clients)
    assert {t.partition for t in federation.trained} == {0, 1}


def test_weights_follow_the_house_and_not_the_order_of_replies():
    """Replies come sorted by partition; the published order is not."""
    clients = [ClientInfo(p, "", 1 + p) for p in range(61)]
    config = changed(
        CONFIG, participation_rate=0.2, participation="published", server_learning_rate=1.0
    )
    result, federation = run_round(config, clients)
    chosen = np.array([t.partition for t in federation.trained])
    want = np.average(chosen + 1, weights=chosen + 1)
    assert result.state.arrays["w"][0] == pytest.approx(want, rel=1e-6)


# --- merge rules and server optimizers ----------------------------------------------------------


def strategy_of(**values):
    return HouseAveraging(INITIAL, lambda client: 1, **values)


def test_the_merge_rule_is_a_value():
    """Medians of the houses' changes 1, 2, 3, 4 and 5 are 3, whatever their samples; twice that with eta 2."""
    federation = Houses(houses(90, 1, 1, 1, 1))
    strategy = strategy_of(merge=Merge(MERGE_RULES["median"]), rate=RateSchedule(2.0))
    result = federation.train(strategy, 1, federation.start(strategy))
    assert result.state.arrays["w"].tolist() == [6, 6]


def momentum(server, delta, state, step):
    """v <- v / 2 + Delta; w <- w + eta v."""
    velocity = {k: 0.5 * state.get(k, np.zeros_like(d)) + d for k, d in delta.items()}
    return {k: server[k] + step.rate * v for k, v in velocity.items()}, velocity


def test_a_server_optimizer_finds_its_state_again():
    """Delta is 1 in every round: v = 1, 1.5, 1.75."""
    federation = Houses(houses(4))
    strategy = strategy_of(server_optimizer=momentum)
    state, seen = federation.start(strategy), []
    assert state.optimizer == {}
    for number in (1, 2, 3):
        state = federation.train(strategy, number, state).state
        seen.append((float(state.optimizer["w"][0]), float(state.arrays["w"][0])))
    assert seen == [(1, 1), (1.5, 2.5), (1.75, 4.25)]
    assert state.arrays["w"].dtype == np.float32 and state.optimizer["w"].dtype == np.float64
    assert all(t.arrays.keys() == {"w", "b"} for t in federation.trained)


# --- evaluation -------------------------------------------------------------------------------

MIXED = [
    ClientInfo(0, "a", 8, {"val_seen.count": 3}),
    ClientInfo(1, "b", 8, {}),
    ClientInfo(2, "c", 8, {"val_seen.count": 1, "val_unseen.count": 2}),
    ClientInfo(3, "d", 0, {"val_unseen.count": 6}),
]


def test_scores_are_means_over_instructions():
    federation, strategy = Houses(MIXED), made(CONFIG, INITIAL)
    state = federation.start(strategy)
    result = federation.evaluate(strategy, 0, state)
    received_once, tasks = federation.exchanges
    assert received_once == [] and [t.partition for t in tasks] == [0, 2, 3]
    assert all(t.kind == "evaluate" and t.returns == {} for t in tasks)
    assert result.metrics == pytest.approx(
        {
            "val_seen.sr": (3 * 0.0 + 1 * 0.2) / 4,
            "val_seen.count": 4,
            "val_unseen.sr": (2 * 0.2 + 6 * 0.3) / 8,
            "val_unseen.count": 8,
        }
    )


def test_training_asks_for_no_scores():
    result, federation = run_round(replace(CONFIG, evaluate_every=1), MIXED)
    assert [t.kind for tasks in federation.exchanges for t in tasks] == ["train"] * 3
    assert not any(k.startswith("val") for k in result.metrics)


def test_the_merged_agent_is_evaluated_without_optimizer_state():
    config = changed(CONFIG, client_optimizer="shared")
    result, federation = run_round(config, MIXED)
    federation.evaluate(made(config, INITIAL), 1, result.state)
    for task in federation.exchanges[-1]:
        assert set(task.arrays) == {"w", "b"}
        assert np.array_equal(task.arrays["w"], result.state.arrays["w"])


@pytest.mark.parametrize("wanted", [False, True])
def test_submissions_are_asked_for_at_the_end_only(wanted):
    config = changed(CONFIG, submission=wanted)
    strategy = made(config, INITIAL)
    result, federation = run_round(config, MIXED)
    federation.evaluate(strategy, 1, result.state)
    assert [t.config for t in federation.exchanges[-1]] == [{}] * 3
    federation.pop()
    federation.finish(strategy, 1, result.state)
    asked = [t for tasks in federation.exchanges for t in tasks]
    assert [t.config for t in asked] == [{"write": True}] * 3 * wanted


def test_the_selected_agent_is_the_result_and_writes():
    config = changed(CONFIG, selection="best-val-seen", submission=True)
    result, federation = run_round(config, MIXED)
    best = {k: v + 1 for k, v in INITIAL.items()}
    final = federation.finish(made(config, INITIAL), 1, replace(result.state, best=best))
    assert final.state.arrays == best and final.state.best == {}
    assert all(t.arrays is best for t in federation.exchanges[-1])


def test_a_resumed_round_is_the_same_round():
    config = changed(CONFIG, participation_rate=0.5)
    clients = houses(*range(4, 14))
    state, results = None, []
    for number in (1, 2, 3):
        results.append(run_round(config, clients, state, number)[0])
        state = results[-1].state
    stored = ServerState(dict(results[1].state.arrays), dict(results[1].state.scalars))
    again = run_round(config, clients, stored, 3)[0]
    assert again.metrics == results[2].metrics
    assert np.array_equal(again.state.arrays["w"], results[2].state.arrays["w"])


# --- groups -----------------------------------------------------------------------------------


def test_groups_of_one_are_parallel_averaging_to_the_byte():
    federation = Houses(houses(3, 1, 2, 5))
    ends = []
    for grouping in (InGroups(1, 7), one_by_one):
        strategy = strategy_of(grouping=grouping, server_optimizer=SERVER_OPTIMIZERS["nesterov"])
        state = federation.start(strategy)
        federation.pop()
        for number in (1, 2, 3):
            state = federation.train(strategy, number, state).state
        ends.append((state, [len(tasks) for tasks in federation.pop()]))
    (one, first), (two, second) = ends
    assert first == second == [4, 4, 4] and one.scalars == two.scalars
    assert all(one.arrays[k].tobytes() == two.arrays[k].tobytes() for k in one.arrays)


def test_members_of_a_group_train_in_turn_and_groups_side_by_side():
    """Chains (0, 1) and (2, 3): changes 1 + 2 and 3 + 4, weights 4/10 and 6/10: Delta = 5.4."""

    def pairs(number, chosen):
        return [list(chosen[:2]), list(chosen[2:])]

    federation = Houses(houses(1, 3, 4, 2))
    strategy = strategy_of(grouping=pairs)
    state = federation.start(strategy)
    federation.pop()
    result = federation.train(strategy, 1, state)
    assert result.state.arrays["w"].tolist() == pytest.approx([5.4, 5.4])
    assert [[t.partition for t in tasks] for tasks in federation.pop()] == [[0, 2], [1, 3]]
    own = [strategy.steps(c) for c in federation.clients.values()]
    assert result.metrics["serial-depth"] == max(own[0] + own[1], own[2] + own[3])
    assert result.metrics["local-steps"] == sum(own)


def test_a_lost_member_is_left_out_of_its_chain():
    def pairs(number, chosen):
        return [list(chosen[:2]), list(chosen[2:])]

    federation = Houses(houses(1, 3, 4, 2), lost=[1])
    strategy = strategy_of(grouping=pairs)
    result = federation.train(strategy, 1, federation.start(strategy))
    assert result.state.arrays["w"].tolist() == pytest.approx([(1 * 1 + 6 * 7) / 7] * 2)


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 20))
def test_groups_are_drawn_from_the_seed_and_hold_everybody_once(count, size, number):
    chosen = houses(*[1] * count)
    groups = InGroups(size, 3)(number, chosen)
    assert groups == InGroups(size, 3)(number, chosen)
    assert sorted(c.partition for g in groups for c in g) == list(range(count))
    assert len(groups) == -(-count // size) and max(map(len, groups)) <= size
    lowest = [min(c.partition for c in g) for g in groups]
    assert lowest == sorted(lowest)


def test_other_rounds_have_other_groups():
    chosen = houses(*[1] * 12)
    orders = {
        tuple(c.partition for g in InGroups(3, 0)(number, chosen) for c in g)
        for number in range(1, 9)
    }
    assert len(orders) == 8
