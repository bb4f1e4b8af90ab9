"""A played episode of Text2Action: the words with their tags, what was selected, and what the labels say of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsuite.fedrl.episode import Episode, Step
from fedsuite.fedrl.text2action.corpus import EXCLUSIVE, NONE, OPTIONAL, REQUIRED, Sample
from fedsuite.fedrl.text2action.labels import label_table
from fedsuite.fedrl.text2action.views import SELECT
from fedsuite.fedrl.text2action.world import TextWorld

Outcome = Literal["hit", "false alarm", "missed", ""]
KIND_NAMES = {NONE: "", REQUIRED: "required", OPTIONAL: "optional", EXCLUSIVE: "exclusive"}


@dataclass(frozen=True, eq=False)
class TextEpisode(Episode):
    """A step a word, n words. tags: parts of speech; labels: "", required, optional or exclusive; outcomes: "hit" (selected,
    rightly), "false alarm" (selected, wrongly), "missed", or "" (rightly neglected, or neglected where either is right)."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    labels: tuple[str, ...]
    outcomes: tuple[Outcome, ...]


def text_episode(
    world: TextWorld, number: int, row: int, steps: Sequence[Step], scores: Mapping[str, float]
) -> TextEpisode:
    """Text `row` of the test split, read by the actions of `steps`."""
    sample = world.samples[world.splits["test"][row]]
    names = world.tag_names
    selected = np.array([step.action == SELECT for step in steps])
    return TextEpisode(
        number,
        tuple(steps),
        scores,
        sample.words,
        tuple(names[i] for i in sample.pos_ids),
        tuple(KIND_NAMES[kind] for kind in sample.kinds),
        outcomes(sample, selected),
    )


def outcomes(sample: Sample, selected: np.ndarray) -> tuple[Outcome, ...]:
    """What became of every word, selected bool [n] at the end, as the scores see it (text2action/reward.py)."""
    kept = selected.copy()
    kept[list(sample.neglected)] = False
    rivals = dict(sample.rivals)
    counted = label_table([sample]).counted[0]
    found: list[Outcome] = []
    for word, (kind, chosen) in enumerate(zip(sample.kinds, kept, strict=True)):
        rival = kind == EXCLUSIVE and bool(kept[list(rivals[word])].any())
        if chosen:
            found.append("false alarm" if kind == NONE or rival else "hit")
        elif kind == REQUIRED or (kind == EXCLUSIVE and counted[word] and not rival):
            found.append("missed")
        else:
            found.append("")
    return tuple(found)
