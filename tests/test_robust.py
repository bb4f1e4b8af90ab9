"""Rules for hostile replies against values worked by hand, slow twins, Flower's own where these are right, and algebra."""

import itertools

import numpy as np
import pytest
from flwr.server.strategy.aggregate import (
    aggregate_krum,
    aggregate_median,
    aggregate_trimmed_avg,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuite.averaging.distances import lengths
from fedsuite.averaging.krum import bulyan_picks, krum_scores
from fedsuite.averaging.merging import Merged, MergeRule, capped, mean, shares
from fedsuite.averaging.pairs import squared_distances
from fedsuite.averaging.robust import MERGE_RULES, Merge, geometric_median_weights
from fedsuite.errors import RunFailed

POINTS = [(1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (2, 2), (10, -10)]
COUNTS = [10, 20, 30, 10, 20, 10, 900]
EQUAL = np.full(7, 1 / 7)
CAPPED = capped(shares(COUNTS), 0.25)
SERVER = {"a": np.zeros(1), "b": np.zeros((1, 1))}


def clients_at(points):
    """One number of each point in each of two arrays."""
    return [{"a": np.array([float(x)]), "b": np.array([[float(y)]])} for x, y in points]


def merged(merge: Merge, weights=EQUAL, points=POINTS) -> tuple[list[float], list[float]]:
    found = merge(SERVER, clients_at(points), np.asarray(weights))
    return [float(found.delta[k].item()) for k in ("a", "b")], found.admitted.tolist()


def rule(name: str, tolerated: int = 0, **values) -> Merge:
    return Merge(MERGE_RULES[name], tolerated, name=name, **values)


# --- golden values -------------------------------------------------------------------------------

GOLDEN = {
    "mean": (rule("mean"), shares(COUNTS), (9.1, -8.88)),
    "capped": (rule("mean"), CAPPED, (3.25, -1.6)),
    "clipped": (rule("mean", bound=1.0), EQUAL, (1.1660396657, 0.7142857143)),
    "capped and clipped": (rule("mean", bound=1.0), CAPPED, (1.1138701198, 0.4733007047)),
    "rejected": (rule("mean", bound=3.0, clips=False), EQUAL, (7 / 6, 7 / 6)),
    "median": (rule("median", 1), EQUAL, (1, 1)),
    "trimmed by 1": (rule("trimmed-mean", 1), EQUAL, (1.4, 1)),
    "trimmed by 2": (rule("trimmed-mean", 2), EQUAL, (4 / 3, 1)),
    "krum": (rule("krum", 1), EQUAL, (1, 1)),
    "multi-krum": (rule("multi-krum", 1), EQUAL, (7 / 6, 7 / 6)),
    "bulyan": (rule("bulyan", 1), EQUAL, (1, 1)),
}
# The others need a trusted client, or prompts: test_trust_and_prompts.py.
RULES = sorted(MERGE_RULES.keys() - {"fltrust", "pba"})


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_values(case):
    merge, weights, want = GOLDEN[case]
    np.testing.assert_allclose(merged(merge, weights)[0], want, rtol=0, atol=2e-10)


def test_the_bound_names_who_was_rejected_or_shortened():
    assert merged(rule("mean", bound=3.0, clips=False))[1] == [1, 1, 1, 1, 1, 1, 0]
    shortened = merged(rule("mean", bound=1.0))[1]
    assert shortened[:5] == [1] * 5
    np.testing.assert_allclose(shortened[5:], [np.sqrt(5 / 8), np.sqrt(5 / 200)])


IDLE = [(0, 0)] * 4 + [(3, 4), (1, 0), (1e6, -1e6)]  # the median length is 0


@pytest.mark.parametrize("name", RULES)
def test_among_idle_clients_nobody_sets_the_bound(name):
    """Who moved is shortened to nothing and named, the model stays, and nobody has gone for the rule to miss."""
    delta, admitted = merged(rule(name, 1, bound=3.0), points=IDLE)
    assert delta == [0, 0]
    assert admitted[4:] == [0, 0, 0]


def test_among_idle_clients_who_moved_is_left_out():
    assert merged(rule("mean", bound=3.0, clips=False), points=IDLE) == ([0, 0], [1] * 4 + [0] * 3)
    with pytest.raises(RunFailed, match="krum: 4 changes to merge"):
        merged(rule("krum", 1, bound=3.0, clips=False), points=IDLE)


def test_half_of_the_clients_may_be_idle():
    """The median of an even number is the mean of the middle two."""
    delta, admitted = merged(rule("mean", bound=1.0), [0.25] * 4, [(0, 0), (0, 0), (3, 4), (6, 8)])
    assert admitted == [1, 1, 0.5, 0.25]
    np.testing.assert_allclose(delta, [0.25 * 3, 0.25 * 4])


def test_krum_by_hand():
    squared = squared_distances(clients_at(POINTS))
    assert krum_scores(squared, 4).tolist() == [9, 9, 4, 6, 6, 9, 776]
    assert merged(rule("krum", 1))[1] == [0, 0, 1, 0, 0, 0, 0]
    assert merged(rule("multi-krum", 1))[1] == [1] * 6 + [0]
    assert merged(rule("bulyan", 1))[1] == [1, 1, 1, 1, 1, 0, 0]
    assert bulyan_picks(squared, 1) == [2, 3, 4, 0, 1]


@pytest.mark.parametrize("count", [7, 11])
def test_bulyan_does_not_depend_on_who_has_which_number(count):
    """The last picked are two that are each other's nearest: equal scores in every draw."""
    rng = np.random.default_rng(count)
    for _ in range(100):
        points = rng.normal(size=(count, 6))
        squared = squared_distances([{"w": x} for x in points])
        order = rng.permutation(count)
        again = bulyan_picks(squared[np.ix_(order, order)], (count - 3) // 4)
        assert order[again].tolist() == bulyan_picks(squared, (count - 3) // 4)


def test_the_geometric_median_by_hand():
    squared = squared_distances(clients_at(POINTS))

    def point(weights, **steps):
        return np.array(POINTS).T @ geometric_median_weights(squared, weights, **steps)

    np.testing.assert_allclose(point(EQUAL, steps=8), (1.1741413457, 0.9995214242), atol=2e-10)
    np.testing.assert_allclose(point(EQUAL), (1.140583, 0.997861), atol=1e-6)
    np.testing.assert_allclose(point(shares(COUNTS)), (10, -10), atol=1e-6)  # it owns most weight


# --- slow twins ----------------------------------------------------------------------------------

rounds = st.tuples(st.integers(7, 11), st.integers(0, 10_000))


def many(number: int, seed: int):
    """Server and clients of float32 arrays of several shapes, one without dimensions; weights."""
    rng = np.random.default_rng(seed)
    shapes = {"w": (5, 3), "v": (20_000,), "s": ()}
    server = {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}
    clients = [
        {k: np.asarray(v + rng.normal(size=v.shape), np.float32) for k, v in server.items()}
        for _ in range(number)
    ]
    return server, clients, shares(rng.integers(1, 300, number))


def flat(server, arrays):
    """The change as one vector, in float64."""
    return np.concatenate([(arrays[k].astype(float) - server[k]).ravel() for k in sorted(server)])


@settings(max_examples=10, deadline=None)
@given(rounds)
def test_distances_and_lengths_one_by_one(given_round):
    server, clients, _ = many(*given_round)
    d = [flat(server, c) for c in clients]
    np.testing.assert_allclose(lengths(server, clients), [np.linalg.norm(x) for x in d])
    squared = squared_distances(clients)
    for i, j in itertools.product(range(len(d)), repeat=2):
        assert squared[i, j] == pytest.approx(((d[i] - d[j]) ** 2).sum(), rel=1e-9)


def test_small_distances_between_large_models_are_not_lost():
    """|x|^2 + |y|^2 - 2 x y in float32 is off by a hundred times the distance here."""
    rng = np.random.default_rng(0)
    a = rng.normal(scale=0.1, size=1_000_000).astype(np.float32)
    b = a + np.float32(2e-7) * rng.choice([-1, 1], a.size).astype(np.float32)
    want = ((a.astype(float) - b) ** 2).sum()
    assert squared_distances([{"w": a}, {"w": b}])[0, 1] == pytest.approx(want, rel=1e-9)


def twin_krum(d, f, count):
    n, scores = len(d), []
    for i in range(n):
        others = sorted(((d[i] - d[j]) ** 2).sum() for j in range(n) if j != i)
        scores.append(sum(others[: n - f - 2]))
    return sorted(range(n), key=lambda i: (scores[i], i))[:count]


def twin_trimmed(d, f):
    columns = (sorted(column)[f : len(column) - f] for column in np.stack(d).T)
    return np.array([sum(kept) / len(kept) for kept in columns])


def twin_bulyan(d, f):
    left, picked, n = list(range(len(d))), [], len(d)
    while len(picked) < n - 2 * f:
        scores = {}
        for i in left:
            others = sorted(((d[i] - d[j]) ** 2).sum() for j in left if j != i)
            scores[i] = sum(others[: max(1, len(left) - f - 2)])
        near = {i: sum(sorted(((d[i] - d[j]) ** 2).sum() for j in picked)) for i in left}
        best = min(left, key=lambda i: (scores[i], near[i], i))
        picked.append(best)
        left.remove(best)
    out = []
    for column in np.stack([d[k] for k in picked]).T:
        middle = np.median(column)
        near = sorted(column, key=lambda x: (abs(x - middle), x))[: n - 4 * f]
        out.append(sum(near) / len(near))
    return np.array(out)


def twin_geometric(d, p):
    z = sum(w * x for w, x in zip(p, d, strict=True))
    for _ in range(1000):
        c = np.array([w / max(1e-6, np.linalg.norm(x - z)) for w, x in zip(p, d, strict=True)])
        z = sum(w * x for w, x in zip(c / c.sum(), d, strict=True))
    return z


@settings(max_examples=5, deadline=None)
@given(rounds)
def test_every_rule_against_a_slow_twin(given_round):
    server, clients, p = many(*given_round)
    server = {k: server[k] for k in ("w", "s")}
    clients = [{k: c[k] for k in server} for c in clients]
    d = [flat(server, c) for c in clients]
    best = twin_krum(d, 1, len(d) - 1)
    own = np.array([p[k] if k in best else 0.0 for k in range(len(d))])
    wants = {
        "median": np.array([np.median(column) for column in np.stack(d).T]),
        "trimmed-mean": twin_trimmed(d, 1),
        "krum": d[twin_krum(d, 1, 1)[0]],
        "multi-krum": (own / own.sum()) @ np.stack(d),
        "bulyan": twin_bulyan(d, 1),
        "geometric-median": twin_geometric(d, p),
        "mean": p @ np.stack(d),
    }
    assert sorted(wants) == RULES
    for name, want in wants.items():
        delta = rule(name, 1)(server, clients, p).delta
        assert all(isinstance(v, np.ndarray) and v.dtype == np.float64 for v in delta.values())
        got = np.concatenate([delta[k].ravel() for k in sorted(delta)])
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("seed", range(5))
def test_flowers_own_where_they_are_right(seed):
    """Median, trimmed mean, and Krum's choice among points far apart; Flower's Krum rounds in float32."""
    server, clients, p = many(9, seed)
    clients[3] = {k: v * np.float32(10) for k, v in clients[3].items()}
    replies = [([c[k] for k in sorted(server)], 1) for c in clients]
    theirs = {
        "median": aggregate_median(replies),
        "trimmed-mean": aggregate_trimmed_avg(replies, 2.5 / 9),
        "krum": aggregate_krum(replies, 2, 0),
    }
    for name, want in theirs.items():
        delta = rule(name, 2)(server, clients, p).delta
        for key, w in zip(sorted(server), want, strict=True):
            np.testing.assert_allclose(server[key] + delta[key], w, rtol=1e-5, atol=1e-6)


# --- what every rule has in common ---------------------------------------------------------------

ROBUST = [name for name in RULES if name != "mean"]


@pytest.mark.parametrize("name", RULES)
def test_equal_replies_are_returned(name):
    server, clients, p = many(7, 1)
    delta = rule(name)(server, [clients[0]] * 7, p).delta
    for key, value in delta.items():
        np.testing.assert_allclose(value, clients[0][key].astype(float) - server[key], rtol=1e-12)


@pytest.mark.parametrize("name", ROBUST)
@pytest.mark.parametrize("hostile", [1e3, -1e3, 1e6])
def test_one_strange_client_does_not_carry_the_result_away(name, hostile):
    """The result stays among the honest; the plain mean does not."""
    server, clients, _ = many(9, 2)
    p = np.full(9, 1 / 9)
    d = np.stack([flat(server, c) for c in clients])
    honest = d[:8].mean(axis=0)
    clients[8] = {k: v + np.float32(hostile) for k, v in clients[8].items()}
    reach = max(np.linalg.norm(x - honest) for x in d[:8])
    for own, limit in ((rule(name, 1), True), (rule("mean"), False)):
        delta = own(server, clients, p).delta
        gone = np.linalg.norm(np.concatenate([delta[k].ravel() for k in sorted(delta)]) - honest)
        assert (gone <= reach) == limit


@pytest.mark.parametrize("name", RULES)
def test_a_rejected_client_is_as_good_as_absent(name):
    server, clients, p = many(9, 3)
    clients[4] = {k: v * np.float32(100) for k, v in clients[4].items()}
    others = [c for k, c in enumerate(clients) if k != 4]
    rest = np.delete(p, 4)
    with_it = rule(name, 1, bound=5.0, clips=False)(server, clients, p)
    without = rule(name, 1)(server, others, rest / rest.sum())
    assert with_it.admitted[4] == 0
    for key in server:
        assert with_it.delta[key].tobytes() == without.delta[key].tobytes()


def test_ties_go_to_the_lower_partition():
    points = [(0, 0), (1, 0), (0, 0), (1, 0), (0, 1), (1, 1)]
    admitted = merged(rule("krum", 1), np.full(6, 1 / 6), points)[1]
    assert admitted.index(1.0) == 0


def test_whole_numbers_do_not_count_in_distances():
    server = {"w": np.zeros(2, np.float32), "steps": np.zeros((), np.int64)}
    near = {"w": np.ones(2, np.float32), "steps": np.asarray(10**9)}
    assert lengths(server, [near]).tolist() == [np.sqrt(2)]
    assert squared_distances([near, {**near, "steps": np.asarray(0)}])[0, 1] == 0


# --- too few -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tolerated", "least"),
    [("median", 1, 3), ("trimmed-mean", 2, 5), ("krum", 1, 5), ("multi-krum", 2, 7), ("bulyan", 1, 7)],
)  # fmt: skip
def test_too_few_clients_are_said_with_rule_and_numbers(name, tolerated, least):
    merge = rule(name, tolerated)
    merge.check(least)
    with pytest.raises(
        RunFailed, match=rf"{name}: {least - 1} .*tolerated = {tolerated} it needs {least};"
    ):
        merge(SERVER, clients_at(POINTS[: least - 1]), np.full(least - 1, 1 / (least - 1)))


def test_two_lengths_cannot_be_compared():
    with pytest.raises(
        RunFailed, match=r"2 changes to merge, but .* federation\.update-bound it needs 3"
    ):
        merged(rule("mean", bound=2.0), [0.5, 0.5], POINTS[:2])


def test_too_few_are_left_when_the_others_are_rejected():
    points = [(1, 0), (0, 1), (1, 1), (50, 0), (0, 50)]
    said = "krum: 3 changes to merge and 2 rejected, longer than 2 times .* raise federation.update-bound"
    with pytest.raises(RunFailed, match=said):
        merged(rule("krum", 1, bound=2.0, clips=False), np.full(5, 0.2), points)


def test_a_rule_of_ones_own_gets_all_there_is():
    seen = []

    def combine(server, clients, weights, tolerated):
        seen.append((server, clients, weights, tolerated))
        return Merged(mean(server, clients, weights))

    clients = clients_at(POINTS)
    Merge(MergeRule(combine), 2)(SERVER, clients, EQUAL)
    ((server, own, weights, tolerated),) = seen
    assert server is SERVER and own is clients and weights is EQUAL and tolerated == 2
