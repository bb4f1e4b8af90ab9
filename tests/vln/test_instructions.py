"""Tokens, vocabulary, encoding."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsuite.vln.instructions import (
    BASE_WORDS,
    EOS,
    PAD,
    UNK,
    Vocabulary,
    build_vocabulary,
    tokenize,
)

VOCABULARY = Vocabulary((*BASE_WORDS, "go", "left", ".", "<BOS>"))


@pytest.mark.parametrize(
    ("sentence", "tokens"),
    [
        ("Go left.", ["go", "left", "."]),
        ("  Walk   past, the TV! ", ["walk", "past", ",", "the", "tv", "!"]),
        ("Stop...", ["stop", "..."]),
        ("wait.. go", ["wait", "..", "go"]),
        ("left-hand (second) door", ["left", "-", "hand", "(", "second", ")", "door"]),
        ("end).Then", ["end", ")", ".", "then"]),
        ("it's", ["it", "'", "s"]),
        ('say, "go"', ["say", ', "', "go", '"']),
        ("the caf\u00e9 \u2019 x", ["the", "caf\u00e9", "\u2019", "x"]),
        ("go_left 2nd", ["go_left", "2nd"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_tokens(sentence, tokens):
    assert tokenize(sentence) == tokens


@given(st.text(string.printable, max_size=60))
def test_tokens_are_lower_case_without_outer_space_and_lose_no_character(sentence):
    tokens = tokenize(sentence)
    assert all(t and t == t.strip().lower() for t in tokens)
    kept = "".join("".join(tokens).split())
    assert kept == "".join(sentence.lower().split())


def test_vocabulary_is_ordered_by_frequency_then_first_appearance():
    v = build_vocabulary(["b a", "a b", "c c c", "d"], min_count=2)
    assert v.words == ("<PAD>", "<UNK>", "<EOS>", "c", "b", "a", "<BOS>")
    assert len(v) == 7 and v.bos == 6 and v.index["c"] == 3


def test_vocabulary_counts_uses_not_sentences():
    assert "go" in build_vocabulary(["go go go"], min_count=3).words
    assert "go" not in build_vocabulary(["go go go"], min_count=4).words


def test_encoding():
    assert VOCABULARY.encode("Go left.", 80).tolist() == [6, 3, 4, 5, EOS]
    assert VOCABULARY.encode("go right", 80).tolist() == [6, 3, UNK, EOS]


def test_long_sentences_are_cut_and_end_with_eos():
    assert VOCABULARY.encode("go left go left", 4).tolist() == [6, 3, 4, EOS]
    assert VOCABULARY.encode("go left", 4).tolist() == [6, 3, 4, EOS]


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
def test_empty_sentences_are_refused(empty):
    with pytest.raises(ValueError, match="at least one token"):
        VOCABULARY.encode(empty, 10)


@given(st.lists(st.sampled_from(["go", "left"]), min_size=1, max_size=10))
def test_decoding_undoes_encoding(words):
    ids = VOCABULARY.encode(" ".join(words), 80)
    assert VOCABULARY.decode(ids) == " ".join(words)
    assert VOCABULARY.decode([*ids[:-1], PAD, 3]) == " ".join(words)
