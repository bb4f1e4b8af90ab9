"""R2R metrics: walks scored by hand, a plain-loop twin on random graphs, published repeats."""

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import shortest_path

from fedsuite.vln.data.graph import load_graph
from fedsuite.vln.evaluation.metrics import episode_metrics, published_trajectory

METRICS = ("ne", "osr", "sr", "spl", "cls", "ndtw", "sdtw", "tl", "steps")
SHARED = Path(__file__).parents[4] / "shared" / "data" / "r2r"
# A corridor of five viewpoints 2 m apart, and a sixth that cannot be reached.
CORRIDOR_M = np.pad(
    2.0 * np.abs(np.subtract.outer(range(5), range(5))), (0, 1), constant_values=np.inf
)
CORRIDOR_M[5, 5] = 0


def score(walk, truth, distance_m=CORRIDOR_M, **options):
    return {k: v[0] for k, v in episode_metrics(distance_m, [walk], [truth], **options).items()}


def test_the_reference_itself_is_perfect():
    got = score([0, 1, 2, 3], [0, 1, 2, 3])
    best = dict.fromkeys(("osr", "sr", "spl", "cls", "ndtw", "sdtw"), 1.0)
    assert got == best | {"ne": 0.0, "tl": 6.0, "steps": 3.0}


def test_stopping_short():
    """Stops 4 m from the goal: DTW = 0 + 0 + 2 + 4; PC = (1 + 1 + e^(-2/3) + e^(-4/3)) / 4."""
    got = score([0, 1], [0, 1, 2, 3])
    coverage = (2 + math.exp(-2 / 3) + math.exp(-4 / 3)) / 4
    length_score = 6 * coverage / (6 * coverage + (6 * coverage - 2))
    want = {"ne": 4, "osr": 0, "sr": 0, "spl": 0, "tl": 2, "steps": 1, "sdtw": 0}
    want |= {"ndtw": math.exp(-6 / 12), "cls": coverage * length_score}
    assert got == pytest.approx(want)


def test_going_too_far():
    """Passes the goal by 4 m: DTW = 0 + 0 + 0 + 2 + 4; covers all, 8 m instead of 4 m."""
    got = score([0, 1, 2, 3, 4], [0, 1, 2])
    want = {"ne": 4, "osr": 1, "sr": 0, "spl": 0, "tl": 8, "steps": 4, "sdtw": 0}
    assert got == pytest.approx(want | {"ndtw": math.exp(-6 / 9), "cls": 4 / (4 + 4)})


def test_a_detour_costs_spl():
    """There and back again, then 2 m short of the goal: 6 m walked, 4 m needed."""
    got = score([0, 1, 0, 1], [0, 1, 2])
    assert (got["sr"], got["ne"], got["tl"]) == (1, 2, 6)
    assert got["spl"] == pytest.approx(4 / 6)
    assert got["ndtw"] == got["sdtw"] == pytest.approx(math.exp(-(2 + 2) / 9))


def test_the_radius_itself_is_failure():
    assert score([0], [0, 1], success_radius_m=2.0)["sr"] == 0
    assert score([0], [0, 1], success_radius_m=2.0)["osr"] == 0
    assert score([0], [0, 1], success_radius_m=2.001)["sr"] == 1


def test_a_walk_of_one_viewpoint():
    """No length: LS = EL / 2 EL."""
    got = score([0], [0, 1, 2])
    coverage = (1 + math.exp(-2 / 3) + math.exp(-4 / 3)) / 3
    assert got["cls"] == pytest.approx(coverage / 2)
    assert (got["tl"], got["steps"], got["spl"]) == (0, 0, 0)
    assert got["ndtw"] == pytest.approx(math.exp(-6 / 9))


def test_a_reference_of_one_viewpoint():
    stayed, walked = score([2], [2]), score([2, 3], [2])
    assert (stayed["cls"], stayed["ndtw"], stayed["sr"], stayed["spl"]) == (1, 1, 1, 0)
    assert (walked["cls"], walked["ndtw"]) == (0, pytest.approx(math.exp(-2 / 3)))


