"""Where the noise of a guarantee comes from: the operating system, anew for every release, or the run's seed in studies.

A guarantee holds against those who do not know the noise. Whoever has the settings of a run has its seed, so that noise
drawn from it protects from nobody among them. NumPy's generators are no cryptographic ones, and sums of floating-point
numbers have gaps that can tell more than real numbers would (Mironov 2012): neither is made up for here.
"""

import secrets
from collections.abc import Callable

import numpy as np

from fedsuite.averaging.privacy_settings import SECRET


def noise_source(noise: str, seeded: Callable[[], np.random.Generator]) -> np.random.Generator:
    """A generator for one release. noise: "secret" or "seeded"; seeded(): the run's own stream."""
    return secret_generator() if noise == SECRET else seeded()


def secret_generator() -> np.random.Generator:
    """A generator that starts from 256 random bits of the operating system, which are kept nowhere."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(secrets.randbits(256))))
