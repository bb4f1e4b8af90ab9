"""Whole turns of stacked agents, replayed (replayed.py): they look, decide and act in one recording.

A recording reads the places of the agents, tables of the world that are copied once, and what every house has drawn before:
random bytes for its features and its states, exponentially distributed numbers for its actions.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fedsuite.vln.environment import World
from fedsuite.vln.model.agent import Panorama
from fedsuite.vln.model.dropout import Drop, Dropout, multiply, scaled
from fedsuite.vln.model.recording import Recordings, Shared, power_of_two
from fedsuite.vln.model.replayed_sight import Inputs, rounded_width
from fedsuite.vln.model.sight import observe
from fedsuite.vln.model.stacked_batch import pieces, places_after, places_of
from fedsuite.vln.model.stacked_dropout import StackedDropout, StackedPolicy, draw_exponential
from fedsuite.vln.model.walkers import Acted, Walkers, acted

_BY_ROW = "viewpoint", "view", "goal"
_BY_HOUSE = "widths", "counts"
_READ = (
    "candidate_count", "candidate", "candidate_view", "relative_angle", "pair_row", "teacher", "views",
)  # fmt: skip


class Turn:
    """The next one of a walk's n rows; a Sight."""

    def __init__(
        self,
        recordings: Recordings,
        world: World,
        at: Walkers,
        policy: StackedPolicy,
        dropout: StackedDropout,
        sizes: Sequence[int],
    ) -> None:
        """sizes: of what the decoder drops. A house draws whole words for all, for which F and these are multiples of 8."""
        self.batch, self.drops, self.sizes = dropout.batch, dropout, sizes
        self.generators = policy.generators
        number = world.candidate_count.index_select(0, at.viewpoint)
        self.listed, widths = self.batch.widest(number)
        self.width = max(self.listed)
        self.candidates = rounded_width(world.candidate.shape[1])
        self.numbers = {name: getattr(at, name) for name in _BY_ROW}
        self.numbers |= {"widths": widths, "counts": self.batch.number_present}
        self.flags = {"present": self.batch.present, "active": at.active}
        if policy.generators is not None:
            self.flags["forced"] = policy.forces(at.row)
        pairs, viewpoints = power_of_two(len(world.teacher)), power_of_two(len(world.views))
        shape = (viewpoints, *world.views.shape[1:])
        kind = "world", shape, pairs, self.candidates
        self.key = kind, dropout.drops_features, dropout.drops_states, tuple(self.flags)
        self.tables = recordings.kept(kind, lambda: _Tables(world, *kind[1:]))
        self.tables.load(world)

    def inputs(
        self, recordings: Recordings, houses: int, rows: int, time: int
    ) -> dict[str, Tensor]:
        """As of Sight."""
        given, each = {**self.numbers, **self.flags}, rows // houses
        inputs = {k: x.new_zeros(houses if k in _BY_HOUSE else rows) for k, x in given.items()}
        inputs["widths"].fill_(1)
        inputs["house"] = torch.arange(houses, device=inputs["view"].device)
        piece, which, inside, width = pieces(tuple(self.sizes))
        before = (np.cumsum(self.sizes) - self.sizes)[which] // piece
        inputs["pieces"] = torch.from_numpy(np.stack([before, inside, width[0]])).to(inputs["view"])
        views = self.tables.world.views
        wide = (views.shape[1] + self.candidates) * views.shape[2] // 8
        drawn = {
            "states": (inputs["view"], each * sum(self.sizes) // 8 * self.drops.drops_states),
            "features": (inputs["view"], each * wide * self.drops.drops_features),
            "actions": (views, each * (1 + self.candidates) * ("forced" in self.flags)),
        }
        for name, (like, number) in drawn.items():
            if number:  # All times share it: it has been read when the next turn is drawn for.
                inputs[name] = recordings.room(name, like, (houses, number))
        return inputs

    def see(self, inputs: Inputs) -> tuple[Panorama, "_Drawn"]:
        """As of Sight."""
        dropout = _Drawn(inputs, self.drops)
        places = inputs["viewpoint"], inputs["view"]
        see = observe(self.tables.world, *places, dropout, width=self.candidates)
        # Rows that are not present may see more than K, whose gradients nobody writes.
        return replace(see, padding=see.padding | ~inputs["present"].unsqueeze(1)), dropout

    def act(self, inputs: Inputs, logits: Tensor, dropout: Dropout) -> Acted:
        """As of Sight."""
        assert isinstance(dropout, _Drawn)
        world, viewpoint = self.tables.world, inputs["viewpoint"]
        # Rows that nobody has written for this walk may be of other worlds; nobody reads what they do.
        pair = world.pair(viewpoint, inputs["goal"]).clamp_(0, len(world.teacher) - 1)
        teacher = chosen = world.teacher.index_select(0, pair)
        if "actions" in inputs:
            chosen = torch.where(inputs["forced"], teacher, dropout.sampled(logits))
        return acted(world, viewpoint, inputs["view"], inputs["active"], teacher, chosen)

    def write(self, inputs: Inputs) -> None:
        """As of Sight."""
        for given in (self.numbers, self.flags):
            places = [inputs[name][: len(x)] for name, x in given.items()]
            torch._foreach_copy_(places, list(given.values()))
        counts, views = self.batch.counts, self.tables.world.views
        each = list(zip(counts, self.listed, strict=True))
        if "features" in inputs:
            words = [n * (views.shape[1] + width) * views.shape[2] // 8 for n, width in each]
            self.drops.draw(inputs["features"], words)
        if "states" in inputs:
            self.drops.draw(inputs["states"], [n * sum(self.sizes) // 8 for n in counts])
        if "actions" in inputs and self.generators is not None:
            numbers = [n * (1 + width) for n, width in each]
            draw_exponential(inputs["actions"], numbers, self.generators)


class _Tables(Shared):
    """`world`: with room for so many viewpoints, pairs of them, and candidates."""

    def __init__(self, like: World, views: Sequence[int], pairs: int, candidates: int) -> None:
        headings, viewpoints = len(like.relative_angle) // len(like.candidate_count), views[0]
        self.world = replace(
            like,
            candidate_count=like.candidate_count.new_zeros(viewpoints),
            candidate=like.candidate.new_zeros(viewpoints, candidates),
            candidate_view=like.candidate_view.new_zeros(viewpoints, candidates),
            relative_angle=like.relative_angle.new_zeros(headings * viewpoints, candidates, 4),
            pair_row=like.pair_row.new_zeros(viewpoints),
            teacher=like.teacher.new_zeros(pairs),
            views=like.views.new_zeros(views),
            panorama_angle=like.panorama_angle.clone(),
            pose_angle=like.pose_angle.clone(),
        )

    def load(self, world: World) -> None:
        """Those of a walk."""
        if not self.held_by(world):
            for name in _READ:
                x, into = getattr(world, name), getattr(self.world, name)
                into = into[: len(x)]
                (into[:, : x.shape[1]] if x.dim() > 1 else into).copy_(x)


class _Drawn(Dropout):
    """By bytes [S, ..] that houses have drawn for their present rows: for all views, and then for all candidates; for states
    of one size, and then for those of the next. Sampled actions, by numbers for stop and all candidates of each row."""

    def __init__(self, inputs: Inputs, like: Dropout) -> None:
        super().__init__(like.p, like.feature_p)
        self.inputs, self.count = inputs, inputs["counts"].unsqueeze(1)
        present = inputs["present"].unflatten(0, (len(self.count), -1))
        self.among = (present.cumsum(1) - 1).clamp_(min=0)
        self.house = inputs["house"].unsqueeze(1)

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
        before, inside, width = self.inputs["pieces"]
        drawn = self.inputs["states"].view(torch.uint8).view(-1, sum(sizes) // len(width))
        begin = self.house * (len(drawn) // len(self.house)) + self.count * before + inside
        place = begin.unsqueeze(1) + self.among.unsqueeze(2) * width
        mask = scaled(drawn.index_select(0, place.flatten()), self.p).view(rows, -1)
        return [partial(torch.mul, own) for own in mask.split(list(sizes), 1)]

    def sampled(self, logits: Tensor) -> Tensor:
        """One draw per row from softmax(logits [N, 1 + K]), as of sample_stacked."""
        drawn, width = self.inputs["actions"], self.inputs["widths"].unsqueeze(1) + 1
        place = places_of(self.house * drawn.shape[1], self.among, width, logits.shape[1])
        chance = torch.softmax(logits, 1)
        return (chance / drawn.view(-1).index_select(0, place.flatten()).view_as(chance)).argmax(1)
