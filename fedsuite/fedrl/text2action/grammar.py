"""The grammar of the generated how-to texts: one sentence at a time, with tags and labels.

grammar.json holds the forms of sentences, how often each comes up, and what they are like. A text of parts is made of
words with tags, {lists} of the lexicon, rules, and what a method here writes. A rule is a text, or texts of which one
draw chooses the first whose number is above it, or none.

Forms without actions use the same verbs as those with: "this will open the lid", "do not open the lid", "to open the
lid ...". The tags of base forms and of nouns that could be verbs err at times.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fedsuite.fedrl.text2action.lexicon import WORDS, Topic, gerund, third_person
from fedsuite.storage.files import read_table

REQUIRED, OPTIONAL, EXCLUSIVE = 1, 2, 3
NOT_IN_TEXT = -1

_TABLE = read_table(__file__, "grammar.json")
FORMS: tuple[dict[str, Any], ...] = _TABLE["forms"]
RULES: dict[str, str | tuple[tuple[float, str], ...]] = _TABLE["rules"]


@dataclass
class Act:
    """An action: word, kind, objects, objects of the other alternative, rivals; all words of this sentence.
    `earlier`: objects that are words of the previous sentence."""

    word: int
    kind: int
    first: list[int]
    second: list[int] = field(default_factory=list)
    rivals: list[int] = field(default_factory=list)
    earlier: list[int] = field(default_factory=list)


@dataclass
class Line:
    """A sentence under way. objects: content words of its last noun phrase that was acted on."""

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)

    def add(self, phrase: str) -> int:
        """Append "word/TAG word/TAG ..."; the index of the last word."""
        for token in phrase.split():
            word, tag = token.rsplit("/", 1)
            self.words.append(word)
            self.tags.append(tag)
        return len(self.words) - 1


class Grammar:
    """Writes sentences of one topic; the text's own nouns come up again and again."""

    def __init__(self, topic: Topic, rng: np.random.Generator) -> None:
        self.topic, self.rng = topic, rng
        self.own = [self.pick(topic.nouns) for _ in range(4)]
        self.both = set(topic.nouns) & set(topic.verbs)
        self.parts: dict[str, Callable[[Line], object]] = {
            "VERB": self.verb,
            "VERB-ING": partial(self.verb, form="VBG"),
            "VERB-S": partial(self.verb, form="VBZ"),
            "THING": self.noun_phrase,
            "ACT": self.act,
            "ACT-ING": partial(self.act, form="VBG"),
            "OPTIONAL-ACT": partial(self.act, kind=OPTIONAL),
            "ALTERNATIVES": self.alternatives,
        }

    def pick(self, words: Sequence[str]) -> str:
        """One of `words`, the k-th with a weight of 1 / (k + 6)."""
        weights = 1 / (np.arange(len(words)) + 6)
        return words[int(self.rng.choice(len(words), p=weights / weights.sum()))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def verb(self, line: Line, form: str = "VB") -> int:
        """A verb in the form of a Penn tag; a base form may be tagged amiss."""
        word = self.pick(self.topic.verbs)
        if form == "VB":
            draw, doubt = self.rng.random(), 0.25 if word in self.both else 0.06
            form = "NN" if draw < doubt else "VBP" if draw < doubt + 0.06 else "VB"
            return line.add(f"{word}/{form}")
        return line.add(f"{gerund(word) if form == 'VBG' else third_person(word)}/{form}")

    def noun_phrase(self, line: Line) -> list[int]:
        """Determiner, perhaps an adjective, one or two nouns; the content words' indices."""
        self.write(line, "DETERMINER")
        content = []
        if self.chance(0.15):
            content.append(line.add(f"{self.pick(self.topic.adjectives)}/JJ"))
        for _ in range(2 if self.chance(0.2) else 1):
            noun = (
                self.own[self.rng.integers(4)] if self.chance(0.4) else self.pick(self.topic.nouns)
            )
            amiss = noun in self.both and self.chance(0.15)
            content.append(line.add(f"{noun}/{'VB' if amiss else 'NN'}"))
        return content

    def write(self, line: Line, text: str) -> None:
        """Append a text of parts."""
        for part in text.split():
            if part in self.parts:
                self.parts[part](line)
            elif isinstance(rule := RULES.get(part), str):
                self.write(line, rule)
            elif rule:
                draw = self.rng.random()
                self.write(line, next((text for bound, text in rule if draw < bound), ""))
            else:
                line.add(self.filled(part))

    def filled(self, part: str) -> str:
        """word/TAG as it is, a word of a {list}/TAG, or one of the beginnings of a {list}, all alike likely."""
        if not part.startswith("{"):
            return part
        name, tag = part[1:].split("}")
        words = WORDS[name]
        return self.pick(words) + tag if tag else words[self.rng.integers(len(words))]

    def act(self, line: Line, kind: int = REQUIRED, form: str = "VB") -> None:
        """An action and its objects: one phrase, two, two that exclude each other, or none."""
        word = self.verb(line, form)
        draw = self.rng.random()
        if draw < 0.07:
            self.write(line, "{adverbs}/RB")
            line.acts.append(Act(word, kind, [NOT_IN_TEXT]))
            return
        first, second = self.noun_phrase(line), list[int]()
        if draw < 0.14:
            line.add("or/CC")
            second = self.noun_phrase(line)
        elif draw < 0.22:
            line.add("and/CC")
            first += self.noun_phrase(line)
        line.objects = first
        line.acts.append(Act(word, kind, first, second))

    def alternatives(self, line: Line) -> None:
        """Wash or brush the lid; either wash the lid or brush the handle."""
        if self.chance(0.5):
            one = self.verb(line)
            line.add("or/CC")
            other = self.verb(line)
            objects = self.noun_phrase(line)
            line.acts += [Act(w, EXCLUSIVE, objects) for w in (one, other)]
        else:
            line.add("either/CC")
            for k in range(2):
                line.add("or/CC") if k else None
                word = self.verb(line)
                line.acts.append(Act(word, EXCLUSIVE, self.noun_phrase(line)))
        one, other = (act.word for act in line.acts[-2:])
        line.acts[-2].rivals, line.acts[-1].rivals = [other], [one]

    def again(self, line: Line, previous: Line) -> None:
        """Wash it well: the object stands in the previous sentence."""
        word = self.verb(line)
        line.add("it/PRP")
        line.acts.append(Act(word, REQUIRED, [], earlier=previous.objects))
        self.write(line, "HOW-OR-MORE")

    def sentence(self, previous: Line | None) -> Line:
        line = Line()
        if previous is not None and previous.objects and self.chance(0.12):
            self.again(line, previous)
        else:
            shares = np.array([form["share"] for form in FORMS])
            form = FORMS[int(self.rng.choice(len(FORMS), p=shares / shares.sum()))]
            self.write(line, form["text"])
        line.words[0] = line.words[0].capitalize()
        return line
