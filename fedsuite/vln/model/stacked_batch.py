"""Rows of several houses in one batch, and which random numbers of each house are whose.

Rows of a stacked batch stand house by house, B for each of S: N = S B. Every house draws what it would draw alone, in the
same order (stacked_dropout.py): for the rows that would still be in its batch, as wide as its own candidates ask.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from math import gcd

import numpy as np
import torch
from torch import Tensor

from fedsuite.vln.model.rows import Batch, Chosen

# How many draws each of S houses makes; room for them, [S, room]; which of all S x room are whose, row by row.
Rounded = Callable[[int], int]  # to at least as many
Draws = tuple[list[int], int, Tensor]
Widths = tuple[list[int], Tensor]  # of every house [S], twice


class StackedBatch(Batch):
    """present [N]: rows that would be in their house's batch if it were alone; counts: how many of each house; rows: B at
    first."""

    def __init__(
        self, sizes: Sequence[int], device: torch.device, rounded: Rounded | None = None
    ) -> None:
        """sizes: episodes of every house, which are the first of its B = max(sizes) rows; rounded: what rounds B up, which
        gets smaller only when that does."""
        self.rows, self._rounded = rounded(max(sizes)) if rounded else max(sizes), rounded
        self._number = torch.arange(len(sizes), device=device).unsqueeze(1)
        slot = torch.arange(self.rows, device=device)
        present = slot < torch.tensor(sizes, device=device).unsqueeze(1)
        self._set(present.flatten(), list(sizes))

    def _set(self, present: Tensor, counts: list[int]) -> None:
        self.present, self.counts = present, counts
        self._one_each: Draws | None = None
        self._several: dict[tuple[int, ...], tuple[Draws, int]] = {}
        self._place: Tensor | None = None
        self._seen: Widths | None = None
        self._number_present: Tensor | None = None

    @property
    def houses(self) -> int:
        """S."""
        return len(self.counts)

    def by_house(self, x: Tensor) -> Tensor:
        """[N, ..] -> [S, B, ..]."""
        return x.unflatten(0, (self.houses, -1))

    def begin(self, rows: int, device: torch.device) -> Tensor:
        """The rows that are episodes."""
        return self.present

    @contextmanager
    def ending(self, cut: Tensor) -> Iterator[Chosen]:
        """Present are those that are cut off, alone."""
        before = self.present, self.counts
        self._set(cut, self.by_house(cut).sum(1).tolist())
        some = self._first(max(self.counts))
        self._set(some.of(cut), self.counts)
        yield some
        self._set(*before)

    def staying(self, active: Tensor) -> Chosen | None:
        """Every house's rows leave when they would if it were alone; all houses' get fewer when the longest batch has."""
        left = self.by_house(active).sum(1).tolist()
        fewer = [4 * own <= 3 * now for own, now in zip(left, self.counts, strict=True)]
        if not any(fewer):
            return None
        shrinks = torch.tensor(fewer, device=active.device).unsqueeze(1)
        present = self.by_house(self.present)
        counts = [a if f else c for a, f, c in zip(left, fewer, self.counts, strict=True)]
        self._set(torch.where(shrinks, self.by_house(active), present).flatten(), counts)
        longest, now = max(self.counts), len(active) // self.houses
        if self._rounded is not None:
            longest = self._rounded(longest) if longest else 0
        if longest == now or (self._rounded is None and 4 * longest > 3 * now):
            return None
        staying = self._first(longest)
        self._set(staying.of(self.present), counts)
        return staying

    def _first(self, longest: int) -> Chosen:
        """So many rows of each house: those present, in their order, then others."""
        order = self.by_house(~self.present).to(torch.uint8).argsort(dim=1, stable=True)
        index = (order[:, :longest] + self._number * order.shape[1]).flatten()
        mask = torch.zeros_like(self.present).index_fill_(0, index, True)
        return Chosen(mask, index)

    @property
    def one_each(self) -> Draws:
        """`draws` of one for each row."""
        if self._one_each is None:
            each = room(self.counts)
            self._one_each = self.counts, each, (self._number * each + self._among).flatten()
        return self._one_each

    @property
    def _among(self) -> Tensor:
        """Of every row its place among those present of its house [S, B]; of others another's."""
        if self._place is None:
            self._place = (self.by_house(self.present).cumsum(1) - 1).clamp_(min=0)
        return self._place

    def draws(self, widths: Widths, widest: int, before: int = 0) -> Draws:
        """So many draws [S] of a house for each present row, and of every row [N widest] which of them are its; what is
        not there gets another's. before: as many for each row, [N before], which a house draws ahead of these."""
        listed, own = widths
        counts = [n * (before + w) for n, w in zip(self.counts, listed, strict=True)]
        each, width = room(counts), own.unsqueeze(1)
        begin = self._number * each
        if not before:
            return counts, each, places_of(begin, self._among, width, widest).flatten()
        present = self.number_present.unsqueeze(1)
        return counts, each, places_after(begin, self._among, before, present, width, widest)

    @property
    def number_present(self) -> Tensor:
        """`counts` [S] where the rows are."""
        if self._number_present is None:
            self._number_present = self.by_house(self.present).sum(1)
        return self._number_present

    def several(self, sizes: Sequence[int]) -> tuple[Draws, int]:
        """For each present row some bytes of every size, of which a house draws those of the first size for all of its rows,
        in whole words, then those of the second, and so on; `draws` are of pieces of so many bytes, a row's those of all
        its sizes in turn."""
        key = tuple(sizes)
        if key not in self._several:
            piece, which, inside, width = pieces(key)
            own = np.array(self.counts)[:, None] * np.array(sizes)
            own = -(own // -8) * 8 // piece
            totals = own.sum(1)
            each = max(int(totals.max()), 8)
            first = (own.cumsum(1) - own)[:, which] + inside
            first += np.arange(0, len(own) * each, each)[:, None]
            table = torch.from_numpy(np.concatenate([first, width])).to(self.present.device)
            place = table[:-1].unsqueeze(1) + self._among.unsqueeze(2) * table[-1]
            self._several[key] = (totals.tolist(), each, place.flatten()), piece
        return self._several[key]

    def widest(self, count: Tensor) -> Widths:
        """The largest count [N] of each house's present rows, at least 1."""
        most = self.by_house(count * self.present).amax(1).clamp_(min=1)
        return most.tolist(), most

    def see(self, count: Tensor) -> Widths:
        """The same, of the candidates that these rows see now."""
        self._seen = self.widest(count)
        return self._seen

    def seen(self) -> Widths | None:
        """What `see` has found; None if it was not asked since this was."""
        seen, self._seen = self._seen, None
        return seen


def places_of(begin: Tensor, among: Tensor, width: Tensor, widest: int) -> Tensor:
    """[S, B, widest]: draws of row `among` [S, B] of a house with `width` [S, 1] for each, from `begin` [S, 1] on; behind
    its width the last again."""
    column = torch.minimum(torch.arange(widest, device=width.device), width - 1)
    return (begin + among * width).unsqueeze(2) + column.unsqueeze(1)


def places_after(
    begin: Tensor, among: Tensor, before: int, present: Tensor, width: Tensor, widest: int
) -> Tensor:
    """[N (before + widest)]: so many draws for each row, of which a house with `present` [S, 1] rows draws all first, and
    behind those of all rows `places_of` that come after them."""
    ahead = places_of(begin, among, torch.full_like(present, before), before)
    after = places_of(begin + before * present, among, width, widest)
    return torch.cat([ahead.flatten(), after.flatten()])


@cache
def pieces(sizes: tuple[int, ...]) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """How many bytes a piece has. Of a row's pieces [W]: which size each is of, its number there, how many there are."""
    piece = gcd(*sizes) if all(size % 8 == 0 for size in sizes) else 1
    width = np.array(sizes) // piece
    which = np.arange(len(sizes)).repeat(width)
    inside = np.arange(len(which)) - (width.cumsum() - width)[which]
    return piece, which, inside, width[which][None]


def room(counts: Sequence[int]) -> int:
    """For the draws of every house, in whole words of 8 bytes."""
    return max(-max(counts) // 8 * -8, 8)
