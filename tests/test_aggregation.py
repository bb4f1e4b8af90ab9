"""Weighted averaging against hand-made numbers and algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuite.averaging.merging import (
    ServerStep,
    capped,
    mean,
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


def step(server, clients, weights, rate=1.0):
    """The next server model after the mean of changes, of an optimizer without a state."""
    moved, state = server_step(server, mean(server, clients, weights), ServerStep(rate))
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


# --- merging and server optimizers ----------------------------------------------------------


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


@pytest.mark.parametrize(
    ("most", "want"),
    [
        (1.0, [0.01, 0.02, 0.03, 0.01, 0.02, 0.01, 0.9]),
        (0.25, [0.075, 0.15, 0.225, 0.075, 0.15, 0.075, 0.25]),
        (
            0.2,
            [0.6 / 7, 1.2 / 7, 0.2, 0.6 / 7, 1.2 / 7, 0.6 / 7, 0.2],
        ),  # lifting the others lifted the third too far
        (1 / 7, [1 / 7] * 7),
        (0.01, [1 / 7] * 7),
    ],
)
def test_no_weight_is_above_the_cap(most, want):
    weights = capped(shares([10, 20, 30, 10, 20, 10, 900]), most)
    np.testing.assert_allclose(weights, want, rtol=1e-12)


@given(counts, st.floats(0.01, 1))
def test_a_cap_keeps_the_order_and_the_sum(n, most):
    before, after = shares(n), capped(shares(n), most)
    assert after.sum() == pytest.approx(1) and (after >= 0).all()
    assert after.max() <= max(most, 1 / len(n)) + 1e-12
    assert (np.diff(after[np.argsort(before, kind="stable")]) >= -1e-12).all()
    if before.max() <= most and len(n) * most > 1:
        assert after.tolist() == before.tolist()


def adam(server, delta, state, step):
    """Reddi et al. 2021 without bias correction, its step counted in an array without dimensions."""
    first = {k: 0.9 * state.get(f"m.{k}", 0 * d) + 0.1 * d for k, d in delta.items()}
    second = {k: 0.99 * state.get(f"v.{k}", 0 * d) + 0.01 * d**2 for k, d in delta.items()}
    moved = {k: server[k] + step.rate * first[k] / (np.sqrt(second[k]) + 1e-3) for k in delta}
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
        merged = mean(model, clients, [1 / 3] * 3)
        model, state = server_step(model, merged, ServerStep(0.5), adam, state)
        np.testing.assert_allclose(model["w"], w, rtol=1e-6)
        assert model["w"].dtype == np.float32 and state["steps"] == number


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
