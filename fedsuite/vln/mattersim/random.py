"""The pseudo-random numbers of the Matterport3D Simulator, so that equal seeds give equal episodes.

Source: the C++ standard library that the simulator is built with (libstdc++): `minstd_rand0`, x <- 16807 x mod (2^31 -
1), with its `uniform_int_distribution` and `uniform_real_distribution`. Draws of the engine lie in 1 .. 2^31 - 2.
"""

import math

_MODULUS = 2**31 - 1
_MULTIPLIER = 16807
_DRAWS = _MODULUS - 1  # how many different values one draw can take


class MinimalStandard:
    """Park and Miller's generator; the seed is taken as an unsigned 64-bit number."""

    def __init__(self, seed: int) -> None:
        self._state = seed % 2**64 % _MODULUS or 1

    def draw(self) -> int:
        """Next value, counted from 0."""
        self._state = self._state * _MULTIPLIER % _MODULUS
        return self._state - 1

    def below(self, n: int) -> int:
        """Uniform integer in 0 .. n-1: equal buckets of draws; beyond the last one, draw again."""
        bucket = (_DRAWS - 1) // n
        while (value := self.draw()) >= n * bucket:
            pass
        return value // bucket


def random_headings(count: int) -> list[float]:
    """Headings of a random episode in [0, 2 pi), rad: drawn from seed 1 at every call, so always the same."""
    generator = MinimalStandard(1)
    # 53 random bits need more than one draw.
    draws = [(generator.draw(), generator.draw()) for _ in range(count)]
    return [2 * math.pi * ((a + float(b) * _DRAWS) / float(_DRAWS * _DRAWS)) for a, b in draws]
