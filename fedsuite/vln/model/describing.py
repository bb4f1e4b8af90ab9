"""Greedy instructions for paths.

Source: EnvDrop (Tan et al. 2019): from BOS, the most likely word at each position, never UNK. Here PAD and BOS are ruled
out as well, which the official release does not do: neither is a word of an instruction, and a PAD inside a
sentence would end it for every reader. As there, a description that has not ended after max_words positions is
cut: its last token becomes EOS.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

from fedsuite.vln.data.dataset import Sample
from fedsuite.vln.data.instructions import EOS, PAD, UNK
from fedsuite.vln.data.path_views import path_views
from fedsuite.vln.environment import World
from fedsuite.vln.model.dropout import NO_DROPOUT
from fedsuite.vln.model.lstm import cell_update
from fedsuite.vln.model.speaker import PathContext, Speaker, WordDecoder


@torch.no_grad()
def describe(
    speaker: Speaker,
    world: World,
    samples: Sequence[Sample],
    max_words: int,
    factor: Tensor | None = None,
) -> list[np.ndarray]:
    """BOS, words, EOS as int64 [<= 1 + max_words] for every sample, without dropout. factor [B, F]: of visual features."""
    path = speaker.encoder(path_views(world, samples, factor), NO_DROPOUT)
    written = _write(speaker.decoder, path, max_words).cpu().numpy()
    bos = speaker.sizes.vocabulary - 1
    length = (written == EOS).argmax(1) + 1
    return [np.array([bos, *row[:end]]) for row, end in zip(written, length, strict=True)]


def _write(decoder: WordDecoder, path: PathContext, max_words: int) -> Tensor:
    """Tokens after BOS [B, max_words]: an EOS in every row; what follows it means nothing."""
    blocked, p = _blocked(decoder), dict(decoder.lstm.named_parameters())
    # The input product of every word, cut once: descriptions use each word many times.
    inputs = linear(decoder.embedding.weight, p["weight_ih_l0"], p["bias_ih_l0"] + p["bias_hh_l0"])
    out = torch.full((len(path.padding), max_words), PAD, device=blocked.device)
    row = torch.arange(len(out), device=blocked.device)
    word = torch.full_like(row, len(blocked) - 1)
    ended = torch.zeros_like(row, dtype=torch.bool)
    hidden = cell = path.context.new_zeros(len(out), decoder.lstm.hidden_size)
    for time in range(max_words):
        gates = inputs.index_select(0, word) + linear(hidden, p["weight_hh_l0"])
        hidden, cell = cell_update(gates, cell)
        read = decoder.read(hidden.unsqueeze(1), path).squeeze(1)
        word = (decoder.to_words(read) + blocked).argmax(1)
        out[row, time] = word if time + 1 < max_words else word.masked_fill(~ended, EOS)
        ended = ended | (word == EOS)
        left = (~ended).nonzero().squeeze(1)
        if len(left) == 0:
            break
        if 4 * len(left) <= 3 * len(row):
            row, word, hidden, cell, ended = (
                x.index_select(0, left) for x in (row, word, hidden, cell, ended)
            )
            path = path.rows(left)
    return out


def _blocked(decoder: WordDecoder) -> Tensor:
    """0 for words, -inf for PAD, UNK and BOS [V]."""
    mask = torch.zeros(decoder.embedding.num_embeddings, device=decoder.embedding.weight.device)
    mask[[PAD, UNK, len(mask) - 1]] = float("-inf")
    return mask
