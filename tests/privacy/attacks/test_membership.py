"""Membership: twins that count every pair and fit every normal law, and a case where LiRA sees what a threshold does not."""

import numpy as np
import pytest
from scipy.stats import norm

from fedsuite.privacy.attacks.membership import (
    auc,
    halves,
    likelihood_ratios,
    means_by,
    separation,
    shadow_scores,
    true_positives,
)


@pytest.mark.parametrize("seed", range(3))
def test_auc_counts_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    members, others = rng.integers(0, 6, 31), rng.integers(0, 5, 17)
    pairs = [(a > b) + 0.5 * (a == b) for a in members for b in others]
    assert auc(members, others) == pytest.approx(np.mean(pairs))


def test_true_positives_at_a_rate_of_false_ones() -> None:
    others = np.arange(200.0)  # at 1 % two may be above the threshold, which is 197
    members = np.array([197.0, 197.5, 300, 10])
    assert true_positives(members, others) == 0.5
    assert true_positives(members, others[:50]) == 0.75  # none may be above 49
    assert true_positives(members, others, 1.0) == 1.0


def test_every_record_is_in_half_of_the_shadows() -> None:
    inside = halves(101, 6, np.random.default_rng(0))
    assert inside.shape == (6, 101) and (inside.sum(axis=0) == 3).all()
    assert 30 < inside[0].sum() < 71 and len({tuple(column) for column in inside.T}) == 20
    for wrong in (3, 0):
        with pytest.raises(ValueError, match="even number"):
            halves(10, wrong, np.random.default_rng(0))


def test_likelihood_ratio_is_that_of_two_normal_laws() -> None:
    rng = np.random.default_rng(1)
    inside = halves(12, 8, rng)
    shadows, target = rng.normal(size=(8, 12)) + inside, rng.normal(size=12)
    pools: dict[bool, list[float]] = {True: [], False: []}
    means: dict[tuple[int, bool], float] = {}
    for record in range(12):
        for kind in (True, False):
            own = [shadows[k, record] for k in range(8) if inside[k, record] == kind]
            means[record, kind] = float(np.mean(own))
            pools[kind] += [x - np.mean(own) for x in own]
    scale = {k: np.sqrt(np.sum(np.square(v)) / (12 * 3)) for k, v in pools.items()}
    twin = [
        norm.logpdf(target[r], means[r, True], scale[True])
        - norm.logpdf(target[r], means[r, False], scale[False])
        for r in range(12)
    ]
    assert likelihood_ratios(target, shadows, inside) == pytest.approx(twin)
    with pytest.raises(ValueError, match="inside some"):
        likelihood_ratios(target, shadows, np.ones_like(inside))


def test_lira_sees_what_a_threshold_does_not() -> None:
    """Scores that differ much between records and little by membership: a memorising mean."""
    rng = np.random.default_rng(2)
    hard = rng.normal(0, 5, 300)

    def train(records: np.ndarray, number: int) -> np.ndarray:
        seen = np.isin(np.arange(300), records)
        return hard + seen + np.random.default_rng(number).normal(0, 0.3, 300)

    inside = halves(300, 8, rng)
    member = np.arange(300) < 150
    target = train(np.flatnonzero(member), 99)
    ratios = likelihood_ratios(target, shadow_scores(train, inside), inside)
    plain, lira = (separation(s, member, rng) for s in (target, ratios))
    assert plain.auc < 0.65 and lira.auc > 0.95 and lira.tpr > 0.5 > plain.tpr
    assert lira.auc_interval[0] <= lira.auc <= lira.auc_interval[1]
    assert (lira.members, lira.others) == (150, 150)


def test_scores_that_know_nothing_are_at_chance() -> None:
    rng = np.random.default_rng(3)
    member = np.arange(4000) < 2000
    found = separation(rng.normal(size=4000), member, rng)
    assert found.auc_interval[0] < 0.5 < found.auc_interval[1] and found.tpr < 0.03
    with pytest.raises(ValueError, match="one of the two"):
        separation(np.ones(3), np.ones(3, bool), rng)


def test_means_of_houses() -> None:
    assert means_by(["b", "a", "b"], np.array([1.0, 5, 2])) == {"b": 1.5, "a": 5}
