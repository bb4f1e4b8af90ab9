"""BLEU against sacrebleu's corpus score and against one counted by hand."""

import json
import math
from collections import Counter

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuite.vln.data.instructions import tokenize
from fedsuite.vln.evaluation.bleu import bleu_counts
from fedsuite.vln.metrics import SPEAKER

sentences = st.lists(st.sampled_from(["go", "left", "the", "door", "."]), max_size=9)
filled = st.lists(st.sampled_from(["go", "left", "the", "door", "."]), min_size=1, max_size=9)
items = st.lists(
    st.tuples(sentences, st.lists(filled, min_size=1, max_size=4)), min_size=1, max_size=6
)


def ngrams(tokens, n):
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def by_hand(corpus, order, shortest=False):
    """Corpus BLEU, 0..100, straight from the definition."""
    written = reference = 0
    right, total = [0] * order, [0] * order
    for tokens, references in corpus:
        written += len(tokens)
        lengths = [len(r) for r in references]
        closest = min(lengths, key=lambda size: (abs(size - len(tokens)), size))
        reference += min(lengths) if shortest else closest
        for n in range(1, order + 1):
            for gram, count in ngrams(tokens, n).items():
                total[n - 1] += count
                right[n - 1] += min(count, max(ngrams(r, n)[gram] for r in references))
    if 0 in right:
        return 0.0
    precision = math.prod(r / t for r, t in zip(right, total, strict=True)) ** (1 / order)
    return 100 * precision * min(1.0, math.exp(1 - reference / written))


def counts_of(corpus):
    return bleu_counts([h for h, _ in corpus], [r for _, r in corpus])


def bleu_scores(counts):
    return {m.name: m.of(counts) for m in SPEAKER if m.name.startswith("bleu-")}


def added(*parts):
    return {k: sum(p[k] for p in parts) for k in parts[0]}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(corpus=items)
def test_scores_equal_the_definition(corpus):
    scores = bleu_scores(counts_of(corpus))
    for n in range(1, 5):
        assert scores[f"bleu-{n}"] == pytest.approx(by_hand(corpus, n), abs=1e-9)
    assert scores["bleu-4-published"] == pytest.approx(by_hand(corpus, 4, True), abs=1e-9)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(first=items, second=items)
def test_counts_add_up_over_houses(first, second):
    whole = first + second
    summed = added(counts_of(first), counts_of(second))
    assert summed == counts_of(whole)
    streams = [
        [" ".join(r[k]) if k < len(r) else None for _, r in whole]
        for k in range(max(len(r) for _, r in whole))
    ]
    theirs = sacrebleu.corpus_bleu(
        [" ".join(h) for h, _ in whole], streams, smooth_method="none", tokenize="none", force=True
    )
    assert bleu_scores(summed)["bleu-4"] == pytest.approx(theirs.score, abs=1e-9)


def test_a_small_case_by_hand():
    """Seven words, references of 6 and 9: 5 of 7 words and 2 of 6 pairs are right."""
    written = ["go", "left", "the", "the", "door", "now", "."]
    references = [
        ["go", "left", "at", "the", "door", "."],
        ["turn", "left", "and", "then", "walk", "through", "the", "door", "."],
    ]
    counts = counts_of([(written, references)])
    assert counts == {
        "correct-1": 5,
        "correct-2": 2,
        "correct-3": 0,
        "correct-4": 0,
        "total-1": 7,
        "total-2": 6,
        "total-3": 5,
        "total-4": 4,
        "words": 7,
        "reference-words": 6,
        "shortest-reference-words": 6,
    }
    scores = bleu_scores(counts)
    assert scores["bleu-1"] == pytest.approx(100 * 5 / 7)
    assert scores["bleu-2"] == pytest.approx(100 * math.sqrt(5 / 7 * 2 / 6))
    assert scores["bleu-3"] == scores["bleu-4"] == scores["bleu-4-published"] == 0


def test_published_brevity_penalty_looks_at_the_shortest_reference():
    written = ["go", "to", "the", "red", "door", "now", "and", "stop"]
    longer, shorter = [*written, "there", "."], written[:4]
    scores = bleu_scores(counts_of([(written, [longer, shorter])]))
    assert scores["bleu-4"] == pytest.approx(100 * math.exp(1 - 10 / 8))
    assert scores["bleu-4-published"] == pytest.approx(100)


@pytest.mark.parametrize("words", [[], ["unheard"]])
def test_nothing_right_scores_zero(words):
    scores = bleu_scores(counts_of([(words, [["go", "left"]])]))
    assert set(scores.values()) == {0.0} and len(scores) == 5


def test_no_paths_add_nothing():
    none, some = bleu_counts([], []), counts_of([(["go"], [["go"]])])
    assert list(none) == list(some) and not any(none.values())
    assert set(bleu_scores(none).values()) == {0.0}


def test_a_token_with_a_space_inside_is_one_token():
    tokens = ["stop", ', "', "left"]
    counts = counts_of([(tokens, [tokens, ["stop", ",", '"', "left"]])])
    assert counts["total-1"] == counts["correct-1"] == counts["words"] == 3
    assert counts["correct-3"] == 1 and counts["reference-words"] == 3


@pytest.mark.slow
@pytest.mark.needs_shared
def test_people_against_people_in_room_to_room(r2r):
    """First instruction of each unseen path against the others: about what a very good speaker could reach."""
    items = json.loads((r2r / "annotations" / "R2R_val_unseen.json").read_text())
    told = [[tokenize(text) for text in item["instructions"]] for item in items]
    corpus = [(first, others) for first, *others in told]
    scores = bleu_scores(counts_of(corpus))
    assert scores["bleu-4"] == pytest.approx(by_hand(corpus, 4), abs=1e-9)
    assert scores["bleu-1"] > scores["bleu-2"] > scores["bleu-3"] > scores["bleu-4"] > 10
