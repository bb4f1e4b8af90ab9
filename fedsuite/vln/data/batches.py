"""Mini-batches of a house's samples."""

from collections.abc import Sequence

import numpy as np

from fedsuite.vln.data.dataset import Sample


class Batches:
    """Endless shuffled mini-batches, reshuffled at every wrap; fill: a small house's are filled up (official code)."""

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
