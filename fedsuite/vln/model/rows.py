"""Rows of a batch that a mask chooses, with a gradient that needs no sums; and who leaves a batch of walks.

  y = x[mask]      x [B, ..], mask [B], y [m, ..];      dx_b = dy_(number of chosen rows up to b, less 1), 0 if not chosen

torch's own gradient of an index adds up, in case a row was taken twice. On a GPU that repeats itself this is a sort and some
twenty kernels; here no row is taken twice.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Chosen:
    """mask [B] bool; index [m]: the rows where it is True, each once, by default in their order."""

    def __init__(self, mask: Tensor, index: Tensor | None = None) -> None:
        self.mask = mask
        self.index = mask.nonzero().squeeze(1) if index is None else index
        self._place: Tensor | None = None
        if index is not None:
            self._place = torch.zeros(len(mask), dtype=torch.int64, device=mask.device)
            self._place[index] = torch.arange(len(index), device=mask.device)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def place(self) -> Tensor:
        """Of each of the B rows among the chosen [B]; 0 or more where it is not chosen."""
        if self._place is None:
            self._place = (self.mask.cumsum(0) - 1).clamp_(min=0)
        return self._place

    def of(self, x: Tensor) -> Tensor:
        """x [B, ..] -> [m, ..]."""
        if not x.requires_grad:
            return x.index_select(0, self.index)
        rows: Tensor = _Of.apply(x, self)
        return rows


class _Of(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, chosen: Chosen) -> Tensor:
        ctx.chosen = chosen
        return x.index_select(0, chosen.index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        chosen: Chosen = ctx.chosen
        mask = chosen.mask.view(-1, *[1] * (gradient.dim() - 1))
        return torch.where(mask, gradient.index_select(0, chosen.place), 0.0), None


class Batch:
    """The rows of a batch of walks: finished ones leave it as soon as a quarter of it is done."""

    def begin(self, rows: int, device: torch.device) -> Tensor:
        """Who walks [rows], bool."""
        return torch.ones(rows, dtype=torch.bool, device=device)

    @contextmanager
    def ending(self, cut: Tensor) -> Iterator[Chosen]:
        """For one more look of those that are cut off [B], and no others: rows among which they are."""
        yield Chosen(cut)

    def staying(self, active: Tensor) -> Chosen | None:
        """The rows to go on with, none if all are done; None: go on with all. active [B]: who still walks."""
        left = Chosen(active)
        return left if 4 * len(left) <= 3 * len(active) else None
