"""Decisions of the agents of S houses (stacked.py) whose kernels are replayed, see recording.py.

Shapes are rounded up, so that few recordings serve all walks of a process: S, the K candidates and the L words here, the
rows B of each house by the walk's batch (StackedBatch). The n = s B rows of s houses are the first of a recording's N = S B;
outputs of the others have no gradient, and nobody reads them.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from fedsuite.vln.model.agent import ActionDecoder, Decided, Panorama
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.gathered import Gathered, Notes
from fedsuite.vln.model.lstm import fused_cell_update
from fedsuite.vln.model.products import with_weights
from fedsuite.vln.model.recording import (
    Recording,
    Recordings,
    Shared,
    replayed,
    rounded_houses,
)
from fedsuite.vln.model.replayed_sight import Given, Sight
from fedsuite.vln.model.replayed_turns import Turn
from fedsuite.vln.model.stacked_dropout import StackedDropout
from fedsuite.vln.model.walkers import Acted, Walkers

WORDS = 40  # L is rounded up to a multiple of these
_OWN = "state", "cell"  # inputs of which there are gradients


def stacked_decoder(template: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
    """A decoder of the same kind with weights [S, ..]. On a GPU one kernel updates its cell."""
    module = with_weights(template, weights)
    if isinstance(module, ActionDecoder) and next(iter(weights.values())).is_cuda:
        module.update = fused_cell_update
    return module


class ReplayedDecoder:
    """The decoder of StackedAgent, with weights [s, ..] as they are now, for one walk."""

    def __init__(
        self, template: ActionDecoder, weights: Mapping[str, Tensor], recordings: Recordings
    ) -> None:
        """template: the decoder of one of the agents."""
        self._template, self._weights, self._recordings = template, weights, recordings
        self._number, self._time = len(next(iter(weights.values()))), 0
        houses, like = rounded_houses(self._number), next(iter(weights.values()))
        shapes = tuple((name, w.shape[1:]) for name, w in weights.items())
        self._kind = type(template), shapes, like.dtype, houses
        self._own = recordings.kept(self._kind, lambda: _Weights(template, weights, houses))

    def __call__(
        self,
        see: Panorama,
        state: Tensor,
        cell: Tensor,
        language: SharedContext,
        dropout: Dropout,
        gathered: Gathered,
    ) -> Decided:
        """As of ActionDecoder. Where no gradient is wanted nothing is replayed."""
        if not torch.is_grad_enabled():
            decided: Decided = self.launched(see, state, cell, language, dropout, gathered)
            return decided
        assert isinstance(dropout, StackedDropout)
        sight = Given(see, dropout, self._template.dropped)
        return self._replayed(sight, state, cell, language, gathered)[0]

    def turn(self, turn: Turn, at: Walkers, gathered: Gathered) -> tuple[Decided, Acted]:
        """A decision with what is seen before and done after it."""
        decided, done = self._replayed(turn, at.state, at.cell, at.language, gathered)
        return decided, Acted(*done)

    def _replayed(
        self, sight: Sight, state: Tensor, cell: Tensor, language: SharedContext, gathered: Gathered
    ) -> tuple[Decided, list[Tensor]]:
        """Also what the sight makes of the decision."""
        self._own.load(self, self._weights)
        words = self._words(language)
        decision = self._decision(sight, state, words)
        sight.write(decision.inputs)
        given = {"state": state, "cell": cell}
        gates, notes = list[Tensor](), list[tuple[Notes, Notes]]()
        for name, weight in self._weights.items():
            gate, noted = weight, decision.recording.notes(self._own.tensors[name])
            if noted and weight.requires_grad:
                gate, gathers = gathered.gated(weight)
                notes.append((noted, gathers))
            gates.append(gate)
        taken = _Taken(decision, words.of(language), self._number, sight.width, given, notes)
        self._time += 1
        decided = Decided(*replayed(taken, state, cell, language.gate, *gates))
        return decided, [_first(y, len(state)) for y in decision.recording.outputs[len(decided) :]]

    @property
    def dropped(self) -> Sequence[int]:
        """Sizes of what it drops."""
        return self._template.dropped

    @cached_property
    def launched(self) -> nn.Module:
        """The same, of which nothing is replayed."""
        return stacked_decoder(self._template, self._weights)

    def _words(self, language: SharedContext) -> "_Words":
        context = language.context
        rows, width = len(context) // self._number, -(-context.shape[1] // WORDS) * WORDS
        shape = self._kind[-1] * rows, width, context.shape[2]
        key = self._kind, rows, width
        return self._recordings.kept(key, lambda: _Words(context.detach().new_zeros(shape)))

    def _decision(self, sight: Sight, state: Tensor, words: "_Words") -> "_Decision":
        """The recording for this time and these shapes, made where there is none."""
        rows, width, _ = words.context.shape

        def make() -> _Decision:
            inputs = sight.inputs(self._recordings, self._kind[-1], rows, self._time)
            inputs |= {name: state.detach().new_zeros(rows, state.shape[1]) for name in _OWN}
            place = "decision", self._time
            return _Decision(self._own, words, inputs, sight, self._recordings, place)

        key = self._kind, rows, width, sight.key, self._time
        return self._recordings.kept(key, make)


class _Weights(Shared):
    """`module`: a decoder with weights `tensors` [S, ..] that are written anew for every walk."""

    def __init__(self, template: nn.Module, weights: Mapping[str, Tensor], houses: int) -> None:
        self.tensors = {
            name: w.detach().new_zeros(houses, *w.shape[1:]).requires_grad_()
            for name, w in weights.items()
        }
        self.module = stacked_decoder(template, self.tensors)

    @torch.no_grad()
    def load(self, walk: object, weights: Mapping[str, Tensor]) -> None:
        """Of a walk of s houses; others keep what they have."""
        if not self.held_by(walk):
            for name, weight in weights.items():
                self.tensors[name][: len(weight)].copy_(weight)


class _Words(Shared):
    """context [N, L, H], padding [N, L]: what a walk reads while it has so many rows; width: of its own words; notes: where
    it keeps what it has read."""

    def __init__(self, context: Tensor) -> None:
        self.context = context
        self.padding = torch.zeros(context.shape[:2], dtype=torch.bool, device=context.device)

    def of(self, language: SharedContext) -> "_Words":
        """Those of a walk."""
        if not self.held_by(language):
            rows, self.width, _ = language.context.shape
            self.context[:rows, : self.width].copy_(language.context.detach())
            self.padding[:rows].fill_(True)
            self.padding[:rows, : self.width].copy_(language.padding)
            self.notes = language.notes
        return self


class _Decision:
    """One recorded: what goes in by name, each [N, ..], and the recording, whose outputs are those of Decided, and then what
    the sight makes of these."""

    def __init__(
        self,
        weights: _Weights,
        words: _Words,
        inputs: dict[str, Tensor],
        sight: Sight,
        recordings: Recordings,
        place: Hashable,
    ) -> None:
        self.inputs = inputs
        state, cell = (inputs[name].requires_grad_() for name in _OWN)
        gate = words.context.new_zeros((), requires_grad=True)
        self.language = SharedContext.noting(words.context, words.padding, gate)

        def decide(gathered: Gathered) -> Sequence[Tensor]:
            see, dropout = sight.see(inputs)
            decided: Decided = weights.module(see, state, cell, self.language, dropout, gathered)
            return [*decided, *sight.act(inputs, decided.logits.detach(), dropout)]

        wanted = [state, cell, gate, *weights.tensors.values()]
        noted = [self.language.notes]
        self.recording = Recording(decide, wanted, recordings, place, noted)


@dataclass
class _Taken:
    """A decision of a walk of s `houses`, of which the busiest row sees `candidates`. notes: those recorded of a weight, and
    where the walk gathers its own."""

    decision: _Decision
    words: _Words
    houses: int
    candidates: int
    given: dict[str, Tensor]
    notes: list[tuple[Notes, Notes]]

    def forward(self) -> tuple[Tensor, ...]:
        self.rows = len(self.given["state"])
        places = [self.decision.inputs[name].detach()[: self.rows] for name in self.given]
        torch._foreach_copy_(places, [x.detach() for x in self.given.values()])
        self.given = {}
        self.walk = self.decision.recording.forward()
        decided = Decided(*self.decision.recording.outputs[: len(Decided._fields)])
        logits, *others = (y[: self.rows].detach() for y in decided)
        return logits[:, : 1 + self.candidates], *others

    def backward(self, slopes: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Of state, cell, the language's gate and every weight."""
        own = self.decision.recording
        own.backward(self.walk, slopes, lambda place, dy: place[: self.rows, : dy.shape[1]])
        read = self.decision.language.notes
        width = self.words.width
        self.words.notes.extend(
            (w[: self.rows, :width], ds[: self.rows, :width], dm[: self.rows], q[: self.rows])
            for w, ds, dm, q in read
        )
        state, cell, _, *weights = own.gradients
        for noted, gathers in self.notes:
            gathers.extend((_first(dy, self.houses), _first(x, self.houses)) for dy, x in noted)
        back = [None if x is None else _first(x, self.rows) for x in (state, cell)]
        return [*back, None, *(None if w is None else _first(w, self.houses) for w in weights)]


def _first(x: Tensor, number: int) -> Tensor:
    """x[:number]; a part that is all of it takes as long to make as any."""
    return x if len(x) == number else x[:number]
