"""A two-way LSTM over sentences of different length, with both directions in one loop.

nn.LSTM on packed sentences gives the same numbers, but on a CPU its backward pass writes a gradient of the size of all
words once per word position; that takes longer than all the arithmetic of the language encoder. Here the input products
are cut once, and the backward direction runs over mirrored sentences, so that one product per position serves both.

  i, f, g, o = W_ih x + b_ih + W_hh h + b_hh;   c <- s(f) c + s(i) tanh(g);   h <- s(o) tanh(c)
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from fedsuite.vln.model.gathered import Gathered
from fedsuite.vln.model.rows import Chosen


class Packing:
    """Sentences word by word: the first words of all, of the longest sentence first, then the second words, and so on.

    sizes [L]: how many words are at each position, on the CPU; words: the N words among the B L places of all rows; row [B]:
    where each row is among the sorted ones.
    """

    def __init__(self, length: Tensor, width: int, device: torch.device) -> None:
        """length [B] on the CPU, at least 1, at most L = width. All is worked out there: on a GPU it is many small steps."""
        self._longest, order = torch.sort(length, descending=True)
        position = torch.arange(int(self._longest[0])).unsqueeze(1)
        self._there = self._longest > position
        self.sizes = self._there.sum(1)
        index = (order * width + position)[self._there]
        place = torch.zeros(len(order) * width, dtype=torch.int64)
        mask = torch.zeros_like(place, dtype=torch.bool)
        place[index], mask[index] = torch.arange(len(index)), True
        self.words = Chosen(mask.to(device), index.to(device), place.to(device))
        self.row = order.argsort().to(device)

    @property
    def mirror(self) -> Tensor:
        """Of every packed word [N] the one that is as far from the end of its sentence, on the CPU."""
        first = self.sizes.cumsum(0) - self.sizes
        rows = torch.arange(len(self._longest)).expand_as(self._there)[self._there]
        position = torch.arange(len(self.sizes)).repeat_interleave(self.sizes)
        return first[self._longest[rows] - 1 - position] + rows


def cell_update(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """gates [.., 4H], c [.., H] -> h, c."""
    i, f, g, o = gates.chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def bilstm(lstm: nn.LSTM, words: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
    """words [N, I], as packed -> outputs [N, 2H], and the last cells [2, B, H] by row."""
    if words.is_cuda:  # cuDNN has no such flaw
        return by_torch(lstm, words, packing)
    p, ways = dict(lstm.named_parameters()), ("", "_reverse")
    w_ih, w_hh = (torch.stack([p[f"weight_{x}_l0{way}"] for way in ways]) for x in ("ih", "hh"))
    bias = torch.stack([p[f"bias_ih_l0{way}"] + p[f"bias_hh_l0{way}"] for way in ways])
    mirror, gathered = packing.mirror, Gathered()
    both = torch.stack([words, words.index_select(0, mirror)])
    inputs = gathered.times(both, w_ih) + bias.unsqueeze(1)
    sizes = packing.sizes.tolist()
    hidden = cell = inputs.new_zeros(2, sizes[0], lstm.hidden_size)
    outputs, last = [], []
    for x in inputs.split(sizes, 1):
        alive = x.shape[1]
        if alive < hidden.shape[1]:
            (hidden, _), (cell, ended) = (
                v.split([alive, v.shape[1] - alive], 1) for v in (hidden, cell)
            )
            last.append(ended)
        hidden, cell = cell_update(x + gathered.times(hidden, w_hh), cell)
        outputs.append(hidden)
    forward, backward = torch.cat(outputs, 1)
    last_cell = torch.cat([cell, *reversed(last)], 1).index_select(1, packing.row)
    return torch.cat([forward, backward.index_select(0, mirror)], 1), last_cell


def by_torch(lstm: nn.LSTM, words: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
    """The same by nn.LSTM's own forward."""
    outputs, (_, cell) = lstm(PackedSequence(words, packing.sizes))
    return outputs.data, cell.index_select(1, packing.row)
