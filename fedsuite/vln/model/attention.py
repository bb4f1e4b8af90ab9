"""Soft dot attention over an instruction that is read at every decision, with its gradient gathered once.

  s = C q (padding -> -inf),  w = softmax(s),  m = w C       C [B, L, H], q [B, H], w [B, L], m [B, H]

An episode reads the same context C at each of its T decisions. Plain back-propagation writes a [B, L, H] gradient two times
per decision and adds them up. Here every decision notes w, q and the gradients of m and s, and one product at the end gives

  dC = sum_t  w_t (x) dm_t + ds_t (x) q_t  =  [W | DS] [DM ; Q]     [B, L, 2T] x [B, 2T, H]

which is the same sum in another order and a fraction of the memory traffic. Readers of some rows only, and of the
columns that are not padding in them, note their part of dC in the same way.

Products of a batch of matrices with a vector each are written vector first, q^T C^T: C q takes ten times as long on a CPU.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

Note = tuple[Tensor, Tensor, Tensor, Tensor]  # w, ds [b, l]; dm, q [b, H]


@dataclass
class _Readers:
    """Who reads one context: rows [b] of it and the notes, by reader. gate: None if no gradient is wanted."""

    gate: Tensor | None = None
    notes: list[tuple[Tensor, list[Note]]] = field(default_factory=list)


class SharedContext:
    """A context [B, L, H] with its padding mask [B, L] (True = padding), read many times."""

    def __init__(
        self,
        context: Tensor,
        padding: Tensor,
        row: Tensor | None = None,
        readers: _Readers | None = None,
    ) -> None:
        """row, readers: for a part of another context, see `rows`."""
        self.context, self.padding = context, padding
        self._row = torch.arange(len(context), device=context.device) if row is None else row
        self._readers = _Readers() if readers is None else readers
        if readers is None and context.requires_grad:
            self._readers.gate = _Gate.apply(context, self._readers.notes)
        self.notes: list[Note] = []
        self._readers.notes.append((self._row, self.notes))

    @classmethod
    def noting(cls, context: Tensor, padding: Tensor, gate: Tensor) -> "SharedContext":
        """One of which notes are kept, for others to make a gradient of; gate: a leaf."""
        row = torch.arange(len(context), device=context.device)
        return cls(context, padding, row, _Readers(gate))

    def read(self, query: Tensor) -> Tensor:
        """m [B, H] for query [B, H]."""
        mixed: Tensor = _Read.apply(
            query, self._readers.gate, self.context.detach(), self.padding, self.notes
        )
        return mixed

    @property
    def gate(self) -> Tensor | None:
        """By which the gradient of what was read goes to the context; None if none is wanted."""
        return self._readers.gate

    def rows(self, index: Tensor) -> "SharedContext":
        """The same for a subset of the batch, as wide as its longest instruction; to be read only."""
        padding = self.padding.index_select(0, index)
        width = int((~padding).any(0).nonzero().max()) + 1
        part = self.context.detach()[:, :width].index_select(0, index)
        return SharedContext(
            part, padding[:, :width], self._row.index_select(0, index), self._readers
        )


class SoftDotAttention(nn.Module):
    """score_n = context_n . (W_in q). `dead` adds the output layer that the official code creates and never trains."""

    def __init__(self, query: int, context: int, output: bool, dead: bool = False) -> None:
        super().__init__()
        self.query = nn.Linear(query, context, bias=False)
        if output or dead:
            self.output = nn.Linear(context + query, query, bias=False)


def dot_scores(query: Tensor, visual: Tensor, angle: Tensor) -> Tensor:
    """query [B, F'] against rows of visual [B, N, F] and, repeated up to width A, angle [B, N, 4] -> [B, N]."""
    width = visual.shape[2]
    on_visual, on_angle = query.split([width, query.shape[1] - width], 1)
    return _dots(on_visual, visual) + _dots(on_angle.unflatten(1, (-1, 4)).sum(1), angle)


def _dots(query: Tensor, context: Tensor) -> Tensor:
    """query [B, H], context [B, N, H] -> [B, N]."""
    return torch.bmm(query.unsqueeze(1), context.mT).squeeze(1)


class _Gate(torch.autograd.Function):
    """The context as readers ask for it: its backward, run after all of theirs, turns their notes into the gradient."""

    @staticmethod
    def forward(ctx: Any, context: Tensor, notes: list[tuple[Tensor, list[Note]]]) -> Tensor:
        ctx.notes, ctx.shape = notes, context.shape
        return context.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, like: Tensor) -> tuple[Tensor, None]:
        known = [notes[0][2] for _, notes in ctx.notes if notes]
        # Of the notes' own kind: with several gradients at once (vmap) they have an axis that `like` has not.
        gradient = (known[0] if known else like).new_zeros(ctx.shape)
        for row, notes in ctx.notes:
            if notes:
                weights, scores, mixed, query = zip(*notes, strict=True)
                part = torch.bmm(
                    torch.stack([*weights, *scores], 1).mT, torch.stack([*mixed, *query], 1)
                )
                gradient[:, : part.shape[1]].index_add_(0, row, part)
                notes.clear()
        return gradient, None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        gate: Tensor | None,
        context: Tensor,
        padding: Tensor,
        notes: list[Note],
    ) -> Tensor:
        scores = _dots(query, context)
        weights = torch.softmax(scores.masked_fill_(padding, float("-inf")), 1)
        ctx.save_for_backward(query, context, weights)
        ctx.notes = notes
        return torch.bmm(weights.unsqueeze(1), context).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_mixed: Tensor) -> tuple[Tensor | None, ...]:
        query, context, weights = ctx.saved_tensors
        d_weights = _dots(d_mixed, context)
        d_scores = weights * (d_weights - (d_weights * weights).sum(1, keepdim=True))
        if ctx.needs_input_grad[1]:
            ctx.notes.append((weights, d_scores, d_mixed, query))
        d_query = torch.bmm(d_scores.unsqueeze(1), context).squeeze(1)
        return d_query, None, None, None, None
