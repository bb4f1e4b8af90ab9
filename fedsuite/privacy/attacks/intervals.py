"""What attacks have in common: 95 % intervals, and the split of numbers into two groups.

Shares k/n have the exact interval of Clopper and Pearson (1934); other statistics the percentiles of a bootstrap over
records (Efron 1979). Two groups are those with the least sum of squares around their means (Otsu 1979).
"""

from collections.abc import Callable, Sequence

import numpy as np

LEVEL, DRAWS = 0.95, 1000
Interval = tuple[float, float]


def clopper_pearson(hits: int, n: int, level: float = LEVEL) -> Interval:
    """Two-sided interval of a share of which `hits` of `n` were seen; (0, 1) for n = 0."""
    from scipy.special import betaincinv

    if not 0 <= hits <= n:
        raise ValueError(f"expected 0 <= hits <= n, got {hits} of {n}")
    tail = (1 - level) / 2
    low = float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return low, high


def bootstrap(
    statistic: Callable[..., float], groups: Sequence[np.ndarray], rng: np.random.Generator
) -> Interval:
    """Interval of statistic(*groups); records [n, ...] of each group are drawn again by themselves, NaN values left out."""
    found = []
    for _ in range(DRAWS):
        drawn = [group[rng.integers(len(group), size=len(group))] for group in groups]
        found.append(statistic(*drawn))
    known = np.array([value for value in found if not np.isnan(value)])
    if not len(known):
        return float("nan"), float("nan")
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(known, [tail, 100 - tail])
    return float(low), float(high)


def threshold(values: np.ndarray) -> float:
    """The number between the two groups of `values` [n >= 1]; where all are equal, none is above it."""
    ordered = np.sort(np.asarray(values, np.float64))
    n, total = len(ordered), ordered.sum()
    if n == 0:
        raise ValueError("expected at least one value, got none")
    if ordered[0] == ordered[-1]:
        return float(ordered[-1])
    size, lower = np.arange(1, n), np.cumsum(ordered)[:-1]
    # Least squares within the groups are most between them.
    between = lower**2 / size + (total - lower) ** 2 / (n - size)
    best = int(np.argmax(np.where(ordered[1:] > ordered[:-1], between, -np.inf)))
    return float((ordered[best] + ordered[best + 1]) / 2)


def between(moves: np.ndarray) -> float:
    """What tells `moves` [n >= 1] that were caused from others: 0 where some did not move at all, else the threshold."""
    return 0.0 if (moves == 0).any() else threshold(moves)
