"""The mean of paired differences, with the interval in which it lies: whether two methods differ, or their seeds alone.

Runs of equal seeds share what the seed decides (data, first model, draws), so their scores are taken apart pair by pair.
With n pairs of mean difference d and sample standard deviation s the interval is d ± t s / sqrt(n), t the 97.5 % quantile
of Student's law with n - 1 degrees of freedom (Student 1908).
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """mean: of first less second, in the metric's unit, NaN without pairs; low, high: ends of the 95 % interval, NaN with
    fewer than two pairs; n: pairs."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def certain(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0

    def shown(self, digits: int = 2, scale: float = 1.0) -> str:
        """The mean with its sign, "-" without pairs."""
        return f"{self.mean * scale:+.{digits}f}" if self.n else "-"

    def interval(self, digits: int = 2, scale: float = 1.0) -> str:
        """Such as "-1.0 to +6.0", "-" with fewer than two pairs."""
        if self.n < 2:
            return "-"
        return f"{self.low * scale:+.{digits}f} to {self.high * scale:+.{digits}f}"

    def text(self, digits: int = 2, scale: float = 1.0) -> str:
        """Such as "+2.5 (95 % -1.0 to +6.0, 5 pairs)"."""
        if self.n < 2:
            return (
                f"{self.shown(digits, scale)} ({'one pair' if self.n else 'no pair'}: no interval)"
            )
        return f"{self.shown(digits, scale)} (95 % {self.interval(digits, scale)}, {self.n} pairs)"

    def __str__(self) -> str:
        return self.text(4)


def paired(first: Mapping[Hashable, float], second: Mapping[Hashable, float]) -> Difference:
    """First less second, of the keys that both have; NaN does not count."""
    from scipy.special import stdtrit

    found = [first[key] - second[key] for key in first if key in second]
    found = [value for value in found if not math.isnan(value)]
    n = len(found)
    mean = math.fsum(found) / n if n else math.nan
    if n < 2:
        return Difference(mean, math.nan, math.nan, n)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (n - 1))
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * deviation / math.sqrt(n)
    return Difference(mean, mean - half, mean + half, n)
