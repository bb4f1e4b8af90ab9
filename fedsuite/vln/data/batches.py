"""Mini-batches of a house's samples."""

from collections.abc import Sequence

import numpy as np

from fedsuite.vln.data.dataset import Sample


class Batches:
    """Endless mini-batches: a shuffled pass, reshuffled when it wraps around.

    With `fill`, every batch holds batch_size samples even if the house has fewer (official code); otherwise at most n.
    """

    def __init__(
        self, samples: Sequence[Sample], batch_size: int, fill: bool, rng: np.random.Generator
    ) -> None:
        if not samples:
            raise ValueError("no samples to draw mini-batches from")
        self.samples, self.rng = samples, rng
        self.size = batch_size if fill else min(batch_size, len(samples))
        self.order = rng.permutation(len(samples))
        self.cursor = 0

    def next(self) -> list[Sample]:
        """The next mini-batch."""
        picked: list[int] = []
        while len(picked) < self.size:
            if self.cursor == len(self.order):
                self.order, self.cursor = self.rng.permutation(len(self.samples)), 0
            take = self.order[self.cursor : self.cursor + self.size - len(picked)]
            picked.extend(int(i) for i in take)
            self.cursor += len(take)
        return [self.samples[i] for i in picked]
