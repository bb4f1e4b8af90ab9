"""The probe reads what is there, nothing where nothing is, and less where noise is."""

import numpy as np
import pytest

from fedsuite.privacy.attacks.probe import Seen, read_cells, reading, split_by_group

CELLS = 6


def seen_of(count: int, noise: float, seed: int, *, blind: bool = False) -> Seen:
    """Cells of 0 and 1, seen through a fixed matrix [6, 9] and a tanh, with noise; blind: nothing of them."""
    rng = np.random.default_rng(seed)
    cells = (rng.random((count, CELLS)) < [0.5, 0.5, 0.3, 0.7, 0.5, 0.5]).astype(np.float32)
    through = np.random.default_rng(0).normal(size=(CELLS, 9))
    shown = np.zeros((count, 9)) if blind else np.tanh(cells @ through)
    releases = (shown + rng.normal(0, noise, (count, 9))).astype(np.float32)
    return Seen(releases, cells, np.arange(count) // 5)


def test_cells_without_noise_are_read() -> None:
    found = read_cells(seen_of(1500, 0.0, 1), seen_of(500, 0.0, 2), seed=0, steps=600)
    assert found.accuracy.value > 0.99 and found.auc.value > 0.999
    assert found.majority == pytest.approx((4 * 0.5 + 2 * 0.7) / 6, abs=0.02)
    assert found.n == 500


def test_a_vector_that_tells_nothing_gives_nothing_away() -> None:
    found = read_cells(
        seen_of(1500, 1.0, 1, blind=True), seen_of(800, 1.0, 2, blind=True), seed=0, steps=300
    )
    assert found.auc.low < 0.5 < found.auc.high
    assert found.accuracy.value < found.majority + 0.02


def test_noise_makes_it_worse_and_means_of_releases_better() -> None:
    known, unseen = seen_of(1500, 1.0, 1), seen_of(500, 1.0, 2)
    one = read_cells(known, unseen, seed=0, steps=400)
    quiet = [seen_of(1500, 0.25, 1), seen_of(500, 0.25, 2)]  # as means of sixteen
    many = read_cells(quiet[0], quiet[1], seed=0, steps=400)
    assert one.majority + 0.05 < one.accuracy.value < many.accuracy.value - 0.05
    assert one.accuracy.low < one.accuracy.value < one.accuracy.high
    assert read_cells(known, unseen, seed=0, steps=400) == one


def test_a_probe_scores_by_hand() -> None:
    known = Seen(np.zeros((3, 1)), np.array([[1, 0], [1, 0], [1, 1]]), np.arange(3))
    unseen = Seen(np.zeros((2, 1)), np.array([[1, 0], [0, 1]]), np.arange(2))
    found = reading(np.array([[2.0, -1.0], [-1.0, -2.0]]), known, unseen)
    assert found.accuracy.value == 0.75  # the second cell of the second vector is missed
    assert found.majority == 0.5
    assert found.auc.value == 0.5  # 1 of the first cell, 0 of the second


def test_groups_stay_together() -> None:
    seen = seen_of(200, 0.0, 3)
    known, unseen = split_by_group(seen, seed=4, share=0.25)
    assert not set(known.groups) & set(unseen.groups)
    assert len(set(known.groups)) == 10 and len(known) + len(unseen) == 200
    with pytest.raises(ValueError, match="two groups"):
        split_by_group(Seen(seen.releases, seen.cells, np.zeros(200)), seed=0)
    with pytest.raises(ValueError, match="as many"):
        Seen(seen.releases, seen.cells[:5], seen.groups)
