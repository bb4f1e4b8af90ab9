"""Sums whose members clip and add the noise: whole numbers by a slow twin, sensitivity, noise, and what rounding costs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import kstest

from fedsuite.privacy.masked_vectors import WORD
from fedsuite.privacy.noised_sums import LEAST_DEVIATION, NoisedLevels
from fedsuite.privacy.sum_terms import SumTerms

SIZE = 5000


class Silent(np.random.Generator):
    """A generator without noise."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def normal(self, *given: object) -> np.ndarray:  # type: ignore[override]
        return np.zeros(given[2] if len(given) > 2 else ())  # type: ignore[call-overload]


def changes_of(rng: np.random.Generator, members: int, size: int = SIZE) -> list[np.ndarray]:
    """Some within a norm of 1, some far above, one of them 0."""
    lengths = [0.0, *(10.0 ** rng.uniform(-3, 3, members - 1))]
    rows = rng.normal(size=(members, size))
    return [n * row / np.linalg.norm(row) for n, row in zip(lengths, rows, strict=True)]


def clipped(change: np.ndarray, clip: float) -> np.ndarray:
    return change * min(1.0, clip / max(float(np.linalg.norm(change)), clip))


def added(vectors: list[np.ndarray]) -> np.ndarray:
    total = np.zeros(len(vectors[0]), WORD)
    for vector in vectors:
        assert vector.dtype == WORD
        total += vector
    return total


def signed(words: np.ndarray) -> list[int]:
    """Whole numbers of the words, by arithmetic alone."""
    return [w - 2**32 if w >= 2**31 else w for w in map(int, words)]


