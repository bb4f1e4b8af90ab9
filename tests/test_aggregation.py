"""Weighted averaging against hand-made numbers and algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuite.aggregation import (
    MERGE_RULES,
    SERVER_OPTIMIZERS,
    mean,
    median,
    plain,
    server_step,
    shares,
    weighted_means,
)

counts = st.lists(st.integers(0, 300), min_size=1, max_size=8).filter(lambda n: sum(n) > 0)


def arrays(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        k: rng.normal(size=s).astype(np.float32) for k, s in (("a", (3, 2)), ("b", (4,)), ("c", ()))
    }


@given(counts)
def test_shares_are_proportional_and_add_up_to_one(n):
    p = shares(n)
    assert p.dtype == np.float64 and p.sum() == pytest.approx(1)
    assert np.allclose(p * sum(n), n)


@pytest.mark.parametrize("bad", [[], [0, 0], [3, -1]])
def test_shares_refuse_counts_without_meaning(bad):
    with pytest.raises(ValueError, match="sample counts"):
        shares(bad)


def step(*arguments, **values):
    """The next server model, of an optimizer without a state."""
    moved, state = server_step(*arguments, **values)
    assert state == {}
    return moved


def test_three_clients_by_hand():
    """p = (1/4, 1/4, 1/2), rate 2, clients move by 1, 2, 3 from 0: 2 (0.25 + 0.5 + 1.5) = 4.5."""
    server = {"w": np.zeros(2, np.float32)}
    clients = [{"w": np.full(2, v, np.float32)} for v in (1, 2, 3)]
    assert step(server, clients, shares([1, 1, 2]), 2.0)["w"].tolist() == [4.5, 4.5]
    assert server["w"].tolist() == [0, 0]


@settings(max_examples=30)
@given(counts, st.integers(0, 1000))
def test_rate_one_is_the_weighted_mean(n, seed):
    rng = np.random.default_rng(seed)
    server, clients = arrays(rng), [arrays(rng) for _ in n]
    merged = step(server, clients, shares(n))
    for name in server:
        want = np.average([c[name].astype(float) for c in clients], axis=0, weights=n)
        assert merged[name].dtype == np.float32 and merged[name].shape == server[name].shape
        np.testing.assert_allclose(merged[name], want, rtol=1e-6, atol=1e-6)


@settings(max_examples=30)
@given(counts, st.floats(0.1, 4), st.integers(0, 1000))
def test_clients_that_do_not_move_leave_the_server_as_it_was(n, rate, seed):
    server = arrays(np.random.default_rng(seed))
    merged = step(server, [server] * len(n), shares(n), rate)
    assert all(np.array_equal(merged[k], server[k]) for k in server)


def test_names_that_clients_do_not_send_keep_the_servers_value():
    server = {"shared": np.ones(2, np.float32), "own": np.full(2, 7, np.float32)}
    merged = step(server, [{"shared": np.zeros(2, np.float32)}], [1.0])
    assert merged["shared"].tolist() == [0, 0] and merged["own"].tolist() == [7, 7]
    merged["own"][0] = 0
    assert server["own"].tolist() == [7, 7]


def test_sums_are_taken_in_double_precision():
    """In float32 the large pair would swallow the small delta."""
    big, small = 2.0**24, 1.0
    clients = [{"w": np.array([v], np.float32)} for v in (big, small, -big)]
    assert step({"w": np.zeros(1, np.float32)}, clients, [1.0, 1.0, 1.0])["w"][0] == 1.0


def test_a_client_in_turn_moves_the_server_by_its_share_alone():
    rng = np.random.default_rng(0)
    server, client = arrays(rng), arrays(rng)
    one = step(server, [client], [0.25], 6.0)
    for name in server:
        want = server[name] + 1.5 * (client[name].astype(float) - server[name])
        np.testing.assert_allclose(one[name], want, rtol=1e-6)


# --- merge rules and server optimizers ----------------------------------------------------------


@settings(max_examples=30)
@given(counts, st.integers(0, 1000))
def test_the_mean_rule_against_numpy(n, seed):
    rng = np.random.default_rng(seed)
    server, clients = arrays(rng), [arrays(rng) for _ in n]
    delta = mean(server, clients, shares(n))
    for name in server:
        moves = np.stack([c[name].astype(float) - server[name] for c in clients])
        want = np.average(moves, axis=0, weights=n)
        assert delta[name].dtype == np.float64 and delta[name].shape == server[name].shape
        np.testing.assert_allclose(delta[name], want, rtol=1e-12, atol=1e-12)


@settings(max_examples=30)
@given(counts, st.integers(0, 1000))
def test_the_median_rule_number_by_number(n, seed):
    """The middle one of sorted moves, or the mean of the two in the middle; sample counts play no part."""
    rng = np.random.default_rng(seed)
    server, clients = arrays(rng), [arrays(rng) for _ in n]
    delta = median(server, clients, shares(n))
    for name, start in server.items():
        assert delta[name].dtype == np.float64 and delta[name].shape == start.shape
        for at in np.ndindex(start.shape):
            moves = sorted(float(c[name][at]) - float(start[at]) for c in clients)
            want = (moves[(len(moves) - 1) // 2] + moves[len(moves) // 2]) / 2
            assert delta[name][at] == pytest.approx(want, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("rule", [mean, median])
def test_a_single_number_stays_an_array(rule):
    """NumPy makes scalars of sums of arrays without dimensions; those could not be sent."""
    rng = np.random.default_rng(0)
    moved = step(arrays(rng), [arrays(rng), arrays(rng)], [0.5, 0.5], merge=rule)
    assert all(isinstance(a, np.ndarray) for a in moved.values()) and moved["c"].shape == ()


def test_one_strange_client_moves_the_median_little_and_the_mean_far():
    server = {"w": np.zeros(3, np.float32)}
    clients = [{"w": np.full(3, v, np.float32)} for v in (1, 1.25, 1.5, 1e6)]
    assert step(server, clients, [0.25] * 4, merge=median)["w"].tolist() == [1.375] * 3
    assert step(server, clients, [0.25] * 4, merge=mean)["w"].min() > 1e5


def test_a_rule_of_ones_own_gets_server_clients_and_weights():
    server = {"w": np.ones(2, np.float32), "own": np.zeros(1, np.float32)}
    clients = [{"w": np.full(2, v, np.float32)} for v in (3, 5)]
    seen = []

    def rule(server, clients, weights):
        seen.append((server, clients, weights))
        return {"w": np.array([1.0, -1.0])}

    moved = step(server, clients, [0.25, 0.75], 2.0, rule)
    ((got_server, got_clients, weights),) = seen
    assert got_server is server and got_clients is clients
    assert weights.dtype == np.float64 and weights.tolist() == [0.25, 0.75]
    assert moved["w"].tolist() == [3, -1] and moved["own"].tolist() == [0]
    assert moved["w"].dtype == np.float32


def adam(server, delta, state, rate):
    """Reddi et al. 2021 without bias correction, its step counted in an array without dimensions."""
    first = {k: 0.9 * state.get(f"m.{k}", 0 * d) + 0.1 * d for k, d in delta.items()}
    second = {k: 0.99 * state.get(f"v.{k}", 0 * d) + 0.01 * d**2 for k, d in delta.items()}
    moved = {k: server[k] + rate * first[k] / (np.sqrt(second[k]) + 1e-3) for k in delta}
    kept = {f"m.{k}": v for k, v in first.items()} | {f"v.{k}": v for k, v in second.items()}
    return moved, kept | {"steps": np.asarray(state.get("steps", 0) + 1)}


def test_a_server_optimizers_state_is_handed_from_step_to_step():
    """Against the same formulas on numbers."""
    rng = np.random.default_rng(0)
    model, state = {"w": rng.normal(size=2).astype(np.float32)}, None
    w, m, v = model["w"].astype(float), np.zeros(2), np.zeros(2)
    for number in range(1, 6):
        clients = [{"w": rng.normal(size=2).astype(np.float32)} for _ in range(3)]
        delta = np.mean([c["w"].astype(float) - model["w"] for c in clients], axis=0)
        m, v = 0.9 * m + 0.1 * delta, 0.99 * v + 0.01 * delta**2
        w = (model["w"] + 0.5 * m / (np.sqrt(v) + 1e-3)).astype(np.float32)
        model, state = server_step(model, clients, [1 / 3] * 3, 0.5, mean, adam, state)
        np.testing.assert_allclose(model["w"], w, rtol=1e-6)
        assert model["w"].dtype == np.float32 and state["steps"] == number


def test_values_by_name():
    assert {"mean": mean, "median": median} == MERGE_RULES
    assert {"none": plain} == SERVER_OPTIMIZERS


# --- bad input, and metrics ---------------------------------------------------------------------


def test_missing_array_or_weight_is_an_error():
    server = {"w": np.zeros(1, np.float32)}
    with pytest.raises(KeyError):
        step(server, [{"w": server["w"]}, {}], [0.5, 0.5])
    with pytest.raises(ValueError):
        step(server, [{"w": server["w"]}], [0.5, 0.5])


def test_weighted_means_use_the_clients_that_report():
    metrics = [{"loss": 1.0, "rare": 5.0}, {"loss": 4.0}, {"loss": 9.0, "none": 1.0}]
    assert weighted_means(metrics, [2, 1, 0]) == {"loss": 2.0, "rare": 5.0}
    assert weighted_means([], []) == {}
