"""Weighted averaging against hand-made numbers and algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuite.aggregation import parallel_step, sequential_step, shares, weighted_means

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


def test_three_clients_by_hand():
    """p = (1/4, 1/4, 1/2), rate 2, clients move by 1, 2, 3 from 0: 2 (0.25 + 0.5 + 1.5) = 4.5."""
    server = {"w": np.zeros(2, np.float32)}
    clients = [{"w": np.full(2, v, np.float32)} for v in (1, 2, 3)]
    assert parallel_step(server, clients, shares([1, 1, 2]), 2.0)["w"].tolist() == [4.5, 4.5]
    assert server["w"].tolist() == [0, 0]


@settings(max_examples=30)
@given(counts, st.integers(0, 1000))
def test_rate_one_is_the_weighted_mean(n, seed):
    rng = np.random.default_rng(seed)
    server, clients = arrays(rng), [arrays(rng) for _ in n]
    merged = parallel_step(server, clients, shares(n))
    for name in server:
        want = np.average([c[name].astype(float) for c in clients], axis=0, weights=n)
        assert merged[name].dtype == np.float32 and merged[name].shape == server[name].shape
        np.testing.assert_allclose(merged[name], want, rtol=1e-6, atol=1e-6)


@settings(max_examples=30)
@given(counts, st.floats(0.1, 4), st.integers(0, 1000))
def test_clients_that_do_not_move_leave_the_server_as_it_was(n, rate, seed):
    server = arrays(np.random.default_rng(seed))
    merged = parallel_step(server, [server] * len(n), shares(n), rate)
    assert all(np.array_equal(merged[k], server[k]) for k in server)


def test_names_that_clients_do_not_send_keep_the_servers_value():
    server = {"shared": np.ones(2, np.float32), "own": np.full(2, 7, np.float32)}
    merged = parallel_step(server, [{"shared": np.zeros(2, np.float32)}], [1.0])
    assert merged["shared"].tolist() == [0, 0] and merged["own"].tolist() == [7, 7]
    merged["own"][0] = 0
    assert server["own"].tolist() == [7, 7]


def test_sums_are_taken_in_double_precision():
    """In float32 the large pair would swallow the small delta."""
    big, small = 2.0**24, 1.0
    clients = [{"w": np.array([v], np.float32)} for v in (big, small, -big)]
    assert parallel_step({"w": np.zeros(1, np.float32)}, clients, [1.0, 1.0, 1.0])["w"][0] == 1.0


def test_sequential_is_one_client_of_parallel():
    rng = np.random.default_rng(0)
    server, client = arrays(rng), arrays(rng)
    one = sequential_step(server, client, 0.25, 6.0)
    for name in server:
        want = server[name] + 1.5 * (client[name].astype(float) - server[name])
        np.testing.assert_allclose(one[name], want, rtol=1e-6)


def test_missing_array_or_weight_is_an_error():
    server = {"w": np.zeros(1, np.float32)}
    with pytest.raises(KeyError):
        parallel_step(server, [{"w": server["w"]}, {}], [0.5, 0.5])
    with pytest.raises(ValueError):
        parallel_step(server, [{"w": server["w"]}], [0.5, 0.5])


def test_weighted_means_use_the_clients_that_report():
    metrics = [{"loss": 1.0, "rare": 5.0}, {"loss": 4.0}, {"loss": 9.0, "none": 1.0}]
    assert weighted_means(metrics, [2, 1, 0]) == {"loss": 2.0, "rare": 5.0}
    assert weighted_means([], []) == {}
