"""The noise on one party's Q-values: N(0, sigma^2 I), always the same for the same exchange of a run.

Zhuo et al. (2019) add it to every output that is shared; their code to all blocks of a minibatch or to none. In tests a
learner on its own is noised too, which tells what noise alone does to a greedy policy.
"""

import numpy as np

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.own_noise import OwnNoise
from fedsuite.fedrl.learning.schedule import Schedule
from fedsuite.privacy.gaussian import gaussian_noise
from fedsuite.randomness import rng_for


class PartyNoise:
    """own: noise that nobody else can draw; None = drawn from the run's seed, and who knows that can take it off again."""

    def __init__(self, config: FedRLConfig, partition: int, own: OwnNoise | None = None) -> None:
        self.config, self.partition, self.own = config, partition, own
        self.seed = config.seed if own is None else own.seed
        self.is_shared = len(config.federation.roles) > 1
        self._schedule = Schedule(config)

    def once(self, slot: str, q: np.ndarray) -> None:
        """To be called before noise goes on `q` and leaves; InputError if own noise of this slot went on something else."""
        if self.own is not None and self.is_shared:
            self.own.once(slot, q)

    def on_proposal(self, exchange: int, q: np.ndarray) -> np.ndarray:
        """Q^ of what is seen now [K, A], float32; without noise where behaviour has none."""
        self.once(f"now {exchange}", q)
        return q + self.draw("now", exchange, q.shape) if self.config.privacy.behaviour_noise else q

    def on_test(self, number: int, tick: int, q: np.ndarray) -> np.ndarray:
        """Q^ in step `tick` of test `number` [active envs, A], float32. In tests a party on its own is noised too."""
        self.once(f"test {number} {tick}", q)
        return q + self._gaussian(f"test-noise-{number}", tick, q.shape)

    def of_minibatches(self, exchange: int, of: str, shape: tuple[int, int]) -> np.ndarray:
        """Noise on the exchange's minibatches [U, B, A]; zero in those that the public coin spares."""
        noisy = self._schedule.noisy(exchange)
        return self.draw(of, exchange, (len(noisy), *shape)) * noisy[:, None, None]

    def draw(self, of: str, exchange: int, shape: tuple[int, ...]) -> np.ndarray:
        """Noise in training, float32. A party on its own sends nothing, so it has none."""
        if not self.is_shared:
            return np.zeros(shape, np.float32)
        return self._gaussian(f"noise-{of}", exchange, shape)

    def _gaussian(self, purpose: str, round: int, shape: tuple[int, ...]) -> np.ndarray:
        rng = rng_for(self.seed, purpose, round, self.partition)
        return gaussian_noise(rng, shape, self.config.privacy.noise_sigma)
