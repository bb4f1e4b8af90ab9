"""What stacked agents see at a decision that is replayed (replayed.py): a Panorama that is there already is copied to where
the recording reads it, with the masks that drop states. Whole turns are in replayed_turns.py.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from fedsuite.vln.model.agent import Panorama
from fedsuite.vln.model.dropout import Drop, Dropout
from fedsuite.vln.model.recording import Recordings
from fedsuite.vln.model.stacked_dropout import StackedDropout

CANDIDATES = 16  # K is rounded up to a multiple of these
Inputs = Mapping[str, Tensor]  # places of memory by name
_VIEWS = ("views", "candidate")  # the largest
_WIDE = ("candidate", "candidate_angle", "padding")  # [N, K, ..]


class Sight(Protocol):
    """Of a walk's n rows. width: K of those present; key: what recordings differ by."""

    @property
    def width(self) -> int: ...
    @property
    def key(self) -> Hashable: ...

    def inputs(
        self, recordings: Recordings, houses: int, rows: int, time: int
    ) -> dict[str, Tensor]:
        """Memory of a recording for so many houses S and rows N."""

    def see(self, inputs: Inputs) -> tuple[Panorama, Dropout]:
        """What a recording makes of it, and drops states by."""

    def act(self, inputs: Inputs, logits: Tensor, dropout: Dropout) -> Sequence[Tensor]:
        """What else it makes, of what has been decided; of `dropout` as `see` gave it."""

    def write(self, inputs: Inputs) -> None:
        """What the walk has, for the first of the houses and rows, and what houses draw now."""


class Given:
    """A Panorama; sizes: of what the decoder drops."""

    def __init__(self, see: Panorama, dropout: StackedDropout, sizes: Sequence[int]) -> None:
        self.values = {name: x for name, x in vars(see).items() if name != "candidate_view"}
        self.width, self.drops, self.sizes = see.padding.shape[1], dropout, sizes
        self.candidates = rounded_width(self.width)
        self.key = "given", see.views.shape[1:], self.candidates, dropout.drops_states

    def inputs(
        self, recordings: Recordings, houses: int, rows: int, time: int
    ) -> dict[str, Tensor]:
        """As of Sight."""
        inputs = {}
        for name, x in self.values.items():
            own = (self.candidates, *x.shape[2:]) if name in _WIDE else x.shape[1:]
            if name in _VIEWS:
                inputs[name] = recordings.room((x.dtype, time, name), x, (rows, *own))
            else:
                inputs[name] = x.new_zeros(rows, *own)
        if self.drops.drops_states:
            inputs["mask"] = self.values["views"].new_zeros(rows, sum(self.sizes))
        return inputs

    def see(self, inputs: Inputs) -> tuple[Panorama, Dropout]:
        """As of Sight."""
        seen = {name: inputs[name] for name in self.values}
        drops = _Masked(inputs["mask"]) if "mask" in inputs else Dropout()
        return Panorama(**seen, candidate_view=torch.zeros_like(inputs["padding"]).long()), drops

    def act(self, inputs: Inputs, logits: Tensor, dropout: Dropout) -> Sequence[Tensor]:
        """Nothing."""
        return ()

    def write(self, inputs: Inputs) -> None:
        """As of Sight."""
        for name, x in self.values.items():
            into = inputs[name][: len(x)]
            if name == "padding" and self.width < self.candidates:
                into.fill_(True)
            (into[:, : x.shape[1]] if name in _WIDE else into).copy_(x)
        mask = self.drops.masks(len(self.values["views"]), self.sizes)
        if mask is not None:
            inputs["mask"][: len(mask)].copy_(mask)


class _Masked(Dropout):
    """By a mask of all sizes, side by side."""

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self._mask = mask

    def several(self, rows: int, sizes: Sequence[int]) -> list[Drop]:
        return [partial(torch.mul, own) for own in self._mask.split(list(sizes), 1)]


def rounded_width(candidates: int) -> int:
    """How many candidates a recording has room for."""
    return -(-candidates // CANDIDATES) * CANDIDATES
