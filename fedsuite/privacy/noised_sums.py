"""Secure sums that hide from the server, too, what any one member has added: members clip, and draw the noise.

What client_level.py has done by a server that sees single changes, each member does to its own (distributed noise, as in
Kairouz, Liu, Steinke 2021, 2102.06387). Symbols: d_k the change of member k, all of its d numbers together; C the clipping
norm; z the noise multiplier; N the members of a sum, n the fewest of them for whom it is opened; h the step of the levels.

  q_k = round(d_k min(1, C' / ||d_k||) / h) + round(g_k / h)  modulo 2^32,      C' = C - h sqrt(d) / 2
  g_k ~ N(0, (z C)^2 / n I), drawn by the member itself
  h sum_k q_k = sum of clipped changes + N(0, (z C)^2 A / n I)                  of the A >= n whose change arrived

C' leaves a norm of C at most once a change is rounded. Who takes part is known; neighbours are sums to which a member has
added its change, or its noise alone, which moves them by C at most: a Gaussian mechanism with the noise multiplier
z sqrt(A / n), if all A members draw what they are to draw. Sums of rounded noise are as good as rounded sums but for
exp(-2 pi^2 s^2), s the deviation of one member's noise in levels.

  h = 2 (N C + 10 z C sqrt(N / n)) / 2^32        what is ten deviations further off is taken for another number

Where C adapts (client_level.py), z is z_s in all of this, and a last number adds b_k - 1/2 + N(0, s_b^2 / n), in levels of
2^-12: of how many changes were not clipped, too, the noised sum alone can be read.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsuite.privacy.masked_vectors import WORD

LEAST_DEVIATION = 4.0  # of one member's noise, in levels: exp(-2 pi^2 s^2) is 10^-137
_WORDS = 2.0**32
_BEYOND = 10.0  # deviations
_COUNT = 2.0**12  # levels of a count


@dataclass(frozen=True)
class NoisedLevels:
    """As Levels of masked_vectors.py. clip: C; multiplier: z; members: N; fewest: n; count_noise: s_b, 0 for a fixed C."""

    clip: float
    multiplier: float
    members: int
    fewest: int
    count_noise: float = 0.0

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
        counted = self.count_noise * _COUNT / math.sqrt(self.fewest)
        fine = not counted or counted >= LEAST_DEVIATION
        return fine and self.deviation >= LEAST_DEVIATION * self.step

    def rounded(
        self, change: np.ndarray, weight: float | np.ndarray, noise: np.random.Generator
    ) -> np.ndarray:
        """A change [d] as d + 1 words, the last of the count, or 0. weight: 1, for noise hides one among members that weigh
        alike."""
        most = self.clip - self.step * math.sqrt(change.size) / 2
        factor = most / max(float(np.linalg.norm(change)), most)
        levels = np.rint(change * (factor / self.step))
        levels += np.rint(noise.normal(0.0, self.deviation / self.step, change.size))
        count = 0.0
        if self.count_noise:
            whole = 0.5 if np.linalg.norm(change) <= self.clip else -0.5
            own = self.count_noise / math.sqrt(self.fewest)
            count = whole * _COUNT + np.rint(noise.normal(0.0, own * _COUNT))
        return np.append(levels, count).astype(np.int64).astype(WORD)

    def mean(self, total: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """The mean [d] float64 of the clipped changes with their noise, of as many members as there are weights; and the sum
        of b_k - 1/2 with its noise, 0 where C is fixed. ValueError for what is no such sum."""
        signed = total.astype(WORD).view("<i4").astype(np.float64)
        whole = float(signed[-1]) / _COUNT
        noise = _BEYOND * self.count_noise * math.sqrt(len(weights) / self.fewest)
        most = len(weights) / 2 + noise if noise else 0.0
        if abs(whole) > most:
            raise ValueError(f"its last number is {whole:g}, expected {most:g} at most")
        return signed[:-1] * (self.step / len(weights)), whole
