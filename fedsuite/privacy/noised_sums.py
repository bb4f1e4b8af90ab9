"""Secure sums that hide from the server, too, whether any one member took part: members clip, and draw the noise.

What client_level.py has done by a server that sees single changes, each member does to its own (distributed noise, as in
Kairouz, Liu, Steinke 2021, 2102.06387). Symbols: d_k the change of member k, all of its d numbers together; C the clipping
norm; z the noise multiplier; N the members of a sum, n the fewest of them for whom it is opened; h the step of the levels.

  q_k = round(d_k min(1, C' / ||d_k||) / h) + round(g_k / h)  modulo 2^32,      C' = C - h sqrt(d) / 2
  g_k ~ N(0, (z C)^2 / n I), drawn by the member itself
  h sum_k q_k = sum of clipped changes + N(0, (z C)^2 A / n I)                  of the A >= n whose change arrived

C' leaves a norm of C at most once a change is rounded, so that one member more or less moves the sum by C at most: a
Gaussian mechanism with the noise multiplier z sqrt(A / n), if all A members draw what they are to draw. Sums of rounded
noise are as good as rounded sums but for exp(-2 pi^2 s^2), s the deviation of one member's noise in levels.

  h = 2 (N C + 10 z C sqrt(N / n)) / 2^32        what is ten deviations further off is taken for another number
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsuite.privacy.masked_vectors import WORD

LEAST_DEVIATION = 4.0  # of one member's noise, in levels: exp(-2 pi^2 s^2) is 10^-137
_WORDS = 2.0**32
_BEYOND = 10.0  # deviations


@dataclass(frozen=True)
class NoisedLevels:
    """As Levels of masked_vectors.py. clip: C; multiplier: z; members: N; fewest: n."""

    clip: float
    multiplier: float
    members: int
    fewest: int

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of one member."""
        return self.multiplier * self.clip / math.sqrt(self.fewest)

    @property
    def step(self) -> float:
        """h."""
        noise = _BEYOND * self.deviation * math.sqrt(self.members)
        return 2 * (self.members * self.clip + noise) / _WORDS

    @property
    def is_fine(self) -> bool:
        """Whether there are levels enough for the noise to be what is said of it."""
        return self.deviation >= LEAST_DEVIATION * self.step

    def rounded(self, change: np.ndarray, weight: float, noise: np.random.Generator) -> np.ndarray:
        """A change [d] as d + 1 words; the last is 0. weight: 1, for noise hides one among members that weigh alike."""
        most = self.clip - self.step * math.sqrt(change.size) / 2
        factor = most / max(float(np.linalg.norm(change)), most)
        levels = np.rint(change * (factor / self.step))
        levels += np.rint(noise.normal(0.0, self.deviation / self.step, change.size))
        return np.append(levels, 0).astype(np.int64).astype(WORD)

    def mean(self, total: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, int]:
        """The mean [d] float64 of the clipped changes with their noise, of as many members as there are weights; and 0.
        ValueError for what is no such sum."""
        if total[-1]:
            raise ValueError(f"its last number is {total[-1]}, expected 0")
        levels = total[:-1].astype(WORD).view("<i4").astype(np.float64)
        return levels * (self.step / len(weights)), 0
