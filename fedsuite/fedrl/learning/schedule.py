"""What happens in which exchange: a function of the settings alone, so that all parties know it without asking.

Exchange n = 0, 1, ... moves K = parallel-episodes envs one step and then learns from U(n) minibatches. All
counts are of environment steps over all envs, so that settings mean the same whatever K is:
Zhuo et al. (2019), algorithm 1, is K = 1.
"""

from dataclasses import dataclass

import numpy as np

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.randomness import rng_for


@dataclass(frozen=True)
class Schedule:
    config: FedRLConfig

    @property
    def envs(self) -> int:
        """K, parallel episodes."""
        return self.config.federation.parallel_episodes

    def updates(self, exchange: int) -> int:
        """U(n), gradient steps: none until replay holds more than a minibatch and a history."""
        config = self.config
        stored = (exchange + 1) * self.envs
        if stored <= config.learning.batch_size + config.world.history:
            return 0
        due = config.learning.steps_per_update
        return stored // due - (stored - self.envs) // due

    def refreshes_targets(self, exchange: int) -> bool:
        """Whether target networks take over the online weights at the beginning of exchange n."""
        steps, every = exchange * self.envs, self.config.learning.target_every
        return exchange > 0 and steps // every > (steps - self.envs) // every

    def epsilon(self, exchange: int) -> float:
        """Share of random joint actions: from 1 down to epsilon-last over epsilon-steps."""
        done = min(1.0, exchange * self.envs / self.config.learning.epsilon_steps)
        return 1.0 - done * (1.0 - self.config.learning.epsilon_last)

    def noisy(self, exchange: int) -> np.ndarray:
        """Which of the exchange's minibatches carry noise [U]: a public coin that all parties see alike."""
        probability = self.config.published.rules.noise_probability
        coins = rng_for(self.config.seed, "noisy-minibatch", exchange).random(
            self.updates(exchange)
        )
        return coins < probability
