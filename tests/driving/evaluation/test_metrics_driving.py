"""Steering errors: exact sums that merge, and baselines that know the training labels only."""

import math

import numpy as np
import pytest

from fedsuite.driving.evaluation.metrics import (
    constant_baseline,
    errors_of,
    label_law,
    merged,
    random_baseline,
)


def test_errors_by_hand() -> None:
    errors = errors_of(np.array([0.5, -1.0, 0.0]), np.array([0.0, 0.0, 0.25]))
    assert errors.sums == {"squared-error": 1.3125, "absolute-error": 1.75, "count": 3}
    assert errors.scores["rmse"] == pytest.approx(math.sqrt(1.3125 / 3))
    assert errors.scores["mae"] == pytest.approx(1.75 / 3)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_batches_merge_to_the_whole(size: int) -> None:
    rng = np.random.default_rng(0)
    predictions, angles = rng.normal(size=(2, 100)).astype(np.float32)
    parts = [
        errors_of(predictions[i : i + size], angles[i : i + size]) for i in range(0, 100, size)
    ]
    whole, sums = errors_of(predictions, angles), merged(parts)
    assert (sums.scores["rmse"], sums.scores["mae"], sums.count) == pytest.approx(
        (whole.scores["rmse"], whole.scores["mae"], 100)
    )
    assert (
        whole.scores["rmse"] > whole.scores["mae"]
    )  # which the mean of RMSEs of single images would not be


def test_nothing_is_rounded() -> None:
    errors = errors_of(np.array([0.004]), np.array([0.0]))
    assert (errors.scores["rmse"], errors.scores["mae"]) == pytest.approx((0.004, 0.004))


def test_no_samples() -> None:
    assert all(map(math.isnan, errors_of(np.zeros(0), np.zeros(0)).scores.values()))
    with pytest.raises(ValueError, match="expected at least one"):
        label_law([])


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"expected both \[n\], got \(3, 1\) and \(3,\)"):
        errors_of(np.zeros((3, 1)), np.zeros(3))


def test_law_of_the_silos_is_that_of_their_union() -> None:
    rng = np.random.default_rng(1)
    silos = [rng.normal(m, 0.2, n).astype(np.float32) for m, n in ((0.3, 50), (-0.4, 200), (0, 1))]
    union = np.concatenate(silos).astype(np.float64)
    law = label_law(silos)
    assert (law.mean, law.std) == pytest.approx((union.mean(), union.std()))


def test_constant_baseline_uses_training_labels() -> None:
    law = label_law([np.array([0.1, 0.3])])
    errors = constant_baseline(law, np.array([0.0, 0.4]))
    assert (errors.scores["rmse"], errors.scores["mae"], errors.count) == pytest.approx(
        (0.2, 0.2, 2)
    )


def test_random_baseline() -> None:
    law = label_law([np.array([-0.5, 0.5])])
    angles = np.random.default_rng(2).normal(0.2, 0.3, 50_000)
    errors = random_baseline(law, angles, seed=0)
    spread = math.hypot(0.5, 0.3)  # of the gap, around a mean gap of -0.2
    assert errors.scores["rmse"] == pytest.approx(math.hypot(spread, 0.2), rel=0.02)
    assert errors == random_baseline(law, angles, seed=0)
    assert errors != random_baseline(law, angles, seed=1)
    assert errors != random_baseline(law, angles, seed=0, silo=1)
