"""Words from moved rows: golden values by hand, and a twin that counts in sets."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from fedsuite.privacy.attacks.words import row_lengths, score_words, spearman, told_words


def test_rows_that_moved_are_words_that_were_read() -> None:
    before = np.zeros((5, 2), np.float32)
    after = before.copy()
    after[1], after[3] = (3, 4), (0, 1e-6)
    moved = row_lengths(before, after)
    assert moved == pytest.approx([0, 5, 0, 1e-6, 0])
    assert told_words(moved).tolist() == [False, True, False, True, False]
    with pytest.raises(ValueError, match="equal shape"):
        row_lengths(before, after[:4])


def test_where_noise_moves_every_row_the_longer_group_counts() -> None:
    moved = np.array([1.0, 1.2, 0.9, 5.0, 5.5, 1.1])
    assert told_words(moved).tolist() == [False, False, False, True, True, False]


def test_scores_by_hand() -> None:
    moved = np.array([0.0, 2, 3, 1, 0, 0, 4, 0])
    uses = np.array([0, 1, 5, 0, 2, 0, 9, 0])
    found = score_words(moved, uses, np.random.default_rng(0))
    assert (found.told, found.used, found.right, found.n) == (4, 4, 3, 8)
    assert (found.precision, found.recall, found.f_score) == (0.75, 0.75, 0.75)
    assert found.chance == {"precision": 0.5, "recall": 0.5, "F-score": 0.5, "Spearman": 0.0}
    # Moves 2 3 0 4 of uses 1 5 2 9: ranks 2 3 1 4 and 1 3 2 4.
    assert found.rank == pytest.approx(0.8)
    assert found.intervals["precision"] == pytest.approx((0.194, 0.994), abs=1e-3)
    low, high = found.intervals["F-score"]
    assert 0 <= low < 0.75 < high <= 1


@pytest.mark.parametrize("seed", range(4))
def test_the_same_as_sets_and_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    uses = rng.poisson(0.7, 200)
    moved = np.where(rng.random(200) < 0.8, uses > 0, uses == 0) * rng.integers(1, 9, 200)
    found = score_words(moved.astype(float), uses, rng)
    told, used = set(np.flatnonzero(moved).tolist()), set(np.flatnonzero(uses).tolist())
    assert found.precision == len(told & used) / len(told)
    assert found.recall == len(told & used) / len(used)
    own = uses > 0
    assert found.rank == pytest.approx(spearmanr(moved[own], uses[own]).statistic)


def test_nothing_told_is_nothing_right() -> None:
    found = score_words(np.zeros(4), np.array([1, 0, 2, 0]), np.random.default_rng(0))
    assert (found.precision, found.recall, found.f_score) == (0, 0, 0)
    assert np.isnan(found.rank) and np.isnan(spearman(np.ones((1, 2))))