def test_a_leap_to_where_no_path_leads():
    got = score([0, 5], [0, 1])
    assert (got["ne"], got["tl"], got["ndtw"], got["cls"]) == (math.inf, math.inf, 0, 0)
    assert (got["osr"], got["sr"], got["spl"], got["sdtw"]) == (1, 0, 0, 0)
    assert score([0, 5, 1], [0, 1])["spl"] == 0


def test_graph_distance_between_viewpoints_that_are_not_adjacent():
    assert score([0, 4], [0, 1])["tl"] == 8


@pytest.mark.parametrize(
    ("walks", "truths", "message"),
    [
        ([[]], [[0]], r"predicted\[0\] is empty"),
        ([[0]], [[]], r"reference\[0\] is empty"),
        ([[0], [1]], [[0], [2]], "episode 1: the predicted path starts at viewpoint 1, .* at 2"),
        ([[0]], [[0], [0]], "1 predicted paths but 2 references"),
        ([[0, 6]], [[0]], r"indices 0\.\.5, got int64 0 to 6"),
        ([[0, -1]], [[0]], r"got int64 -1 to 0"),
        ([[0, 1.0]], [[0]], "got float64"),
        ([[0]], [[0, 5]], "episode 0: the reference has viewpoints without a path"),
    ],
)
def test_refused_paths(walks, truths, message):
    with pytest.raises(ValueError, match=message):
        episode_metrics(CORRIDOR_M, walks, truths)


def test_no_episodes():
    assert {k: v.shape for k, v in episode_metrics(CORRIDOR_M, [], []).items()} == dict.fromkeys(
        METRICS, (0,)
    )


def twin(d, walk, truth, radius):
    """The definitions, word for word, in loops."""
    ne, tl = d[walk[-1]][truth[-1]], sum(d[a][b] for a, b in pairwise(walk))
    table = [[math.inf] * (len(truth) + 1) for _ in range(len(walk) + 1)]
    table[0][0] = 0.0
    for i, p in enumerate(walk, 1):
        for j, r in enumerate(truth, 1):
            before = min(table[i - 1][j], table[i][j - 1], table[i - 1][j - 1])
            table[i][j] = d[p][r] + before
    ndtw = math.exp(-table[-1][-1] / (radius * len(truth)))
    pc = sum(math.exp(-min(d[p][r] for p in walk) / radius) for r in truth) / len(truth)
    expected = pc * sum(d[a][b] for a, b in pairwise(truth))
    apart = expected + abs(expected - tl)
    success = float(ne < radius)
    shortest = d[truth[0]][truth[-1]]
    return {
        "ne": ne,
        "osr": float(min(d[p][truth[-1]] for p in walk) < radius),
        "sr": success,
        "spl": shortest / max(shortest, tl, 0.01) if success else 0.0,
        "cls": pc * (expected / apart if apart else 1.0),
        "ndtw": ndtw,
        "sdtw": ndtw * success,
        "tl": tl,
        "steps": len(walk) - 1.0,
    }


def random_walk(rng, edges, start, moves):
    walk = [start]
    for _ in range(moves):
        walk.append(int(rng.choice(edges[walk[-1]])))
    return walk


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 12), radius=st.floats(0.5, 6))
def test_equals_plain_loops_on_random_graphs(seed, size, radius):
    rng = np.random.default_rng(seed)
    position_m = rng.uniform(0, 8, (size, 3))
    joined = np.triu(rng.random((size, size)) < 0.4, 1)
    joined |= np.eye(size, k=1, dtype=bool)  # connected
    joined |= joined.T
    length = np.linalg.norm(position_m[:, None] - position_m, axis=-1)
    distance_m = shortest_path(np.where(joined, length, np.inf))
    # staying counts as a step
    edges = [[*np.flatnonzero(row), i] for i, row in enumerate(joined)]
    starts = rng.integers(size, size=7).tolist()
    walks = [random_walk(rng, edges, s, rng.integers(0, 15)) for s in starts]
    truths = [random_walk(rng, edges, s, rng.integers(0, 8)) for s in starts]
    got = episode_metrics(distance_m, walks, truths, radius)
    assert tuple(got) == METRICS
    for b, (walk, truth) in enumerate(zip(walks, truths, strict=True)):
        want = twin(distance_m, walk, truth, radius)
        assert {k: v[b] for k, v in got.items()} == pytest.approx(want, rel=1e-12, abs=1e-12)


