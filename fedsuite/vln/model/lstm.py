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


def cell_update(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """gates [.., 4H], c [.., H] -> h, c."""
    i, f, g, o = gates.chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def bilstm(lstm: nn.LSTM, packed: PackedSequence, mirror: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs [N, 2H] of packed words, last cells [2, B, H] by batch row; mirror [N]: the word as far from its end."""
    if packed.data.is_cuda:  # cuDNN has no such flaw
        outputs, (_, cell) = lstm(packed)
        return outputs.data, cell
    p, ways = dict(lstm.named_parameters()), ("", "_reverse")
    w_ih, w_hh = (torch.stack([p[f"weight_{x}_l0{way}"] for way in ways]) for x in ("ih", "hh"))
    bias = torch.stack([p[f"bias_ih_l0{way}"] + p[f"bias_hh_l0{way}"] for way in ways])
    words = torch.stack([packed.data, packed.data.index_select(0, mirror)])
    gathered = Gathered()
    inputs = gathered.times(words, w_ih) + bias.unsqueeze(1)
    sizes = packed.batch_sizes.tolist()
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
    last_cell = torch.cat([cell, *reversed(last)], 1)
    if packed.unsorted_indices is not None:
        last_cell = last_cell.index_select(1, packed.unsorted_indices)
    return torch.cat([forward, backward.index_select(0, mirror)], 1), last_cell
