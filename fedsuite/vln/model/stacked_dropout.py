"""Random numbers of several houses side by side: dropout and sampled actions, drawn by the streams of each.

A house draws into a row of its own; where the numbers of a batch's rows are in there its StackedBatch knows.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from fedsuite.vln.model.dropout import Drop, Dropout, multiply, scaled
from fedsuite.vln.model.stacked_batch import Draws, StackedBatch, room


class StackedDropout(Dropout):
    """Draws by the streams of every house; `own`: their dropouts, of the same rates."""

    def __init__(self, own: Sequence[Dropout], batch: StackedBatch) -> None:
        super().__init__(own[0].p, own[0].feature_p, own[0].generator)
        self.own, self.batch = own, batch

    def __call__(self, x: Tensor) -> Tensor:
        """x [N, H']."""
        if self.generator is None or self.p == 0:
            return x
        return x * self._mask(self.batch.one_each, x.shape[1], self.p)

    def features(self, x: Tensor, count: Tensor | None = None) -> Tensor:
        """x [N, K, F]; without count all K are there."""
        if self.generator is None or self.feature_p == 0:
            return x
        if count is None:
            size = x.shape[1] * x.shape[2]
            return x.mul_(self._mask(self.batch.one_each, size, self.feature_p).view_as(x))
        draws = self.batch.draws(self.batch.widest(count), x.shape[1])
        return x.mul_(self._mask(draws, x.shape[2], self.feature_p).view_as(x))

    def panorama(self, views: Tensor, candidate: Tensor, count: Tensor) -> None:
        """Of views [N, V, F] and candidate [N, K, F]."""
        number, width = views.shape[1:]
        if width % 8:  # a house draws whole words for either
            self.features(views)
            self.features(candidate, count)
        elif self.generator is not None and self.feature_p > 0:
            draws = self.batch.draws(self.batch.see(count), candidate.shape[1], number)
            multiply((views, candidate), self._mask(draws, width, self.feature_p))

    def several(self, rows: int, sizes: Sequence[int]) -> list[Drop]:
        """For x [N, size]."""
        mask = self.masks(rows, sizes)
        if mask is None:
            return super().several(rows, sizes)
        return [partial(torch.mul, own) for own in mask.split(list(sizes), 1)]

    def masks(self, rows: int, sizes: Sequence[int]) -> Tensor | None:
        """What these multiply by, side by side [N, sum of sizes]; None where nothing is dropped."""
        if not self.drops_states:
            return None
        draws, piece = self.batch.several(sizes)
        return self._mask(draws, piece, self.p).view(rows, -1)

    def words(self, x: Tensor, counts: Sequence[int], place: Tensor) -> Tensor:
        """x [M, H'], so many rows of every house, house by house; place [M]: of each among its house's, and before them as
        many for each house as the largest has."""
        if self.generator is None or self.p == 0:
            return x
        return x * self._mask((list(counts), room(counts), place), x.shape[1], self.p)

    def context(self, x: Tensor, widths: Tensor) -> Tensor:
        """x [N, L, H'], of which a house has the first widths [S] columns."""
        if self.generator is None or self.p == 0:
            return x
        draws = self.batch.draws((widths.tolist(), widths), x.shape[1])
        return x * self._mask(draws, x.shape[2], self.p).view_as(x)

    def draw(self, words: Tensor, counts: Sequence[int]) -> None:
        """So many random words of every house, each into the first of its row of `words`."""
        for one, count, dropout in zip(words, counts, self.own, strict=False):
            if count:
                one[:count].random_(-(2**63), None, generator=dropout.generator)

    def _mask(self, draws: Draws, size: int, p: float) -> Tensor:
        """0 or 1 / (1 - p), so many [.., size] for each of the draws, drawn by every house as `keep_mask` draws."""
        counts, each, place = draws
        words = torch.empty(len(counts), each * size // 8, dtype=torch.int64, device=place.device)
        self.draw(words, [-(count * size // -8) for count in counts])
        drawn = words.view(torch.uint8).view(-1, size).index_select(0, place)
        return scaled(drawn, p)


def sample_stacked(
    logits: Tensor, batch: StackedBatch, generators: Sequence[torch.Generator]
) -> Tensor:
    """One draw per row from softmax(logits [N, 1 + K]), by the house's generator as torch.multinomial draws: the largest of
    p / q, q exponentially distributed."""
    chance, seen = torch.softmax(logits, 1), batch.seen()
    if seen is None:  # a candidate and stop are the least
        seen = batch.widest((logits > float("-inf")).sum(1) - 1)
    widths = [n + 1 for n in seen[0]], seen[1] + 1
    counts, each, place = batch.draws(widths, logits.shape[1])
    drawn = chance.new_ones(len(counts), each)
    draw_exponential(drawn, counts, generators)
    return (chance / drawn.view(-1).index_select(0, place).view_as(chance)).argmax(1)


def draw_exponential(
    numbers: Tensor, counts: Sequence[int], generators: Sequence[torch.Generator]
) -> None:
    """So many of every house, each into the first of its row of `numbers`."""
    for one, count, generator in zip(numbers, counts, generators, strict=False):
        if count:
            one[:count].exponential_(1, generator=generator)


class StackedPolicy:
    """The teacher's action where `forced` [S B], by the rows that episodes began in, and elsewhere one draw of the house's
    generator; without generators the teacher's everywhere."""

    def __init__(
        self,
        forced: Tensor,
        batch: StackedBatch,
        generators: Sequence[torch.Generator] | None = None,
    ) -> None:
        self.forced, self.batch, self.generators = forced, batch, generators

    def __call__(self, logits: Tensor, teacher: Tensor, row: Tensor) -> Tensor:
        """Actions [b] of these rows [b]."""
        if self.generators is None:
            return teacher
        drawn = sample_stacked(logits, self.batch, self.generators)
        return torch.where(self.forces(row), teacher, drawn)

    def forces(self, row: Tensor) -> Tensor:
        """`forced` of these rows [b]."""
        return self.forced.index_select(0, row)
