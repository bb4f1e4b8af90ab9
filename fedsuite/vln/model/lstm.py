"""A two-way LSTM over sentences of different length, with both directions in one loop.

nn.LSTM on packed sentences gives the same numbers, but on a CPU its backward pass writes a gradient of the size of all
words once per word position; that takes longer than all the arithmetic of the language encoder. Here the input products
are cut once, and the backward direction runs over mirrored sentences, so that one product per position serves both.

  i, f, g, o = W_ih x + b_ih + W_hh h + b_hh;   c <- s(f) c + s(i) tanh(g);   h <- s(o) tanh(c)
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from fedsuite.vln.model.gathered import Gathered


class Packing:
    """Sentences word by word: the first words of all, of the longest sentence first, then the second words, and so on.

    sizes [L]: how many words are at each position; place [N]: where each of the N words is among the B L of all rows; row
    [B]: where each row is among the sorted ones. All on the CPU, where it is worked out: on a GPU it is many small steps.
    """

    def __init__(self, length: Tensor, width: int) -> None:
        """length [B], at least 1, at most L = width."""
        self.longest, order = torch.sort(length, descending=True)
        self.position = torch.arange(int(self.longest[0])).unsqueeze(1)
        self.there = self.longest > self.position
        self.sizes = self.there.sum(1)
        self.place = (order * width + self.position)[self.there]
        self.row = order.argsort()

    @property
    def words(self) -> tuple[Tensor, Tensor]:
        """Position and sorted row of each [N]."""
        rows = torch.arange(len(self.longest))
        position, row = torch.broadcast_tensors(self.position, rows)
        return position[self.there], row[self.there]

    @property
    def mirror(self) -> Tensor:
        """Of every packed word [N] the one that is as far from the end of its sentence."""
        first = self.sizes.cumsum(0) - self.sizes
        position, row = self.words
        return first[self.longest[row] - 1 - position] + row


def cell_update(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """gates [.., 4H], c [.., H] -> h, c."""
    i, f, g, o = gates.chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def summed_update(x: Tensor, y: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """`cell_update` of gates that are the sum of x and y [.., 4H]."""
    return cell_update(x + y, cell)


def fused_update(x: Tensor, y: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """The same on a GPU, by the kernel that nn.LSTMCell has there, and one for its gradients, in place of some ten each. Not
    for gradients of several losses at once (vmap), for each of which it would be launched."""
    rows = x.flatten(0, -2), y.flatten(0, -2), cell.flatten(0, -2)
    hidden, after, _ = torch.ops.aten._thnn_fused_lstm_cell(*rows)
    return hidden.view_as(cell), after.view_as(cell)


def fused_cell_update(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """`cell_update` by that kernel."""
    return fused_update(gates, gates.new_zeros(()).expand_as(gates), cell)


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
    outputs, cells, ended = recurrent(inputs, w_hh, packing.sizes.tolist(), gathered)
    forward, backward = torch.cat(outputs, 1)
    last_cell = torch.cat([cells[-1], *reversed(ended)], 1).index_select(1, packing.row)
    return torch.cat([forward, backward.index_select(0, mirror)], 1), last_cell


States = list[Tensor]
Update = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def recurrent(
    inputs: Tensor,
    w_hh: Tensor,
    sizes: Sequence[int],
    gathered: Gathered,
    update: Update = summed_update,
    begun: tuple[Tensor, Tensor] | None = None,
) -> tuple[States, States, States]:
    """inputs W_ih x + b [D, N, 4H] of D directions; sizes: how many rows are at each position, never more than before, N in
    all; begun: hidden and cell [D, n_0, H], by default 0. Hidden states and cells [D, n_t, H] at every position, and the
    last cells of the rows that ended before others."""
    if begun is None:
        nothing = inputs.new_zeros(len(inputs), sizes[0], w_hh.shape[-1])
        begun = nothing, nothing
    hidden, cell = begun
    outputs, cells, ended = [], [], []
    for x in inputs.split(list(sizes), 1):
        alive = x.shape[1]
        if alive < hidden.shape[1]:
            (hidden, _), (cell, last) = (
                v.split([alive, v.shape[1] - alive], 1) for v in (hidden, cell)
            )
            ended.append(last)
        hidden, cell = update(x, gathered.times(hidden, w_hh), cell)
        outputs.append(hidden)
        cells.append(cell)
    return outputs, cells, ended


def by_torch(lstm: nn.LSTM, words: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
    """The same by nn.LSTM's own forward."""
    outputs, (_, cell) = lstm(PackedSequence(words, packing.sizes))
    return outputs.data, cell.index_select(1, packing.row.to(words.device))
