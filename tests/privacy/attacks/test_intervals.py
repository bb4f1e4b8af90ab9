"""Intervals, and the split of numbers into two groups."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from fedsuite.privacy.attacks.intervals import bootstrap, clopper_pearson, threshold


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (10, 10), (3, 17), (499, 500), (1, 1)])
def test_exact_interval_is_scipys_and_has_the_tails_it_says(hits: int, n: int) -> None:
    low, high = clopper_pearson(hits, n)
    twin = binomtest(hits, n).proportion_ci(0.95, "exact")
    assert (low, high) == pytest.approx((twin.low, twin.high), abs=1e-9)
    assert hits == 0 or binom.sf(hits - 1, n, low) == pytest.approx(0.025)
    assert hits == n or binom.cdf(hits, n, high) == pytest.approx(0.025)


def test_nothing_seen_says_nothing() -> None:
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match="hits"):
        clopper_pearson(3, 2)


def test_bootstrap_of_a_mean_is_that_of_the_normal_law() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(3, 2, 400)
    low, high = bootstrap(lambda x: float(x.mean()), [values], rng)
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.04)


def test_draws_without_a_value_are_left_out() -> None:
    rng = np.random.default_rng(0)
    assert np.isnan(bootstrap(lambda x: float("nan"), [np.ones(3)], rng)).all()
    odd = lambda x: float("nan") if x[0] else 1.0  # noqa: E731
    assert bootstrap(odd, [np.array([0, 1])], rng) == (1.0, 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_split_is_the_best_of_all_splits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.r_[rng.normal(0, 1, 20), rng.normal(4, 1, 9)]
    cuts = (np.sort(values)[1:] + np.sort(values)[:-1]) / 2
    inner = [
        sum(((g - g.mean()) ** 2).sum() for g in (values[values <= c], values[values > c]))
        for c in cuts
    ]
    assert threshold(values) == pytest.approx(cuts[int(np.argmin(inner))])


def test_equal_values_have_no_upper_group() -> None:
    assert not (np.full(4, 2.5) > threshold(np.full(4, 2.5))).any()
    with pytest.raises(ValueError, match="at least one"):
        threshold(np.array([]))
