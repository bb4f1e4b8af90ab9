"""Canaries: words that a house does not use, put in by coins."""

import numpy as np

from fedsuite.vln.data.canaries import Canaries, draw, real_words, with_canaries, word_uses
from fedsuite.vln.data.dataset import House
from fedsuite.vln.data.instructions import EOS


def test_uses_are_those_of_training_instructions(oak: House, elm: House) -> None:
    uses = word_uses((oak, elm), 40)
    counted = np.zeros(40, int)
    for house in (oak, elm):
        for sample in house.samples["train"]:
            for token in sample.tokens.tolist():
                counted[token] += 1
    assert uses.tolist() == counted.tolist() and word_uses((), 4).tolist() == [0] * 4


def test_words_are_no_symbols() -> None:
    assert np.flatnonzero(real_words(6)).tolist() == [3, 4]


def test_unused_words_by_fair_coins() -> None:
    uses = np.zeros(1000, int)
    uses[::2] = 1
    drawn = draw(uses, 300, np.random.default_rng(0))
    assert len(set(drawn.words.tolist())) == 300 and (uses[drawn.words] == 0).all()
    assert 999 not in drawn.words and 120 < drawn.inside.sum() < 180
    assert len(draw(uses, 10**6, np.random.default_rng(0)).words) == 498  # without 1 and the last


def test_a_canary_is_an_instruction_more(oak: House) -> None:
    canaries = Canaries(np.array([31, 32, 33]), np.array([True, False, True]))
    house = with_canaries(oak, canaries, 8)
    own, more = oak.samples["train"], house.samples["train"][len(oak.samples["train"]) :]
    assert house.samples["train"][: len(own)] == own and len(more) == 2
    for sample, word, like in zip(more, (31, 33), own, strict=False):
        assert sample.tokens[1] == word and sample.tokens[0] == like.tokens[0]
        assert len(sample.tokens) == min(8, len(like.tokens) + 1) and sample.tokens[-1] == EOS
        assert sample.path == like.path
    assert word_uses((house,), 40)[[31, 32, 33]].tolist() == [1, 0, 1]
