"""The words of the generated how-to texts: four topics, each with verbs, nouns and adjectives, and words for all.

The words are lexicon.json, the most frequent of each list first. Many are both verbs and nouns ("click", "print", "cut",
"water"), as in real instructions. `advice` and `option` are beginnings of sentences with their tags; a verb in `doubled`
doubles its last letter before -ing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fedsuite.storage.files import read_table


@dataclass(frozen=True)
class Topic:
    """Base forms of verbs, nouns (singular) and adjectives."""

    verbs: tuple[str, ...]
    nouns: tuple[str, ...]
    adjectives: tuple[str, ...]


_TABLE = read_table(__file__, "lexicon.json")
TOPICS = tuple(Topic(**topic) for topic in _TABLE["topics"].values())
WORDS: Mapping[str, tuple[str, ...]] = _TABLE["words"]


def third_person(verb: str) -> str:
    """opens, presses, dries."""
    if verb.endswith(("s", "x", "ch", "sh", "z")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def gerund(verb: str) -> str:
    """mixing, placing, cutting."""
    if verb in WORDS["doubled"]:
        return verb + verb[-1] + "ing"
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    return verb + "ing"
