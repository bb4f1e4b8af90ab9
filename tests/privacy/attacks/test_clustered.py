"""Means, AUCs and correlations, with intervals that count clusters: against plain counting, and how often they hold."""

import math

import numpy as np
import pytest
from scipy import stats

from fedsuite.privacy.attacks.clustered import correlation, mean_auc, mean_of
from fedsuite.privacy.attacks.membership import auc


def test_interval_of_a_mean_is_that_of_student() -> None:
    # n = 5, mean 3, s = sqrt(2.5): 3 ± 2.776445 * 0.7071068
    found = mean_of(np.arange(1.0, 6.0), np.arange(5))
    assert (found.value, found.low, found.high) == pytest.approx((3, 1.036757, 4.963243), abs=1e-6)
    assert math.isnan(mean_of(np.array([2.0, 3.0]), np.zeros(2)).low)


def test_area_is_the_share_of_pairs_in_order() -> None:
    rng = np.random.default_rng(1)
    scores, positive = rng.integers(0, 6, (60, 3)).astype(float), rng.random((60, 3)) < 0.4
    by_hand = [
        np.mean([1.0 if a > b else 0.5 if a == b else 0.0 for a in s[p] for b in s[~p]])
        for s, p in zip(scores.T, positive.T, strict=True)
    ]
    assert mean_auc(scores, positive, np.arange(60)).value == pytest.approx(np.mean(by_hand))
    one = auc(scores[:, 0][positive[:, 0]], scores[:, 0][~positive[:, 0]])
    assert by_hand[0] == pytest.approx(one)


def test_questions_with_one_answer_are_left_out() -> None:
    scores = np.array([[0.0, 1], [1, 0], [2, 0]])
    labels = np.array([[0, 1], [1, 1], [1, 1]])
    assert mean_auc(scores, labels, np.arange(3)).value == 1
    assert math.isnan(mean_auc(scores[:, 1:], labels[:, 1:], np.arange(3)).value)


def test_copies_make_no_interval_narrower() -> None:
    rng = np.random.default_rng(2)
    values, labels, clusters = rng.random(30), rng.random(30) < 0.5, np.arange(30)
    often = [np.repeat(x, 9) for x in (values, labels, clusters)]
    for one, many in (
        (mean_of(values, clusters), mean_of(often[0], often[2])),
        (
            mean_auc(values[:, None], labels[:, None], clusters),
            mean_auc(often[0][:, None], often[1][:, None], often[2]),
        ),
        (correlation(values, labels, clusters), correlation(often[0], often[1], often[2])),
    ):
        assert (many.value, many.low, many.high) == pytest.approx((one.value, one.low, one.high))
    blind = mean_of(often[0], np.arange(270))
    assert blind.high - blind.low < 0.4 * (
        mean_of(values, clusters).high - mean_of(values, clusters).low
    )


def test_correlation_is_pearson_s() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=50)
    y = x + rng.normal(size=50)
    assert correlation(x, y, np.arange(50)).value == pytest.approx(stats.pearsonr(x, y).statistic)
    assert math.isnan(correlation(x, np.ones(50), np.arange(50)).value)
    assert math.isnan(correlation(np.ones(50), x, np.arange(50)).value)
    moved = correlation(2 * x + 10, 3 * y - 7, np.arange(50))  # neither origin nor unit matters
    own = correlation(x, y, np.arange(50))
    assert (moved.value, moved.low, moved.high) == pytest.approx((own.value, own.low, own.high))


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """40 clusters of five; the AUC of N(1, 2) over N(0, 2), with half of the variance from the cluster, is Phi(1/2)."""
    rng, clusters = np.random.default_rng(3), np.repeat(np.arange(40), 5)
    truth, held = float(stats.norm.cdf(0.5)), np.zeros(3)
    for _ in range(400):
        noise = np.repeat(rng.normal(0, 1, 40), 5) + rng.normal(0, 1, 200)
        apart = np.repeat(rng.random(40) < 0.5, 5)  # whole clusters of one label
        other = rng.normal(0, 1, 200) + np.repeat(rng.normal(0, 1, 40), 5)
        for i, (found, right) in enumerate(
            (
                (mean_of(noise, clusters), 0.0),
                (mean_auc((noise + apart)[:, None], apart[:, None], clusters), truth),
                (correlation(noise, noise + other, clusters), math.sqrt(0.5)),
            )
        ):
            held[i] += found.low < right < found.high
    assert ((held / 400 > 0.91) & (held / 400 < 0.985)).all(), held / 400
