"""Rows of a batch that a mask chooses, with a gradient that needs no sums; and who leaves a batch of walks.

  y = x[mask]      x [B, ..], mask [B], y [m, ..];      dx_b = dy_(number of chosen rows up to b, less 1), 0 if not chosen

torch's own gradient of an index adds up, in case a row was taken twice. On a GPU that repeats itself this is a sort and some
twenty kernels; here no row is taken twice.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Chosen:
    """mask [B] bool; index [m]: the rows where it is True, each once, by default in their order; place [B]: see below."""

    def __init__(
        self, mask: Tensor, index: Tensor | None = None, place: Tensor | None = None
    ) -> None:
        self.mask = mask
        self.index = mask.nonzero().squeeze(1) if index is None else index
        self._place = place
        if index is not None and place is None:
            self._place = torch.zeros(len(mask), dtype=torch.int64, device=mask.device)
            self._place[index] = torch.arange(len(index), device=mask.device)

    @classmethod
    def at(cls, index: Tensor, rows: int, device: torch.device) -> "Chosen":
        """index [m] of so many rows; all is worked out on the CPU, where it lies, and moved."""
        return chosen_at([(index.numpy(), rows)], device)[0]

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

    def put_back(self, y: Tensor) -> Tensor:
        """y [m, ..] -> [B, ..], zero where no row is chosen."""
        every: Tensor = _PutBack.apply(y, self)
        return every


def chosen_at(found: Sequence[tuple[np.ndarray, int]], device: torch.device) -> list[Chosen]:
    """For each index [m] and number of rows; worked out on the CPU, and moved at once."""
    places = [np.zeros(rows, np.int64) for _, rows in found]
    masks = [np.zeros(rows, bool) for _, rows in found]
    for (index, _), place, mask in zip(found, places, masks, strict=True):
        place[index], mask[index] = np.arange(len(index)), True
    numbers = torch.from_numpy(np.concatenate([*(index for index, _ in found), *places]))
    each = numbers.to(device).split([*(len(index) for index, _ in found), *map(len, places)])
    marks = torch.from_numpy(np.concatenate(masks)).to(device).split([*map(len, masks)])
    count = len(found)
    return [Chosen(*one) for one in zip(marks, each[:count], each[count:], strict=True)]


class _Of(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, chosen: Chosen) -> Tensor:
        ctx.chosen = chosen
        return x.index_select(0, chosen.index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _put_back(gradient, ctx.chosen), None


class _PutBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, chosen: Chosen) -> Tensor:
        ctx.chosen = chosen
        return _put_back(y, chosen)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.index_select(0, ctx.chosen.index), None


def _put_back(y: Tensor, chosen: Chosen) -> Tensor:
    mask = chosen.mask.view(-1, *[1] * (y.dim() - 1))
    return torch.where(mask, y.index_select(0, chosen.place), 0.0)


def joined_rows(parts: Sequence[Tensor], fill: float) -> Tensor:
    """Rows of different width, [b_t, K_t] each -> [sum b_t, max K_t], with `fill` behind the narrower ones."""
    rows: Tensor = _Joined.apply(fill, *parts)
    return rows


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, fill: float, *parts: Tensor) -> Tensor:
        ctx.shapes = [part.shape for part in parts]
        sizes, widest = [len(part) for part in parts], max(part.shape[1] for part in parts)
        out = parts[0].new_full((sum(sizes), widest), fill)
        for rows, part in zip(out.split(sizes), parts, strict=True):
            rows[:, : part.shape[1]] = part
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows = gradient.split([shape[0] for shape in ctx.shapes])
        return None, *(own[:, : shape[1]] for own, shape in zip(rows, ctx.shapes, strict=True))


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
