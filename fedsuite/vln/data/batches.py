"""Mini-batches of a house's samples."""

from collections.abc import Sequence
from itertools import chain, islice, repeat

import numpy as np

from fedsuite.vln.data.dataset import Sample


class Batches:
    """Endless shuffled mini-batches, reshuffled at every wrap; fill: a small house's are filled up (official code)."""

    def __init__(
        self, samples: Sequence[Sample], batch_size: int, fill: bool, rng: np.random.Generator
    ) -> None:
        if not samples:
            raise ValueError("no samples to draw mini-batches from")
        self.samples = samples
        self.size = batch_size if fill else min(batch_size, len(samples))
        passes = (rng.permutation(len(samples)).tolist() for _ in repeat(None))
        self.order = chain.from_iterable(passes)

    def next(self) -> list[Sample]:
        """The next mini-batch."""
        return [self.samples[i] for i in islice(self.order, self.size)]
