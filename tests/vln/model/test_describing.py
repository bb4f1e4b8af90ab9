"""Greedy descriptions against a word-by-word search with the teacher-forced speaker."""

import numpy as np
import pytest
import torch

from fedsuite.vln.data.dataset import join_houses
from fedsuite.vln.data.instructions import EOS, PAD, UNK
from fedsuite.vln.data.path_views import path_views
from fedsuite.vln.model.describing import describe
from fedsuite.vln.model.dropout import NO_DROPOUT
from fedsuite.vln.model.speaker import SpeakerSizes, build_speaker

V, BOS = 30, 29


@pytest.fixture
def speaker(prepared):
    made = build_speaker(SpeakerSizes(V, 8, angle=12, hidden=16, word=6), seed=8)
    with torch.no_grad():  # decided weights, and sentences that end at different places
        for p in made.parameters():
            p.mul_(4.0)
        made.decoder.to_words.bias[[PAD, UNK, EOS, BOS]] += 2.0
    return made


@torch.no_grad()
def search(speaker, world, sample, max_words, factor=None):
    """One path alone: the whole sentence is read again for every new word."""
    path, tokens, raw = path_views(world, [sample], factor), [BOS], []
    while len(tokens) <= max_words and (tokens[-1] != EOS):
        # A last token that is not padding makes the logits at the end of the sentence a target.
        logits = speaker(path, torch.tensor([[*tokens, EOS]]), NO_DROPOUT)[0][-1]
        raw.append(int(logits.argmax()))
        choice = max((i for i in range(V) if i not in (PAD, UNK, BOS)), key=lambda i: logits[i])
        tokens.append(choice)
    if tokens[-1] != EOS:
        tokens[-1] = EOS
    return tokens, raw


@pytest.mark.slow
def test_descriptions_equal_the_word_by_word_ones(speaker, oak):
    world, samples = join_houses([oak]), oak.samples["train"] + oak.samples["val_seen"]
    found = [search(speaker, world, s, 15) for s in samples]
    ours = describe(speaker, world, samples, 15)
    assert [d.tolist() for d in ours] == [tokens for tokens, _ in found]
    lengths = {len(d) for d in ours}
    assert len(lengths) > 2, "some should end early, so that they leave the batch"
    assert {i for _, raw in found for i in raw} & {PAD, UNK, BOS}, "the block should matter"
    assert all(d.dtype == np.int64 and d[0] == BOS and d[-1] == EOS for d in ours)
    assert not {PAD, UNK, BOS, EOS} & {int(i) for d in ours for i in d[1:-1]}


def test_a_factor_changes_what_is_said_of_its_row(speaker, oak):
    world, samples = join_houses([oak]), oak.samples["train"][:12]
    factor = torch.ones(12, world.feature_size)
    factor[3:] = torch.rand(9, world.feature_size, generator=torch.Generator().manual_seed(0)) * 2
    plain = describe(speaker, world, samples, 12)
    masked = describe(speaker, world, samples, 12, factor)
    same = [a.tolist() == b.tolist() for a, b in zip(plain, masked, strict=True)]
    assert all(same[:3]) and not all(same[3:])
    wanted = [search(speaker, world, s, 12, factor[i : i + 1])[0] for i, s in enumerate(samples)]
    assert [d.tolist() for d in masked] == wanted


def test_a_speaker_that_never_ends_is_cut(speaker, oak):
    with torch.no_grad():
        speaker.decoder.to_words.bias[EOS] = -1e4
    for words in (1, 7):
        out = describe(speaker, join_houses([oak]), oak.samples["train"][:3], words)
        assert [len(d) for d in out] == [1 + words] * 3
        assert all(d[-1] == EOS and EOS not in d[:-1] for d in out)


def test_a_speaker_that_ends_at_once_says_nothing(speaker, oak):
    with torch.no_grad():
        speaker.decoder.to_words.bias[EOS] = 1e4
    out = describe(speaker, join_houses([oak]), oak.samples["train"][:3], 7)
    assert [d.tolist() for d in out] == [[BOS, EOS]] * 3
