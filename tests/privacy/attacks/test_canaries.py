"""Lower bounds of epsilon: golden values, a second program written otherwise, and mechanisms whose epsilon is known."""

import math

import numpy as np
import pytest
from scipy import stats

from fedsuite.privacy.attacks.canaries import (
    epsilon_of_many_runs,
    epsilon_of_one_run,
    p_value,
    right_guesses,
)


@pytest.mark.parametrize(
    ("guesses", "right", "expected"), [(100, 100, 3.4654), (100, 95, 2.1652), (200, 150, 0.8200)]
)
def test_golden_bounds_of_one_run(guesses: int, right: int, expected: float) -> None:
    assert epsilon_of_one_run(1000, guesses, right, 1e-5) == pytest.approx(expected, abs=5e-5)


def brute(canaries: int, guesses: int, right: int, delta: float) -> float:
    """Another way: coins by the binomial coefficient, the maximum term by term, epsilon by a grid that is made finer."""

    def p(epsilon: float) -> float:
        odds = math.exp(epsilon)
        chances = [
            math.exp(
                math.lgamma(guesses + 1) - math.lgamma(b + 1) - math.lgamma(guesses - b + 1)
                + b * epsilon - guesses * math.log1p(odds)
            )
            for b in range(guesses + 1)
        ]  # fmt: skip
        worst = max(
            (sum(chances[max(0, right - i) : right]) / i for i in range(1, canaries + 1)),
            default=0.0,
        )
        return math.fsum(chances[right:]) + 2 * canaries * delta * worst

    best, step = 0.0, 1.0
    if p(0.0) > 0.05:
        return 0.0
    while step > 1e-8:
        while p(best + step) <= 0.05:
            best += step
        step /= 10
    return best


@pytest.mark.parametrize(
    ("canaries", "guesses", "right", "delta"),
    [
        (40, 40, 40, 1e-5),
        (50, 30, 27, 1e-3),
        (60, 60, 31, 1e-5),
        (25, 20, 19, 0.0),
        (30, 10, 0, 1e-5),
    ],
)
def test_a_second_program_agrees(canaries: int, guesses: int, right: int, delta: float) -> None:
    own = epsilon_of_one_run(canaries, guesses, right, delta)
    assert own == pytest.approx(brute(canaries, guesses, right, delta), abs=1e-6)


def test_p_grows_with_epsilon_and_refutes_nothing_at_chance() -> None:
    values = [p_value(e, 100, 100, 80, 1e-5) for e in np.linspace(0, 5, 40)]
    assert values == sorted(values) and values[0] < 1e-3 and values[-1] > 0.9
    assert epsilon_of_one_run(100, 100, 55, 1e-5) == 0.0
    assert epsilon_of_one_run(100, 0, 0, 1e-5) == 0.0
    with pytest.raises(ValueError, match="right <= guesses"):
        epsilon_of_one_run(10, 11, 5, 1e-5)


def test_golden_bound_of_many_runs() -> None:
    assert epsilon_of_many_runs(0, 500, 0, 500, 1e-5) == pytest.approx(4.9056, abs=5e-5)
    high = stats.beta.ppf(0.975, 1, 500)
    assert epsilon_of_many_runs(0, 500, 0, 500, 0.0) == pytest.approx(math.log((1 - high) / high))
    assert epsilon_of_many_runs(250, 500, 250, 500, 1e-5) == 0.0
    # Errors of one kind alone are no harm: the other ratio counts.
    assert epsilon_of_many_runs(250, 500, 0, 500, 1e-5) > 3.5


def test_randomised_response_is_not_refuted_and_nearly_reached() -> None:
    """Each coin is told rightly with probability e^eps / (1 + e^eps): its epsilon is exactly that."""
    epsilon, rng, above, found = 1.5, np.random.default_rng(0), 0, []
    for _ in range(200):
        right = int(rng.binomial(1000, 1 / (1 + math.exp(-epsilon))))
        found.append(epsilon_of_one_run(1000, 1000, right, 0.0))
        above += found[-1] > epsilon
    assert above <= 20 and 1.2 < np.median(found) < 1.5  # one in 20 may be above


def test_guesses_follow_the_two_groups() -> None:
    inside = np.array([True, False, True, True, False, False])
    scores = np.array([3.0, 0.1, 2.9, 0.2, 0.05, 0.1])
    assert right_guesses(scores, inside, 6) == 5
    assert right_guesses(scores, inside, 2) == 2  # the two that stand out
    # Where some did not move at all, every one that did counts.
    assert right_guesses(np.array([0.01, 0.0, 9, 0, 0, 2]), inside, 6) == 4
    assert right_guesses(np.zeros(4), np.array([True, False, False, False]), 4) == 3
