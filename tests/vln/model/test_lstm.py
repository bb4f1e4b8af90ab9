"""The two-way LSTM against torch's, values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from fedsuite.vln.model.agent import AgentSizes, LanguageEncoder
from fedsuite.vln.model.dropout import NO_DROPOUT
from fedsuite.vln.model.lstm import (
    Packing,
    bilstm,
    by_torch,
    cell_update,
    fused_cell_update,
    fused_update,
    summed_update,
)
from fedsuite.vln.model.rows import Chosen
from tests.gpu_kernels import KERNELS, on_the_cpu


def case(length):
    """Made-up words [B, L, 3], as torch packs them and as we do."""
    torch.manual_seed(len(length))
    lstm = nn.LSTM(3, 4, batch_first=True, bidirectional=True).double()
    words = torch.randn(len(length), max(length), 3, dtype=torch.float64)
    packed = pack_padded_sequence(words, torch.tensor(length), True, enforce_sorted=False)
    return lstm, words, packed, Packing(torch.tensor(length), max(length))


LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=6)


@settings(max_examples=25, deadline=None)
@given(LENGTHS)
def test_words_are_packed_as_torch_packs_them(length):
    _, words, packed, own = case(length)
    assert torch.equal(own.sizes, packed.batch_sizes)
    chosen = Chosen.at(own.place, len(length) * max(length), words.device)
    assert torch.equal(chosen.of(words.flatten(0, 1)), packed.data)
    back, long = pad_packed_sequence(packed, batch_first=True)
    assert torch.equal(chosen.put_back(packed.data).view(back.shape), back)
    row, position = own.place // max(length), own.place % max(length)
    assert torch.equal(own.words[0], position)
    assert torch.equal(own.place[own.mirror], row * max(length) + long[row] - 1 - position)


@settings(max_examples=25, deadline=None)
@given(LENGTHS, st.sampled_from([bilstm, by_torch]))
def test_values_and_gradients_equal_torchs(length, way):
    lstm, _, packed, packing = case(length)
    packed = packed._replace(data=packed.data.requires_grad_())
    output, cell = way(lstm, packed.data, packing)
    reference, (_, last) = lstm(packed)
    assert_close(output, reference.data)
    assert_close(cell, last)
    weight, other = torch.randn_like(output), torch.randn_like(cell)
    leaves = [packed.data, *lstm.parameters()]
    got = torch.autograd.grad((output * weight).sum() + (cell * other).sum(), leaves)
    want = torch.autograd.grad((reference.data * weight).sum() + (last * other).sum(), leaves)
    for a, b in zip(got, want, strict=True):
        assert_close(a, b)


def test_cell_update_is_an_lstm_cell():
    cell = nn.LSTMCell(3, 4)
    x, h, c = torch.randn(5, 3), torch.randn(5, 4), torch.randn(5, 4)
    gates = x @ cell.weight_ih.T + cell.bias_ih + h @ cell.weight_hh.T + cell.bias_hh
    with on_the_cpu() as calls:
        for update in (cell_update, fused_cell_update):
            for a, b in zip(update(gates, c), cell(x, (h, c)), strict=True):
                assert_close(a, b)
    assert calls == ["_thnn_fused_lstm_cell"]


@pytest.mark.parametrize("used", ["h", "c", "h and c"])
def test_one_kernel_updates_as_many_do(used):
    """Of two directions, and of some rows of each; gradients by what is made of hidden states, of cells, or of both."""
    given = [torch.randn(2, 5, n, dtype=torch.float64, requires_grad=True) for n in (16, 16, 4)]
    found = []
    for update in (summed_update, fused_update):
        with on_the_cpu() as calls:
            h, c = update(*(x[:, 1:4] for x in given))
            loss = h.square().sum() * ("h" in used) + (c**3).sum() * ("c" in used)
            found.append((h, c, *torch.autograd.grad(loss, given)))
    assert calls == [*KERNELS]
    for one, other in zip(*found, strict=True):
        assert_close(one, other)
    assert found[0][0].abs().min() > 0 and all(x.any() for x in found[0])


@pytest.mark.parametrize("length", [[5], [2, 5, 1], [3, 3]])
def test_encoder_equals_one_made_of_torchs_modules(length):
    encoder = LanguageEncoder(AgentSizes(vocabulary=20, feature=4, hidden=8, word=6))
    tokens = torch.zeros(len(length), max(length), dtype=torch.int64)
    for row, n in enumerate(length):
        tokens[row, :n] = torch.randint(3, 20, (n,))
    language, hidden, cell = encoder(tokens, torch.tensor(length), NO_DROPOUT)
    packed = pack_padded_sequence(
        encoder.embedding(tokens), torch.tensor(length), True, enforce_sorted=False
    )
    outputs, (_, last) = encoder.lstm(packed)
    context, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
    assert_close(language.context, context)
    assert_close(cell, torch.cat([last[1], last[0]], 1))
    pooled = context.masked_fill((tokens == 0)[..., None], -torch.inf).amax(1)
    assert_close(hidden, torch.tanh(encoder.to_hidden(pooled)))
