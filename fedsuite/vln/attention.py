"""Soft dot attention over an instruction that is read at every decision, with its gradient gathered once.

  s = C q (padding -> -inf),  w = softmax(s),  m = w C       C [B, L, H], q [B, H], w [B, L], m [B, H]

An episode reads the same context C at each of its T decisions. Plain back-propagation writes a [B, L, H] gradient two times
per decision and adds them up. Here every decision notes w, q and the gradients of m and s, and one product at the end gives

  dC = sum_t  w_t (x) dm_t + ds_t (x) q_t  =  [W | DS] [DM ; Q]     [B, L, 2T] x [B, 2T, H]

which is the same sum in another order and a fraction of the memory traffic.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Note = tuple[Tensor, Tensor, Tensor, Tensor]  # w, ds [B, L]; dm, q [B, H]


class SharedContext:
    """A context [B, L, H] with its padding mask [B, L] (True = padding), read many times."""

    def __init__(self, context: Tensor, padding: Tensor) -> None:
        self._notes: list[Note] = []
        self.source, self.padding = context, padding
        self._gated: Tensor = (
            _Gate.apply(context, self._notes) if context.requires_grad else context
        )

    def read(self, query: Tensor) -> Tensor:
        """m [B, H] for query [B, H]."""
        mixed: Tensor = _Read.apply(query, self._gated, self.padding, self._notes)
        return mixed

    def rows(self, index: Tensor) -> "SharedContext":
        """The same for a subset of the batch."""
        return SharedContext(
            self._gated.index_select(0, index), self.padding.index_select(0, index)
        )


class _Gate(torch.autograd.Function):
    """Identity whose backward, run after those of all readers, turns their notes into the gradient."""

    @staticmethod
    def forward(ctx: Any, context: Tensor, notes: list[Note]) -> Tensor:
        ctx.notes = notes
        ctx.set_materialize_grads(False)
        return context.view_as(context)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, direct: Tensor | None) -> tuple[Tensor | None, None]:
        if not ctx.notes:
            return direct, None
        weights, scores, mixed, query = zip(*ctx.notes, strict=True)
        gradient = torch.bmm(torch.stack([*weights, *scores], 2), torch.stack([*mixed, *query], 1))
        ctx.notes.clear()
        return gradient if direct is None else gradient + direct, None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, context: Tensor, padding: Tensor, notes: list[Note]
    ) -> Tensor:
        scores = torch.bmm(context, query.unsqueeze(2)).squeeze(2)
        weights = torch.softmax(scores.masked_fill_(padding, float("-inf")), 1)
        ctx.save_for_backward(query, context, weights)
        ctx.notes = notes
        return torch.bmm(weights.unsqueeze(1), context).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_mixed: Tensor) -> tuple[Tensor, None, None, None]:
        query, context, weights = ctx.saved_tensors
        d_weights = torch.bmm(context, d_mixed.unsqueeze(2)).squeeze(2)
        d_scores = weights * (d_weights - (d_weights * weights).sum(1, keepdim=True))
        if ctx.needs_input_grad[1]:
            ctx.notes.append((weights, d_scores, d_mixed, query))
        return torch.bmm(d_scores.unsqueeze(1), context).squeeze(1), None, None, None
