"""The labels of all samples as arrays, so that many episodes can be judged at once.

Letters: S samples, L words of the longest sample (after the cut), X exclusive words of all samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsuite.fedrl.text2action.corpus import OPTIONAL, REQUIRED, Sample


@dataclass(frozen=True)
class LabelTable:
    """lengths int64 [S]; kinds int8 [S, L]; neglected bool [S, L]: words that count as neglected in the scores.

    exclusive int32 [S, L]: row of the exclusive word in `rivals`, else -1; rivals bool [X, L]; last_rival int64 [X]: -1
    = none within the cut. counted bool [S, L]: exclusive words that stand for their group in the truth: in text order,
    those that no counted word excludes. alternatives: exclusive words form two sides of which either will do (arguments).
    """

    lengths: np.ndarray
    kinds: np.ndarray
    neglected: np.ndarray
    exclusive: np.ndarray
    rivals: np.ndarray
    last_rival: np.ndarray
    counted: np.ndarray
    alternatives: bool

    @property
    def longest(self) -> int:
        """L."""
        return int(self.kinds.shape[1])


def label_table(samples: Sequence[Sample]) -> LabelTable:
    lengths = np.array([len(s.words) for s in samples], np.int64)
    shape = (len(samples), int(lengths.max()))
    kinds, exclusive = np.zeros(shape, np.int8), np.full(shape, -1, np.int32)
    neglected, counted = np.zeros(shape, bool), np.zeros(shape, bool)
    rows: list[np.ndarray] = []
    for k, sample in enumerate(samples):
        kinds[k, : len(sample.kinds)] = sample.kinds
        neglected[k, list(sample.neglected)] = True
        excluded: set[int] = set()
        for word, others in sample.rivals:
            exclusive[k, word] = len(rows)
            rows.append(np.isin(np.arange(shape[1]), others))
            if word not in excluded:
                counted[k, word] = True
                excluded.update(others)
    rivals = np.array(rows, bool).reshape(-1, shape[1])
    last = np.where(rivals.any(1), shape[1] - 1 - rivals[:, ::-1].argmax(1), -1)
    alternatives = any(sample.action >= 0 for sample in samples)
    return LabelTable(lengths, kinds, neglected, exclusive, rivals, last, counted, alternatives)


def expert_selection(sample: Sample) -> np.ndarray:
    """What an expert selects, bool [n]: required and optional words, and of words that exclude each other the first.

    Some labels of wikiHow call a word exclusive whose rival is required or optional: a required rival is selected
    instead of the exclusive word, an optional one is neglected in favour of it.
    """
    kinds = np.array(sample.kinds)
    required = set(np.flatnonzero(kinds == REQUIRED).tolist())
    chosen: set[int] = set()
    excluded: set[int] = set()
    for word, others in sample.rivals:
        if not (required | chosen).intersection(others):
            chosen.add(word)
            excluded.update(others)
    optional = set(np.flatnonzero(kinds == OPTIONAL).tolist()) - excluded
    selected = np.zeros(len(kinds), bool)
    selected[sorted(required | chosen | optional)] = True
    return selected
