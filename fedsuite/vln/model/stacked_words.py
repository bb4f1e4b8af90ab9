"""The language encoders of S houses side by side: one loop over all words, every house's sentences by its own weights.

Sentences of a house are sorted by their length and packed as alone (lstm.py), except that every position has as many rows
as the house with most has there: T positions of P rows in all. Where a house has fewer, a row goes on behind the end of its
sentence; nothing reads what comes of it. Every house draws the dropout that it draws alone.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding

from fedsuite.vln.data.instructions import PAD
from fedsuite.vln.model.agent import NEGATIVE, LanguageEncoder
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.model.gathered import Gathered
from fedsuite.vln.model.lstm import fused_update, recurrent, summed_update
from fedsuite.vln.model.products import stacked
from fedsuite.vln.model.recording import Recordings
from fedsuite.vln.model.replayed_words import recurrent_replayed, rounded_sizes
from fedsuite.vln.model.rows import chosen_at
from fedsuite.vln.model.stacked_batch import room
from fedsuite.vln.model.stacked_dropout import StackedDropout


class StackedPacking:
    """Where the M words of S houses are, house by house as each packs them.

    sizes [T]: rows at each position; counts [S]: words of each house; words: of the S B L places of their sentences; ahead
    and mirrored: of the S P rows that are run through, with sentences as they are or from their ends; house [M]; place [M]:
    among as many for each house as the largest has; ends: of the S P rows the last of every sentence; rows: of the N = S B
    sentences those that are there; widths [S]: longest sentences.
    """

    def __init__(
        self, length: Tensor, width: int, device: torch.device, rounded: bool = False
    ) -> None:
        """length [S, B] on the CPU, 0 behind the sentences of a house that has fewer than B; width: L; rounded: to the sizes
        of recordings (replayed_words.py)."""
        long, (houses, rows) = length.numpy(), length.shape
        order = np.tile(np.arange(rows), (houses, 1))
        for own, given in zip(order, length, strict=True):
            # By the sort of Packing, which decides the order of equally long ones.
            number = int(given.count_nonzero())
            own[:number] = torch.sort(given[:number], descending=True).indices.numpy()
        longest = np.take_along_axis(long, order, 1)
        there = longest[:, None] > np.arange(longest.max())[:, None]
        sizes = torch.from_numpy(there.sum(2).max(0))
        most = rounded_sizes(sizes) if rounded else sizes
        self.sizes, self.counts = most.tolist(), there.sum((1, 2)).tolist()
        first, total = (most.cumsum(0) - most).numpy(), sum(self.sizes)
        # Word by word, house by house: at which position of which row, the rows sorted.
        of, position, row = np.nonzero(there)
        words = (of * rows + order[of, row]) * width + position
        begin = of * total + row
        ahead = begin + first[position]
        mirrored = begin + first[longest[of, row] - 1 - position]
        before = np.cumsum(self.counts) - self.counts
        place = np.arange(len(of)) + (np.arange(houses) * room(self.counts) - before)[of]
        whose, sentence = np.nonzero(long)
        among = np.argsort(order, 1)[whose, sentence]
        ends = whose * total + first[long[whose, sentence] - 1] + among
        found = [(words, long.size * width), (whose * rows + sentence, long.size)]
        found += [(index, houses * total) for index in (ahead, mirrored, ends)]
        self.words, self.rows, self.ahead, self.mirrored, self.ends = chosen_at(found, device)
        beside = torch.from_numpy(np.concatenate([place, of, long.max(1)])).to(device)
        self.place, self.house, self.widths = beside.split([len(place), len(of), houses])


def encode_stacked(
    encoders: Sequence[LanguageEncoder],
    tokens: Tensor,
    length: Tensor,
    dropout: StackedDropout,
    recordings: Recordings | None = None,
) -> tuple[SharedContext, Tensor, Tensor]:
    """As LanguageEncoder's forward, of N rows: tokens [N, L], length [N] on the CPU. recordings: to be replayed where a
    gradient is wanted."""

    def stack(*names: str) -> Tensor:
        """Parameters of every house, those of one name after another: [names S, ..]."""
        return stacked([e.get_parameter(name) for name in names for e in encoders])

    def both_ways(name: str) -> Tensor:
        return stack(f"lstm.{name}_l0", f"lstm.{name}_l0_reverse")

    houses = len(encoders)
    replays = recordings if torch.is_grad_enabled() else None
    long = length.view(houses, -1)
    packing = StackedPacking(long, tokens.shape[1], tokens.device, replays is not None)
    tables = stack("embedding.weight")
    number = packing.words.of(tokens.flatten()) + packing.house * tables.shape[1]
    words = dropout.words(embedding(number, tables.flatten(0, 1)), packing.counts, packing.place)
    runs = torch.stack([packing.ahead.put_back(words), packing.mirrored.put_back(words)])
    gathered, bias = Gathered(), both_ways("bias_ih") + both_ways("bias_hh")
    inputs = gathered.times(runs.view(2 * houses, -1, words.shape[1]), both_ways("weight_ih"))
    update = fused_update if tokens.is_cuda else summed_update
    given = inputs + bias.unsqueeze(1), both_ways("weight_hh"), packing.sizes, gathered, update
    states = recurrent(*given)[:2] if replays is None else recurrent_replayed(*given, replays)
    (ahead, back), (end, begin) = (
        torch.cat(one, 1).unflatten(0, (2, houses)).flatten(1, 2) for one in states
    )
    outputs = torch.cat([packing.ahead.of(ahead), packing.mirrored.of(back)], 1)
    context = packing.words.put_back(outputs).unflatten(0, tokens.shape)
    cell = torch.cat([packing.ends.of(begin), packing.ends.of(end)], 1)
    padding = tokens == PAD
    columns = torch.arange(tokens.shape[1], device=tokens.device)
    beyond = (columns >= packing.widths.unsqueeze(1)).repeat_interleave(len(tokens) // houses, 0)
    outside = padding if encoders[0].masked_pooling else beyond
    most = context.detach().masked_fill(outside.unsqueeze(2), NEGATIVE).max(1, keepdim=True).indices
    pooled = context.gather(1, most).squeeze(1).unflatten(0, (houses, -1))
    weight, offset = stack("to_hidden.weight"), stack("to_hidden.bias").unsqueeze(1)
    hidden = torch.tanh(torch.baddbmm(offset, pooled, weight.mT)).flatten(0, 1)
    padding[:, 0] &= packing.rows.mask  # a softmax over nothing is no number
    context = dropout.context(context, packing.widths)
    return SharedContext(context, padding), hidden, packing.rows.put_back(cell)