def test_published_trajectory_by_hand():
    """View 12 -> 15: three turns right. 15 -> 2: one tilt down and 11 turns. 2 -> 2: none."""
    walk = published_trajectory([7, 8, 9, 4], [12, 15, 2, 2])
    assert walk == [7] + [7] * 3 + [8] + [8] * 12 + [9] + [4]
    assert published_trajectory([3], [35]) == [3]
    assert published_trajectory([1, 2], [0, 24]) == [1, 1, 1, 2]  # two tilts
    with pytest.raises(ValueError, match="2 viewpoints and 1 views"):
        published_trajectory([1, 2], [0])


def test_repeats_change_only_the_warping_metrics():
    """A detour to viewpoint 3 costs 2 m in the alignment, and 2 m more each time it is repeated."""
    clean, noisy = score([0, 1, 2, 3, 2], [0, 1, 2]), score([0, 1, 2, 3, 3, 3, 2], [0, 1, 2])
    same = {"ne", "osr", "sr", "spl", "cls", "tl"}
    assert {k: noisy[k] for k in same} == {k: clean[k] for k in same}
    assert noisy["steps"] == clean["steps"] + 2
    assert clean["ndtw"] == clean["sdtw"] == pytest.approx(math.exp(-2 / 9))
    assert noisy["ndtw"] == noisy["sdtw"] == pytest.approx(math.exp(-6 / 9))


def shortest_path_agent(split):
    """Per instruction: distances, the shortest walk, the same with repeats, the reference."""
    graphs = {}
    for item in json.loads((SHARED / "annotations" / f"R2R_{split}.json").read_text()):
        if item["scan"] not in graphs:
            graphs[item["scan"]] = load_graph(SHARED / "connectivity", item["scan"])
        graph = graphs[item["scan"]]
        truth = [graph.index[v] for v in item["path"]]
        walk = graph.shortest_path(truth[0], truth[-1])
        table = graph.candidates
        views = [12 + round(item["heading"] / math.radians(30)) % 12]
        for here, there in pairwise(walk):
            slot = table.viewpoint[here].tolist().index(there)
            views.append(int(table.view[here, slot]))
        published = published_trajectory(walk, views)
        yield from [(graph.distance_m, walk, published, truth)] * len(item["instructions"])


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"needs the R2R data in {SHARED}")
@pytest.mark.parametrize(
    ("split", "mean_entries"),
    [("val_seen", 25.2135), ("val_unseen", 24.6782)],
)
def test_shortest_path_agent_on_r2r(split, mean_entries):
    """Known means (25.211 on copies of val_seen whose path 4554 lacks its first viewpoint)."""
    episodes = list(shortest_path_agent(split))
    assert np.mean([len(p) - 1 for _, _, p, _ in episodes]) == pytest.approx(mean_entries, abs=5e-5)
    for distance_m, walk, published, truth in episodes[::20]:
        for trajectory in (walk, published):
            got = score(trajectory, truth, distance_m)
            assert (got["sr"], got["osr"], got["spl"]) == (1, 1, pytest.approx(1))
            if split == "val_seen":
                assert (got["ndtw"], got["cls"]) == (pytest.approx(1), pytest.approx(1))
