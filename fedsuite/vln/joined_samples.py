"""The samples of several houses as one sequence, without copying them."""

from collections.abc import Sequence
from typing import overload

import numpy as np

from fedsuite.vln.dataset import Sample


class JoinedSamples(Sequence[Sample]):
    """All samples of `parts`, one part after the other."""

    def __init__(self, parts: Sequence[Sequence[Sample]]) -> None:
        self.parts = tuple(parts)
        self.first = np.concatenate([[0], np.cumsum([len(p) for p in self.parts])]).astype(np.int64)

    def __len__(self) -> int:
        return int(self.first[-1])

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...

    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        part = int(np.searchsorted(self.first, place, side="right")) - 1
        return self.parts[part][place - int(self.first[part])]


def join_samples(parts: Sequence[Sequence[Sample]]) -> Sequence[Sample]:
    """One sequence over all parts; a single part is itself."""
    return parts[0] if len(parts) == 1 else JoinedSamples(parts)
