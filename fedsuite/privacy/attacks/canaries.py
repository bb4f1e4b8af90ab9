"""How much a training lets through at least, measured by canaries: lower bounds of its epsilon.

A canary is a record that is put into the training data or left out by a fair coin; the attacker guesses the coins from what
leaves. No (epsilon, delta)-private training lets him be right more often than these bounds say, but in one of 1/p cases.

One run, m canaries, r guesses, of which v are right (Steinke, Nasr and Jagielski 2023, 2305.08846, theorem 5.2): with
q = e^epsilon / (1 + e^epsilon) and B ~ Binomial(r, q)

  p = P[B >= v] + 2 m delta max_{i >= 1} P[v - i <= B < v] / i

Many runs, one canary (Jagielski et al. 2020, 2006.07709, section 4.1): with upper ends of the two-sided Clopper-Pearson
intervals of the false-positive and the false-negative rate

  epsilon = max(log((1 - delta - FP) / FN), log((1 - delta - FN) / FP)).
"""

import math

import numpy as np

from fedsuite.privacy.attacks.intervals import between, clopper_pearson

SIGNIFICANCE = 0.05
_LARGEST = 50.0  # of an epsilon that is looked for; e^50 guesses would be needed for it


def p_value(epsilon: float, canaries: int, guesses: int, right: int, delta: float) -> float:
    """How likely a training that is (epsilon, delta)-private lets so many guesses be right, at most."""
    from scipy.stats import binom

    share = 1 / (1 + math.exp(-epsilon))
    value = float(binom.sf(right - 1, guesses, share))
    if delta > 0 and right > 0:
        mass = binom.pmf(np.arange(right), guesses, share)
        # P[v - i <= B < v] for i = 1 .. v.
        below = np.cumsum(mass[::-1])
        value += 2 * canaries * delta * float((below / np.arange(1, right + 1)).max())
    return min(1.0, value)


def epsilon_of_one_run(
    canaries: int, guesses: int, right: int, delta: float, p: float = SIGNIFICANCE
) -> float:
    """The largest epsilon that `right` of `guesses` refute at significance p, to 1e-9; 0 where they refute none."""
    if not 0 <= right <= guesses <= canaries:
        raise ValueError(
            f"expected right <= guesses <= canaries, got {right}, {guesses}, {canaries}"
        )
    if guesses == 0 or p_value(0.0, canaries, guesses, right, delta) > p:
        return 0.0
    low, high = 0.0, _LARGEST
    while high - low > 1e-9:
        middle = (low + high) / 2
        if p_value(middle, canaries, guesses, right, delta) <= p:
            low = middle
        else:
            high = middle
    return low


def epsilon_of_many_runs(
    false_positives: int, without: int, false_negatives: int, with_it: int, delta: float
) -> float:
    """From errors in `without` runs that had no canary and `with_it` runs that had it; 0 where nothing is refuted."""
    fp = clopper_pearson(false_positives, without)[1]
    fn = clopper_pearson(false_negatives, with_it)[1]
    ratios = [(1 - delta - a) / b for a, b in ((fp, fn), (fn, fp))]
    return max([0.0, *(math.log(ratio) for ratio in ratios if ratio > 0)])


def right_guesses(scores: np.ndarray, inside: np.ndarray, guesses: int) -> int:
    """How many of the surest guesses are right. scores [m]: how far what a canary moves has moved; inside [m]: the coins.

    The attacker splits the scores into two groups and is surest of those farthest from the split; he never sees the coins.
    """
    distance = scores - between(scores)
    surest = np.argsort(-np.abs(distance), kind="stable")[:guesses]
    return int(((distance > 0) == inside)[surest].sum())