@pytest.mark.parametrize(("members", "clip"), [(3, 1.0), (7, 0.02), (12, 40.0), (1023, 1.0)])
def test_without_noise_it_is_the_mean_of_the_clipped_changes(members: int, clip: float) -> None:
    """A slow twin adds up whole numbers one by one; what rounding and the shorter C' cost is within the equations' bound."""
    levels = NoisedLevels(clip, 1.0, members, members // 2 + 1)
    size = 40
    changes = [clip * d for d in changes_of(np.random.default_rng(members), members, size)]
    vectors = [levels.rounded(d, 1.0, Silent()) for d in changes]
    mean, cut = levels.mean(added(vectors), np.ones(members))
    step = Fraction(levels.step)
    for at in range(size):
        slow = sum(step * signed(v)[at] for v in vectors) / members
        assert float(slow) == pytest.approx(mean[at], rel=1e-12, abs=1e-300)
    exact = np.mean([clipped(d, clip) for d in changes], axis=0)
    assert cut == 0
    assert abs(mean - exact).max() <= levels.step * (0.5 + math.sqrt(size) / 2) * (1 + 1e-6)
    assert abs(mean - exact).max() < 2e-6 * clip


@pytest.mark.parametrize("length", [0.0, 0.5, 0.999999, 1.0, 1.000001, 77.0])
def test_no_member_moves_the_sum_by_more_than_the_clipping_norm(length: float) -> None:
    """Rounded, too: each number may be rounded up by half a level, which is why less than C is left of a change."""
    rng, longest = np.random.default_rng(3), 0.0
    for members in (3, 40_000):  # levels of 1e-8 and of 5e-5
        levels = NoisedLevels(1.0, 1.0, members, members // 2 + 1)
        for draw in range(20):
            sign = rng.choice([-1.0, 1.0], SIZE) if draw % 2 else rng.normal(size=SIZE)
            change = length * sign / np.linalg.norm(sign)
            whole = np.array(signed(levels.rounded(change, 1.0, Silent())[:-1]), np.float64)
            longest = max(longest, float(np.linalg.norm(whole)) * levels.step)
    assert longest <= 1.0
    assert longest >= min(length, 1.0) * (1 - 1e-3)


def test_noise_has_the_standard_deviation_that_was_said() -> None:
    """z C / sqrt(n) of a member, z C sqrt(A / n) of a sum of A; Gaussian, and another for each number and member."""
    z, clip, members, fewest = 1.5, 3.0, 9, 5
    levels = NoisedLevels(clip, z, members, fewest)
    rngs = [np.random.default_rng(k) for k in range(members)]
    zeros = np.zeros(SIZE)
    vectors = [levels.rounded(zeros, 1.0, rng) for rng in rngs]
    one = np.array(signed(vectors[0][:-1])) * levels.step
    assert kstest(one / (z * clip / math.sqrt(fewest)), "norm").pvalue > 1e-4
    for arrived in (5, 7, 9):
        mean, _ = levels.mean(added(vectors[:arrived]), np.ones(arrived))
        told = z * clip * math.sqrt(arrived / fewest)
        assert kstest(mean * arrived / told, "norm").pvalue > 1e-4
        assert abs(np.std(mean * arrived) / told - 1) < 5 / math.sqrt(2 * SIZE)
    others = [np.array(signed(v[:-1])) for v in vectors]
    for a in range(members):
        for b in range(a):
            assert abs(np.corrcoef(others[a], others[b])[0, 1]) < 5 / math.sqrt(SIZE)


def test_the_range_holds_all_changes_with_noise() -> None:
    """All members at the norm in one number, in the same direction, and noise of nine deviations on top of it."""

    class Far(Silent):
        def normal(self, *given: object) -> np.ndarray:  # type: ignore[override]
            _, deviation, size = given
            return np.full(size, 9 * deviation / math.sqrt(members))  # type: ignore[operator, call-overload]

    for members in (3, 8, 1000, 65_535):
        for z in (0.01, 1.0, 50.0):
            levels = NoisedLevels(2.0, z, members, members // 2 + 1)
            word = levels.rounded(np.array([9.0]), 1.0, Far())[0]
            total = np.array([int(word) * members % 2**32, 0], WORD)
            mean, _ = levels.mean(total, np.ones(members))
            wanted = 2.0 + 9 * levels.deviation / math.sqrt(members)
            assert mean[0] == pytest.approx(wanted, rel=1e-3)


def pmf_of_rounded(deviation: float, shift: int, reach: int) -> np.ndarray:
    """Chances of round(N(0, deviation^2)) + shift at -reach..reach."""
    at = np.arange(-reach, reach + 1) - shift
    below, above = (at - 0.5) / deviation, (at + 0.5) / deviation
    return np.where(at > 0, ndtr(-below) - ndtr(-above), ndtr(above) - ndtr(below))


@pytest.mark.parametrize("arrived", [1, 3, 5])
@pytest.mark.parametrize("shift", [1, 5, 16])
def test_sums_of_rounded_noise_tell_no_more_than_gaussian_noise(arrived: int, shift: int) -> None:
    """At the coarsest levels that are let pass: Renyi divergences of the very distributions, by convolution, against the
    Gaussian mechanism's a D^2 / (2 A s^2) that the ledger counts by."""
    s, reach = LEAST_DEVIATION, 90
    here, moved = pmf_of_rounded(s, 0, reach), pmf_of_rounded(s, shift, reach)
    for _ in range(arrived - 1):
        noise = pmf_of_rounded(s, 0, reach)
        here, moved = (np.convolve(p, noise) for p in (here, moved))
    for order in (
        o for o in (1.5, 2.0, 4.0, 8.0) if o * shift <= 64
    ):  # where numbers are large enough
        known = (here > 1e-250) & (moved > 1e-250)
        terms = order * np.log(moved[known]) + (1 - order) * np.log(here[known])
        divergence = np.logaddexp.reduce(terms) / (order - 1)
        gaussian = order * shift**2 / (2 * arrived * s**2)
        assert divergence <= gaussian * (1 + 1e-9)
        assert divergence > 0.9 * gaussian


def test_levels_are_fine_or_not() -> None:
    assert NoisedLevels(1.0, 1.0, 12, 7).is_fine and NoisedLevels(1.0, 1.0, 65_535, 32_768).is_fine
    assert not NoisedLevels(1.0, 1e-8, 12, 7).is_fine
    for clip in (1e-6, 1.0, 1e6):  # the norm makes no difference
        assert NoisedLevels(clip, 1e-5, 12, 7).is_fine


def test_masks_that_are_left_on_a_sum_are_noticed() -> None:
    fixed, adapts = NoisedLevels(1.0, 1.0, 3, 3), NoisedLevels(1.0, 1.0, 3, 3, 0.5)
    for number in (1, 2**32 - 1):
        with pytest.raises(ValueError, match=r"its last number is .*, expected 0 at most"):
            fixed.mean(np.array([1, 2, number], WORD), np.ones(3))
    within = int((1.5 + 10 * 0.5) * 2**12)
    for sign in (1, -1):
        adapts.mean(np.array([1, 2, sign * within % 2**32], WORD), np.ones(3))
        with pytest.raises(ValueError, match=r"expected 6\.5 at most"):
            adapts.mean(np.array([1, 2, sign * (within + 1) % 2**32], WORD), np.ones(3))


def test_how_many_were_not_clipped_is_a_noised_sum_too() -> None:
    """b_k - 1/2 of changes of norms up to C and above; s_b sqrt(A / n) of noise; a change of 0 is not clipped."""
    levels = NoisedLevels(2.0, 1.0, 9, 5, 1.5)
    changes = [np.array([x, 0.0]) for x in (0.0, 1.0, 2.0, 2.001, 50.0, 1.9, 3.0)]
    total = added([levels.rounded(d, 1.0, Silent()) for d in changes])
    assert levels.mean(total, np.ones(7))[1] == 4 - 7 / 2
    rng, found = np.random.default_rng(0), []
    for _ in range(2000):
        total = added([levels.rounded(d, 1.0, rng) for d in changes])
        found.append(levels.mean(total, np.ones(7))[1] - 0.5)
    assert kstest(np.array(found) / (1.5 * math.sqrt(7 / 5)), "norm").pvalue > 1e-4
    assert levels.is_fine and not NoisedLevels(2.0, 1.0, 9, 5, 1e-3).is_fine


def test_what_a_members_noise_is_reckoned_from() -> None:
    """The fewest that the run's threshold lets a sum be opened for, never below three, whatever a node wants of its own."""
    half, strict = SumTerms(0.5, 1.0), SumTerms(0.8, 1.0, least=6)
    assert [half.opened_for(n) for n in (3, 4, 5, 12)] == [3, 3, 3, 7]
    assert [strict.opened_for(n) for n in (3, 5, 10)] == [3, 5, 9]
