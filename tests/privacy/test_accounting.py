"""Epsilon against formulas by hand, and what a statement says and does not say."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr

from fedsuite.privacy.accounting import PrivacyStatement, epsilon_of_gaussian

CASES = [
    (m, n, delta) for m in (0.5, 2.0, 40.0) for n in (1, 100, 1_000_000) for delta in (1e-5, 1e-8)
]
STATEMENT = PrivacyStatement(
    bound=2.0,
    sigma=20.0,
    releases={"alpha": 1000, "beta": 400},
    delta=1e-5,
    alternating=True,
    noise_probability=1.0,
    behaviour_noise=True,
    evaluation_noise=True,
)


def by_hand(m: float, n: int, delta: float) -> float:
    """Minimum over orders a > 1 of the Renyi bound on epsilon, without a grid."""

    def bound(log_excess: float) -> float:
        a = 1 + math.exp(log_excess)
        return n * a / (2 * m * m) + math.log1p(-1 / a) - math.log(delta * a) / (a - 1)

    best = min(
        (minimize_scalar(bound, bounds=(low, low + 2), method="bounded") for low in range(-14, 14)),
        key=lambda found: found.fun,
    )
    return float(best.fun)


def exact(m: float, n: int, delta: float) -> float:
    """Epsilon of n Gaussian mechanisms, which together are one with the multiplier m / sqrt(n) (Balle, Wang 2018)."""
    mu = math.sqrt(n) / m

    def excess(epsilon: float) -> float:
        first = log_ndtr(mu / 2 - epsilon / mu)
        second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return float(first + math.log1p(-math.exp(second - first)) - math.log(delta))

    return float(brentq(excess, 1e-9, mu * mu + 20 * mu + 50))


@pytest.mark.parametrize(("m", "n", "delta"), CASES)
def test_epsilon_is_the_minimum_over_orders(m: float, n: int, delta: float) -> None:
    assert epsilon_of_gaussian(m, n, delta) == pytest.approx(by_hand(m, n, delta), rel=0.01)


@pytest.mark.parametrize(("m", "n", "delta"), CASES)
def test_epsilon_is_a_bound_and_not_a_loose_one(m: float, n: int, delta: float) -> None:
    true = exact(m, n, delta)
    assert true <= epsilon_of_gaussian(m, n, delta) <= 1.35 * true + 1e-3


def test_no_release_costs_nothing_and_nonsense_is_refused() -> None:
    assert epsilon_of_gaussian(1.0, 0, 1e-5) == 0
    for m, n, delta in ((0.0, 1, 1e-5), (1.0, -1, 1e-5), (1.0, 1, 0.0), (1.0, 1, 1.0)):
        with pytest.raises(ValueError, match="expected noise_multiplier > 0"):
            epsilon_of_gaussian(m, n, delta)


def test_the_sensitivity_is_twice_the_bound() -> None:
    """Two clipped vectors that point apart differ by 2 c: the noise hides them exactly as the multiplier says."""
    assert STATEMENT.noise_multiplier == 5.0
    apart = np.array([2.0, 0.0]) - np.array([-2.0, 0.0])
    assert np.linalg.norm(apart) / STATEMENT.sigma == 1 / STATEMENT.noise_multiplier


def test_a_statement_gives_epsilon_for_one_vector_and_for_each_party() -> None:
    assert STATEMENT.epsilon_of_one == pytest.approx(by_hand(5.0, 1, 1e-5), rel=0.01)
    assert STATEMENT.epsilons["alpha"] == pytest.approx(by_hand(5.0, 1000, 1e-5), rel=0.01)
    assert STATEMENT.epsilons["beta"] == pytest.approx(by_hand(5.0, 400, 1e-5), rel=0.01)
    text = "\n".join(STATEMENT.text)
    assert f"A single Q-vector: epsilon {STATEMENT.epsilon_of_one:.4g} at delta 1e-05" in text
    assert f"All 1,000 Q-vectors of alpha: epsilon {STATEMENT.epsilons['alpha']:.4g}" in text
    assert f"All 400 Q-vectors of beta: epsilon {STATEMENT.epsilons['beta']:.4g}" in text
    assert "changes any Q-vector that it releases by at most 4" in text
    assert "no protection in practice" in text
    few = replace(STATEMENT, releases={"alpha": 1, "beta": 1})
    assert "no protection in practice" not in "\n".join(few.text)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"bound": 0.0}, "not clipped"),
        ({"sigma": 0.0}, "the noise is 0"),
        ({"noise_probability": 0.5}, "only 0.5 of the minibatches"),
        ({"behaviour_noise": False}, "choose actions in training"),
        ({"evaluation_noise": False}, "in evaluation"),
    ],
)
def test_whatever_leaves_q_values_bare_leaves_no_guarantee(
    change: dict[str, float | bool], reason: str
) -> None:
    statement = replace(STATEMENT, **change)  # type: ignore[arg-type]
    text = "\n".join(statement.text)
    assert "No differential-privacy guarantee can be stated" in text and reason in text
    assert "epsilon" not in text
    assert len(statement.obstacles) == 1
    for ask in ("epsilons", "epsilon_of_one", "noise_multiplier"):
        with pytest.raises(ValueError, match=f"no guarantee can be stated: .*{reason}"):
            getattr(statement, ask)


def test_what_the_statement_does_not_cover() -> None:
    alternating, joint = STATEMENT, replace(STATEMENT, alternating=False)
    for statement in (alternating, joint, replace(STATEMENT, bound=0.0)):
        text = "\n".join(statement.text)
        assert "This concerns Q-values only" in text
        assert "alpha sends targets Y" in text
        assert "runs with equal seeds share it" in text and "Epsilon is of one run" in text
    assert "shared MLP passes between all parties" in "\n".join(alternating.text)
    assert "With joint updates Q-values are all that leaves beta." in joint.text
    three = replace(joint, releases={"alpha": 1, "beta": 1, "gamma": 1})
    assert "With joint updates Q-values are all that leaves beta and gamma." in three.text


@pytest.mark.slow
def test_the_accountant_is_loaded_only_when_asked() -> None:
    code = (
        "import sys, fedsuite.privacy.accounting as a; assert 'dp_accounting' not in sys.modules;"
        "a.epsilon_of_gaussian(1, 1, 1e-5); assert 'dp_accounting' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
