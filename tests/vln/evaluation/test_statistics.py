"""Statistics of instructions against counts by hand and, for Room-to-Room, the paper's own."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.vln.data.instructions import tokenize
from fedsuite.vln.evaluation.statistics import (
    VERB_OF,
    count_sentences,
    instruction_statistics,
    trigram_variety,
    verb_frequencies,
)


def test_a_small_set_counted_by_hand() -> None:
    # tokens: walk past the door . stop . (7) / turn left (2) / walk past the sofa . (5)
    found = instruction_statistics(
        ["Walk past the door. Stop.", "turn left", "walk past the sofa ."]
    )
    assert found.count == 3
    assert found.length == pytest.approx(14 / 3)
    assert found.length_variance == pytest.approx((49 + 4 + 25) / 3 - (14 / 3) ** 2)
    assert found.sentences == pytest.approx(4 / 3)
    assert found.sentences_variance == pytest.approx(2 / 9)
    assert found.vocabulary == len(
        {"walk", "past", "the", "door", ".", "stop", "turn", "left", "sofa"}
    )
    # Five trigrams of the first text, three of the third, of which "walk past the" is not new.
    assert found.trigram_variety == pytest.approx(7 / 8)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Go on", 1),
        ("Go on.", 1),
        ("Go on... Stop!", 2),
        ("Walk 2.5 meters. Wait?! Turn", 3),
        ("go on . stop .", 2),
        ("at the no. 3 door", 2),
        ("...", 1),
        ("", 1),
    ],
)
def test_sentences(text: str, sentences: int) -> None:
    assert count_sentences(text) == sentences


def test_verbs_are_counted_by_use_and_not_after_determiners() -> None:
    texts = [
        "Walk out and turn left. Make a turn at the exit.",
        "Keep walking, stopping when you exit.",
    ]
    assert verb_frequencies(texts) == {
        "walk": 1,
        "exit": 0.5,
        "keep": 0.5,
        "make": 0.5,
        "stop": 0.5,
        "turn": 0.5,
    }
    assert next(iter(verb_frequencies(texts))) == "walk"
    assert verb_frequencies(["up the steps on the left"]) == {} and verb_frequencies([]) == {}
    assert (
        VERB_OF["facing"] == "face"
        and VERB_OF["passes"] == "pass"
        and VERB_OF["stepping"] == "step"
    )
    assert "left" not in VERB_OF and len(set(VERB_OF.values())) > 50


def test_variety_hardly_depends_on_the_number_of_texts() -> None:
    rng = np.random.default_rng(0)
    tokens = [[str(w) for w in rng.integers(0, 12, 20)] for _ in range(400)]
    few, many = trigram_variety(tokens[:60]), trigram_variety(tokens)
    assert few == pytest.approx(many, abs=0.03)
    # A twin over whole corpora does fall, which is why blocks are counted.
    whole = {tuple(t[i : i + 3]) for t in tokens for i in range(18)}
    assert len(whole) / (400 * 18) < 0.5 * many
    assert trigram_variety([["a", "b"]]) == 0
    assert trigram_variety([list("abcabc")], block=2) == pytest.approx(1.0)


def test_no_texts_are_refused() -> None:
    with pytest.raises(InputError, match="at least one text"):
        instruction_statistics([])


@pytest.mark.needs_shared
def test_room_to_room_comes_close_to_the_published_statistics(r2r: Path) -> None:
    """Zhou & Wang 2022, Table 1: 29.58 words with variance 155.70, 2.44 sentences with variance 1.21."""
    items = json.loads((r2r / "annotations" / "R2R_val_seen.json").read_text())
    texts = [t for item in items for t in item["instructions"]]
    found = instruction_statistics(texts)
    assert found.count == 1021
    assert found.length == pytest.approx(29.66, abs=0.01) and abs(found.length - 29.58) < 0.1
    assert found.length_variance == pytest.approx(155.70, rel=0.015)
    assert found.sentences == pytest.approx(2.44, abs=0.005)
    assert found.sentences_variance == pytest.approx(1.21, abs=0.005)
    lengths = np.array([len(tokenize(t)) for t in texts])
    assert [found.length, found.length_variance] == pytest.approx([lengths.mean(), lengths.var()])
    verbs = verb_frequencies(texts)
    assert list(verbs)[:5] == ["walk", "turn", "go", "stop", "wait"] and 0.9 < verbs["walk"] < 1.1
