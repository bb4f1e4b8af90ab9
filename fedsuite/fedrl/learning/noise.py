"""The noise on one party's Q-values: N(0, sigma^2 I), always the same for the same exchange.

Zhuo et al. (2019) add it to every output that is shared; their code to all blocks of a minibatch or to none. In tests a
learner on its own is noised too, which tells what noise alone does to a greedy policy.
"""

import numpy as np

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.schedule import Schedule
from fedsuite.privacy.gaussian import gaussian_noise
from fedsuite.randomness import rng_for


class PartyNoise:
    """seed: of this party's own noise, None = the run's; who knows it can take the noise off again."""

    def __init__(self, config: FedRLConfig, partition: int, seed: int | None = None) -> None:
        self.config, self.partition = config, partition
        self.seed = config.seed if seed is None else seed
        self.is_shared = len(config.federation.roles) > 1
        self._schedule = Schedule(config)

    def of_minibatches(self, exchange: int, of: str, shape: tuple[int, int]) -> np.ndarray:
        """Noise on the exchange's minibatches [U, B, A]; zero in those that the public coin spares."""
        noisy = self._schedule.noisy(exchange)
        return self.draw(of, exchange, (len(noisy), *shape)) * noisy[:, None, None]

    def draw(self, of: str, exchange: int, shape: tuple[int, ...]) -> np.ndarray:
        """Noise in training, float32. A party on its own sends nothing, so it has none."""
        if not self.is_shared:
            return np.zeros(shape, np.float32)
        return self._gaussian(f"noise-{of}", exchange, shape)

    def in_test(self, number: int, tick: int, shape: tuple[int, ...]) -> np.ndarray:
        """Noise in step `tick` of test `number`, float32."""
        return self._gaussian(f"test-noise-{number}", tick, shape)

    def _gaussian(self, purpose: str, round: int, shape: tuple[int, ...]) -> np.ndarray:
        rng = rng_for(self.seed, purpose, round, self.partition)
        return gaussian_noise(rng, shape, self.config.privacy.noise_sigma)
