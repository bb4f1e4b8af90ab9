"""How-to texts with labelled actions from a grammar of our own, in the schema of reader.py ("t2a-1").

Texts of four topics hold imperatives ("Open the lid and drain the oil"), purposes ("To open the panel press the
button"), conditions, advice ("you need to ..."), options, alternatives, prohibitions and descriptions ("this will open
the window"). Which words are actions follows from neither tags nor words alone: base forms (VB) after "will",
"do not" or a leading "to" are no actions, after "need to" they are; many words are verbs and nouns; rare words occur
in few texts; and tags err on words that are both, as taggers do. Tags are Penn Treebank's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsuite.fedrl.text2action.grammar import Act, Grammar, Line
from fedsuite.fedrl.text2action.lexicon import TOPICS
from fedsuite.randomness import rng_for

NUM_TEXTS, NUM_FOLDS, MEAN_WORDS = 150, 5, 45


def generate_corpus(seed: int, num_texts: int = NUM_TEXTS) -> dict[str, Any]:
    """A document of schema "t2a-1"; the same for the same arguments. Argument folds follow the texts' folds."""
    rng = rng_for(seed, "generated texts")
    texts, passages = [], []
    for _ in range(num_texts):
        lines = _write_text(rng)
        texts.append(_text_entry(lines))
        passages.append(_passage_entries(lines))
    order = rng.permutation(num_texts)
    folds = [sorted(order[k::NUM_FOLDS].tolist()) for k in range(NUM_FOLDS)]
    counts = [sum(len(passage["acts"]) for passage in text) for text in passages]
    ends = np.cumsum(counts).tolist()
    arguments = [
        [k for text in fold for k in range(ends[text] - counts[text], ends[text])] for fold in folds
    ]
    return {
        "schema": "t2a-1",
        "domain": "generated",
        "texts": texts,
        "arg": passages,
        "folds": {"act5": folds, "arg5": arguments},
    }


def _write_text(rng: np.random.Generator) -> list[Line]:
    """Sentences until the text has as many words as were drawn."""
    grammar = Grammar(TOPICS[int(rng.integers(len(TOPICS)))], rng)
    wanted = rng.integers(MEAN_WORDS // 2, 3 * MEAN_WORDS // 2) - 4
    lines = [grammar.sentence(None)]
    while sum(len(line.words) for line in lines) < wanted or not any(line.acts for line in lines):
        lines.append(grammar.sentence(lines[-1]))
    return lines


def _act_entry(act: Act, here: int, before: int) -> dict[str, Any]:
    """An ACT whose sentence starts at word `here` and whose previous sentence starts at `before`."""
    first, second = ([k + here if k >= 0 else k for k in side] for side in (act.first, act.second))
    first += [k + before for k in act.earlier]
    rivals = [k + here for k in act.rivals]
    return {"i": act.word + here, "t": act.kind, "o": [first, second], "r": rivals}


def _text_entry(lines: Sequence[Line]) -> dict[str, Any]:
    starts = np.cumsum([0, *(len(line.words) for line in lines)]).tolist()
    acts = [
        _act_entry(act, starts[k], starts[max(k - 1, 0)])
        for k, line in enumerate(lines)
        for act in line.acts
    ]
    sents, pos = [line.words for line in lines], [line.tags for line in lines]
    return {"sents": sents, "pos": pos, "acts": acts}


def _passage_entries(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Every sentence with the one before it."""
    entries = []
    for k, line in enumerate(lines):
        last = lines[k - 1] if k else Line()
        entries.append(
            {
                "last": last.words,
                "this": line.words,
                "last_pos": last.tags,
                "this_pos": line.tags,
                "acts": [_act_entry(act, len(last.words), 0) for act in line.acts],
            }
        )
    return entries
