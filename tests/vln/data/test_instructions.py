"""Tokens, vocabulary, encoding."""

import json
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsuite.errors import InputError
from fedsuite.vln.data.instructions import (
    BASE_WORDS,
    EOS,
    PAD,
    UNK,
    Vocabulary,
    build_vocabulary,
    read_vocabulary,
    tokenize,
)
from tests.harness import decoded

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
    assert decoded(VOCABULARY.words, ids) == " ".join(words)
    assert decoded(VOCABULARY.words, [*ids[:-1], PAD, 3]) == " ".join(words)


@pytest.mark.parametrize(
    ("sentence", "tokens"),
    [
        ("आप कमरे में हैं। TV, और 2 कुर्सियाँ!", ["आप", "कमरे", "में", "हैं", "।", "tv", ",", "और", "2", "कुर्सियाँ", "!"]),
        ("सीढ़ियों... रुकें", ["सीढ़ियों", ".", ".", ".", "रुकें"]),
        ("దయచేసి ఎడమ-వైపు తిరగండి.", ["దయచేసి", "ఎడమ", "-", "వైపు", "తిరగండి", "."]),
        ("కిచెన్\u200cలో, కిచెన్\u200c!", ["కిచెన్\u200cలో", ",", "కిచెన్", "!"]),
        ("\u200bदरवाज़ा\ufeff\n\u200dबाएँ", ["दरवाज़ा", "बाएँ"]),
        ("दरवाज़ा ₹ +", ["दरवाज़ा", "₹", "+"]),
    ],
)  # fmt: skip
def test_words_of_indic_scripts_stay_whole(sentence, tokens):
    assert tokenize(sentence) == tokens


def test_the_english_rule_would_tear_words_at_vowel_signs():
    assert len(re.split(r"(\W+)", "कमरे")) > 1 and tokenize("कमरे") == ["कमरे"]


# Devanagari but for its three punctuation characters, which stand between the ranges.
DEVANAGARI_OR_ASCII = re.compile(r"[0-9a-z\u0900-\u0963\u0966-\u096f\u0971-\u097f]+|\S")


@given(st.text([*map(chr, range(0x900, 0x980)), *string.printable], max_size=60))
def test_indic_tokens_equal_those_of_explicit_ranges(sentence):
    sentence += " घर"
    visible = "".join(c for c in sentence.lower() if c.isprintable() or c.isspace())
    assert tokenize(sentence) == DEVANAGARI_OR_ASCII.findall(visible)


@given(st.text(string.printable + "\u00e9\u00fc\u2019\u201c\u2026\u2013", max_size=60))
def test_other_scripts_never_follow_the_indic_rule(sentence):
    """Each language keeps its own tokens, whatever else the run reads."""
    want = []
    for piece in re.findall(r"\w+|\W+", sentence.strip()):
        piece = piece.strip().lower()
        single = piece.strip(".") and all(c in string.punctuation for c in piece)
        want += list(piece) if single else [piece] * bool(piece)
    assert tokenize(sentence) == want


def test_an_indic_vocabulary_encodes_what_it_was_built_from():
    v = build_vocabulary(["कमरे में।", "go in.", "कमरे से"], min_count=1)
    assert v.words[3] == "कमरे" and decoded(v.words, v.encode("कमरे में।", 160)) == "कमरे में ।"
    assert UNK not in v.encode("go in.", 160)


# --- given vocabularies -----------------------------------------------------------------------

GIVEN = ["<PAD>", "<UNK>", "<EOS>", "the", "tot", ", "]


@pytest.mark.parametrize("name", ["train_vocab.txt", "vocabulary.json"])
def test_a_given_vocabulary_is_read_in_its_own_order(tmp_path, name):
    """A text has no start symbol, which is the last index; a run's JSON has it. Lines are stripped, as in the release."""
    file = tmp_path / name
    if file.suffix == ".json":
        file.write_text(json.dumps([*GIVEN, "<BOS>"]))
        assert read_vocabulary(file).words == (*GIVEN, "<BOS>")
    else:
        file.write_text("\n".join(GIVEN) + "\n")
        assert read_vocabulary(file).words == (*(w.strip() for w in GIVEN), "<BOS>")
    assert read_vocabulary(file).bos == 6


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("v.txt", "the\ntot\n", "starts with ['the', 'tot', '<BOS>']"),
        ("v.txt", "<PAD>\n<UNK>\n<EOS>\nthe\nthe\n", "'the' is empty or stands in it twice"),
        ("v.txt", "<PAD>\n<UNK>\n<EOS>\nthe\n\ntot\n", "'' is empty"),
        ("v.txt", "<PAD>\n<UNK>\n<EOS>\nthe\n<BOS>\n", "'<BOS>' is empty or stands in it twice"),
        ("v.txt", "<PAD>\n<UNK>\n<EOS>\n", "holds no word"),
        ("v.txt", "", "starts with ['<BOS>']"),
        ("v.txt", b"\x80\x02}q\x00(X\x05", "UnicodeDecodeError"),
        ("v.json", '{"the": 3}', "other things than words"),
        ("v.json", '["<PAD>", "<UNK>", "<EOS>", "the"]', "ends with ['the']"),
        ("v.json", "[", "JSONDecodeError"),
        ("none.txt", None, "FileNotFoundError"),
    ],
)
def test_what_is_no_vocabulary_is_refused_in_one_line(tmp_path, name, content, problem):
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as refused:
        read_vocabulary(file)
    line = str(refused.value)
    assert "\n" not in line and str(file) in line and problem in line
    assert line.endswith("give a train_vocab.txt, or the vocabulary.json of a run")
