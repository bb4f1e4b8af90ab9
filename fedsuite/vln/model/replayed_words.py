"""The LSTM over the words of S houses (stacked_words.py), eight positions at a time, by replaying (recording.py).

Numbers of rows are rounded up, so that few recordings serve all sentences: a piece of eight positions has as many rows P at
each of them, a power of two, and the next piece goes on with the first P' of them. The two directions of all houses stand in
2 S parts of a recording, house by house for each direction.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from fedsuite.vln.model.gathered import Gathered, Notes
from fedsuite.vln.model.lstm import Update, recurrent
from fedsuite.vln.model.recording import (
    Recording,
    Recordings,
    Shared,
    replayed,
    rounded_houses,
    rounded_rows,
)

POSITIONS = 8


def rounded_sizes(sizes: Tensor) -> Tensor:
    """Rows at each position [T], never more than before -> [T'], T' the next multiple of eight, for none fewer rows."""
    each = [rounded_rows(n) for n in sizes[::POSITIONS].tolist()]
    return torch.tensor(each).repeat_interleave(POSITIONS)


def recurrent_replayed(
    inputs: Tensor,
    w_hh: Tensor,
    sizes: Sequence[int],
    gathered: Gathered,
    update: Update,
    recordings: Recordings,
) -> tuple[list[Tensor], list[Tensor]]:
    """As `recurrent`: inputs [2 s, N, 4H], w_hh [2 s, 4H, H] of s houses, sizes as `rounded_sizes` gives them. Hidden states
    and cells [2 s, 8 P, H] of every piece."""
    houses = rounded_houses(len(w_hh) // 2)
    kind = "words", houses, w_hh.shape[1:], w_hh.dtype
    weight = recordings.kept(kind, partial(_Weight, w_hh.detach(), houses))
    weight.load(w_hh.detach())
    gate, notes = gathered.gated(w_hh) if w_hh.requires_grad else (w_hh, None)
    outputs, cells = list[Tensor](), list[Tensor]()
    state = cell = inputs.new_zeros(len(inputs), sizes[0], w_hh.shape[2])
    begin = 0
    for number, rows in enumerate(sizes[::POSITIONS]):
        end = begin + POSITIONS * rows
        make = partial(_Piece, weight, rows, recordings, ("words", number), update)
        piece = recordings.kept((kind, number, rows), make)
        given = inputs[:, begin:end], state[:, :rows], cell[:, :rows]
        found = replayed(_Taken(piece, given, notes), *given, gate)
        outputs.append(found[0])
        cells.append(found[1])
        state, cell = (x[:, -rows:] for x in found)
        begin = end
    return outputs, cells


class _Weight(Shared):
    """[2 S, 4H, H] of all sentences."""

    def __init__(self, like: Tensor, houses: int) -> None:
        self.tensor = like.new_zeros(2 * houses, *like.shape[1:]).requires_grad_()

    def load(self, weight: Tensor) -> None:
        """Of s houses [2 s, 4H, H]; others keep what they have."""
        if not self.held_by(weight):
            _part(self.tensor.detach(), len(weight)).copy_(weight.unflatten(0, (2, -1)))


class _Piece:
    """One recorded: what goes in, [2 S, 8 P, 4H] and twice [2 S, P, H], and the recording."""

    def __init__(
        self, own: _Weight, rows: int, recordings: Recordings, place: Hashable, update: Update
    ) -> None:
        self.weight = weight = own.tensor
        hidden, like = weight.shape[2], weight.detach()
        shapes = (POSITIONS * rows, 4 * hidden), (rows, hidden), (rows, hidden)
        self.inputs = [like.new_zeros(len(weight), *s).requires_grad_() for s in shapes]
        words, state, cell = self.inputs

        def read(gathered: Gathered) -> list[Tensor]:
            sizes = [rows] * POSITIONS
            outputs, cells, _ = recurrent(words, weight, sizes, gathered, update, (state, cell))
            return [torch.cat(outputs, 1), torch.cat(cells, 1)]

        self.recording = Recording(read, [*self.inputs, weight], recordings, place)


@dataclass
class _Taken:
    """A piece of the sentences of s houses; given: its words, state and cell, 2 s parts; notes: where those of the weight
    are gathered, if they are."""

    piece: _Piece
    given: Sequence[Tensor]
    notes: Notes | None

    def forward(self) -> tuple[Tensor, ...]:
        self.parts = len(self.given[0])
        for into, x in zip(self.piece.inputs, self.given, strict=True):
            _part(into.detach(), self.parts).copy_(x.detach().unflatten(0, (2, -1)))
        self.given = ()
        self.walk = self.piece.recording.forward()
        return tuple(_own(y, self.parts).detach() for y in self.piece.recording.outputs)

    def backward(self, slopes: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Of words, state, cell and the weight's gate."""
        own = self.piece.recording
        own.backward(self.walk, slopes, lambda place, _: _part(place, self.parts))
        if self.notes is not None:
            noted = own.notes(self.piece.weight)
            self.notes.extend((_own(dy, self.parts), _own(x, self.parts)) for dy, x in noted)
        return [*(None if x is None else _own(x, self.parts) for x in own.gradients[:3]), None]


def _part(x: Tensor, parts: int) -> Tensor:
    """Those of the first houses: of [2 S, ..] a view [2, s, ..]."""
    return x.unflatten(0, (2, -1))[:, : parts // 2]


def _own(x: Tensor, parts: int) -> Tensor:
    """[2 S, ..] -> [2 s, ..]."""
    return x if len(x) == parts else _part(x, parts).flatten(0, 1)
