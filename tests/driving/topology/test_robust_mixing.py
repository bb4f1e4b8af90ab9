"""Mixing with hostile neighbours, against numbers worked by hand, a slow twin and the plain mixing step."""

import numpy as np
import pytest

from fedsuite.driving.topology.mixing import mix
from fedsuite.driving.topology.robust_mixing import (
    MixingLimits,
    clipped,
    trimmed_mean,
    weighted,
)
from tests.schedules import make_schedule

POINTS = np.array([(0, 0), (1, 0), (0, 2), (30, 40)], np.float32)
STAR = np.array([[0.4, 0.2, 0.2, 0.2], *np.eye(4)[1:]])
RING = np.array([[0.5, 0, 0, 0.5], *np.eye(4)[1:]])


def moved(own_change: float):
    """Models before and after a local step in which silo 0 moved by `own_change`."""
    before = POINTS.copy()
    before[0] -= np.array([own_change, 0], np.float32)
    return {"w": before}, {"w": POINTS}


@pytest.mark.parametrize(
    ("a", "tau", "want"),
    [
        (STAR, None, (6.2, 8.4)),
        (STAR, 1.0, (0.32, 0.36)),
        (STAR, 2.0, (0.44, 0.72)),
        (RING, None, (15, 20)),
        (RING, 1.0, (0.3, 0.4)),
    ],
)
def test_clipping_by_hand(a, tau, want):
    before, after = moved(1.0)
    limits = MixingLimits(ratio=tau or 1.0)
    mixed = (weighted if tau is None else clipped)(before, after, a, limits)
    np.testing.assert_allclose(mixed.stacked["w"][0], want, rtol=1e-6)
    np.testing.assert_array_equal(mixed.stacked["w"][1:], POINTS[1:])


def test_who_was_clipped_is_told():
    before, after = moved(1.0)
    mixed = clipped(before, after, STAR, MixingLimits(ratio=2.0))
    np.testing.assert_allclose(mixed.admitted, [1, 1, 1, 2 / 50])
    assert mixed.clipped == pytest.approx(1 / 3)


def stack(num_silos: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    shapes = {"w": (4, 3), "n.running_mean": (5,), "n.running_var": (5,)}
    after = {k: rng.normal(size=(num_silos, *s)).astype(np.float32) for k, s in shapes.items()}
    after["n.running_var"] = np.abs(after["n.running_var"])
    before = {k: v - rng.normal(size=v.shape).astype(np.float32) for k, v in after.items()}
    counts = np.arange(num_silos)
    return {**before, "n.num_batches_tracked": counts}, {
        **after,
        "n.num_batches_tracked": counts + 1,
    }


@pytest.mark.parametrize("kind", ["ring", "star", "complete"])
def test_without_need_clipping_is_the_plain_mixing_to_the_byte(kind):
    before, after = stack(6)
    a = make_schedule(6, kind, 3).matrix(0)
    mixed = clipped(before, after, a, MixingLimits(ratio=1e6))
    plain = mix(after, a)
    assert mixed.clipped == 0 and (mixed.admitted == 1).all()
    assert all(
        mixed.stacked[k].tobytes() == np.ascontiguousarray(plain[k]).tobytes() for k in plain
    )


@pytest.mark.parametrize("kind", ["ring", "complete"])
@pytest.mark.parametrize("seed", range(3))
def test_clipping_against_a_slow_twin(kind, seed):
    """Parameters by the definition, silo by silo; variances stay positive and sums of weights 1."""
    before, after = stack(6, seed)
    a = make_schedule(6, kind, 3).matrix(0)
    mixed = clipped(before, after, a, MixingLimits(ratio=0.8)).stacked
    names = ("w", "n.running_mean", "n.running_var")
    theta = [np.concatenate([after[k][i].astype(float).ravel() for k in names]) for i in range(6)]
    start = [np.concatenate([before[k][i].astype(float).ravel() for k in names]) for i in range(6)]
    for i in range(6):
        tau, new = 0.8 * np.linalg.norm(theta[i] - start[i]), theta[i].copy()
        for j in range(6):
            gap = theta[j] - theta[i]
            if j != i:
                new += a[i, j] * gap * min(1.0, tau / max(1e-300, np.linalg.norm(gap)))
        np.testing.assert_allclose(mixed["w"][i].ravel(), new[:12], rtol=1e-5, atol=1e-6)
    assert (mixed["n.running_var"] > 0).all()
    assert mixed["n.num_batches_tracked"].tolist() == after["n.num_batches_tracked"].tolist()


def test_the_trimmed_mean_by_hand():
    complete = np.full((4, 4), 0.25)
    mixed = trimmed_mean(*moved(1.0), complete, MixingLimits(tolerated=1)).stacked["w"]
    np.testing.assert_allclose(mixed, [(0.5, 1)] * 4)


def test_too_few_neighbours_are_not_listened_to():
    """A silo with one neighbour left cannot tell which of two is right."""
    a = np.array([[0.5, 0.5, 0, 0], *np.full((3, 4), 0.25)])
    mixed = trimmed_mean(*moved(1.0), a, MixingLimits(tolerated=1)).stacked["w"]
    np.testing.assert_allclose(mixed, [(0, 0), *[(0.5, 1)] * 3])
    before, after = moved(1.0)
    two = trimmed_mean(before, after, np.full((4, 4), 0.25), MixingLimits(tolerated=2)).stacked["w"]
    np.testing.assert_allclose(two, after["w"])  # of four, none is left without two on either side


@pytest.mark.parametrize("rule", [clipped, trimmed_mean])
def test_a_hostile_silo_moves_the_others_no_further_than_the_bound(rule):
    before, after = stack(8)
    a = np.full((8, 8), 1 / 8)
    honest = rule(before, after, a, MixingLimits(3.0, 1)).stacked["w"][:7]
    after["w"][7] += 1e5
    attacked = rule(before, after, a, MixingLimits(3.0, 1)).stacked["w"][:7]
    plain = weighted(before, after, a, MixingLimits()).stacked["w"][:7]
    assert np.abs(attacked - honest).max() < 3 and np.abs(plain - honest).max() > 1e4
