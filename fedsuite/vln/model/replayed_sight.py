"""What stacked agents see at a decision that is replayed (replayed.py): given to it, or looked up in it.

A Panorama that is there is copied to where the recording reads it. One that is yet to be seen (`Ahead`) is made in the
recording itself, of the places of the agents, the random bytes that every house has drawn for its features, and tables of
the world that are copied once: looking and dropping out are as many small operations as deciding.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from fedsuite.vln.environment import World
from fedsuite.vln.model.agent import Panorama
from fedsuite.vln.model.dropout import Drop, Dropout, multiply, scaled
from fedsuite.vln.model.recording import Recordings, Shared, power_of_two
from fedsuite.vln.model.sight import observe
from fedsuite.vln.model.stacked_batch import places_after, places_of
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

    def see(self, inputs: Inputs) -> Panorama:
        """What a recording makes of it."""

    def dropout(self, inputs: Inputs) -> Dropout:
        """What a recording drops states by."""

    def write(self, inputs: Inputs) -> None:
        """What the walk has, for the first of the houses and rows, and what houses draw now."""


class Given:
    """A Panorama; sizes: of what the decoder drops."""

    def __init__(self, see: Panorama, dropout: StackedDropout, sizes: Sequence[int]) -> None:
        self.values = {name: x for name, x in vars(see).items() if name != "candidate_view"}
        self.width, self.drops, self.sizes = see.padding.shape[1], dropout, sizes
        self.candidates = _rounded(self.width)
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

    def see(self, inputs: Inputs) -> Panorama:
        """As of Sight."""
        seen = {name: inputs[name] for name in self.values}
        return Panorama(**seen, candidate_view=torch.zeros_like(inputs["padding"]).long())

    def dropout(self, inputs: Inputs) -> Dropout:
        """As of Sight."""
        return _Masked(inputs["mask"]) if "mask" in inputs else Dropout()

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


class Ahead:
    """What agents at these places [n] of a world will see."""

    def __init__(
        self,
        recordings: Recordings,
        world: World,
        viewpoint: Tensor,
        view: Tensor,
        dropout: StackedDropout,
        sizes: Sequence[int],
    ) -> None:
        """sizes: of what the decoder drops. A house draws whole words for all, for which F and these are multiples of 8."""
        self.batch, self.drops, self.sizes = dropout.batch, dropout, sizes
        self.listed, widths = self.batch.see(world.candidate_count.index_select(0, viewpoint))
        self.width = max(self.listed)
        self.candidates = _rounded(world.candidate.shape[1])
        self.values = {
            "viewpoint": viewpoint, "view": view, "present": self.batch.present, "widths": widths,
            "counts": self.batch.number_present,
        }  # fmt: skip
        shape = (power_of_two(len(world.views)), *world.views.shape[1:])
        self.key = "ahead", shape, self.candidates, dropout.drops_features, dropout.drops_states
        kind = "world", shape, self.candidates
        self.tables = recordings.kept(kind, lambda: _Tables(world, shape[0], self.candidates))
        self.tables.load(world)

    def inputs(
        self, recordings: Recordings, houses: int, rows: int, time: int
    ) -> dict[str, Tensor]:
        """As of Sight."""
        size = {"widths": houses, "counts": houses}
        inputs = {name: x.new_zeros(size.get(name, rows)) for name, x in self.values.items()}
        inputs["widths"].fill_(1)
        own, each = self.tables.world.views, rows // houses
        drawn = {"states": each * sum(self.sizes) // 8 * self.drops.drops_states}
        wide = (own.shape[1] + self.candidates) * own.shape[2] // 8
        drawn["features"] = each * wide * self.drops.drops_features
        for name, words in drawn.items():
            if words:  # All times share it: it has been read when the next decision is drawn for.
                inputs[name] = recordings.room(name, inputs["view"], (houses, words))
        return inputs

    def see(self, inputs: Inputs) -> Panorama:
        """As of Sight."""
        places, dropout = (inputs["viewpoint"], inputs["view"]), self.dropout(inputs)
        see = observe(self.tables.world, *places, dropout, width=self.candidates)
        # Rows that are not present may see more than K, whose gradients nobody writes.
        return replace(see, padding=see.padding | ~inputs["present"].unsqueeze(1))

    def dropout(self, inputs: Inputs) -> Dropout:
        """As of Sight, and of features."""
        return _Drawn(inputs, self.drops)

    def write(self, inputs: Inputs) -> None:
        """As of Sight."""
        numbers = [name for name in self.values if name != "present"]
        own = [self.values[name] for name in numbers]
        torch._foreach_copy_([inputs[k][: len(x)] for k, x in zip(numbers, own, strict=True)], own)
        present = self.values["present"]
        inputs["present"][: len(present)].copy_(present)
        counts = self.batch.counts
        if "features" in inputs:
            views = self.tables.world.views
            words = [
                n * (views.shape[1] + width) * views.shape[2] // 8
                for n, width in zip(counts, self.listed, strict=True)
            ]
            self.drops.draw(inputs["features"], words)
        if "states" in inputs:
            self.drops.draw(inputs["states"], [n * sum(self.sizes) // 8 for n in counts])


class _Tables(Shared):
    """`world`: with room for so many viewpoints and candidates."""

    def __init__(self, like: World, viewpoints: int, candidates: int) -> None:
        headings = len(like.relative_angle) // len(like.candidate_count)
        self.world = replace(
            like,
            candidate_count=like.candidate_count.new_zeros(viewpoints),
            candidate_view=like.candidate_view.new_zeros(viewpoints, candidates),
            relative_angle=like.relative_angle.new_zeros(headings * viewpoints, candidates, 4),
            views=like.views.new_zeros(viewpoints, *like.views.shape[1:]),
            panorama_angle=like.panorama_angle.clone(),
            pose_angle=like.pose_angle.clone(),
        )

    def load(self, world: World) -> None:
        """Those of a walk."""
        if not self.held_by(world):
            for name in ("candidate_count", "views", "candidate_view", "relative_angle"):
                x, into = getattr(world, name), getattr(self.world, name)
                into = into[: len(x)]
                (into[:, : x.shape[1]] if x.dim() > 1 else into).copy_(x)


class _Drawn(Dropout):
    """By bytes [S, ..] that houses have drawn for their present rows: for all views, and then for all candidates; for states
    of one size, and then for those of the next."""

    def __init__(self, inputs: Inputs, like: Dropout) -> None:
        super().__init__(like.p, like.feature_p)
        self.inputs, self.count = inputs, inputs["counts"].unsqueeze(1)
        present = inputs["present"].unflatten(0, (len(self.count), -1))
        self.among = (present.cumsum(1) - 1).clamp_(min=0)
        self.house = torch.arange(len(self.count), device=present.device).unsqueeze(1)

    def panorama(self, views: Tensor, candidate: Tensor, count: Tensor) -> None:
        """As of Dropout."""
        if "features" in self.inputs:
            number, width = views.shape[1:]
            drawn = self.inputs["features"].view(torch.uint8).unflatten(1, (-1, width))
            begin, own = self.house * drawn.shape[1], self.inputs["widths"].unsqueeze(1)
            place = places_after(begin, self.among, number, self.count, own, candidate.shape[1])
            mask = scaled(drawn.flatten(0, 1).index_select(0, place), self.feature_p)
            multiply((views, candidate), mask)

    def several(self, rows: int, sizes: Sequence[int]) -> list[Drop]:
        """As of Dropout."""
        if "states" not in self.inputs:
            return super().several(rows, sizes)
        drawn = self.inputs["states"].view(torch.uint8).flatten()
        begin, found = self.house * (len(drawn) // len(self.house)), list[Drop]()
        for size in sizes:
            every = torch.full_like(self.count, size)
            place = places_of(begin, self.among, every, size).flatten()
            mask = scaled(drawn.index_select(0, place), self.p)
            found.append(partial(torch.mul, mask.view(rows, size)))
            begin = begin + size * self.count
        return found


def _rounded(candidates: int) -> int:
    return -(-candidates // CANDIDATES) * CANDIDATES
