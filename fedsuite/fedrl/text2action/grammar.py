"""The grammar of the generated how-to texts: one sentence at a time, with tags and labels.

Forms without actions use the same verbs as those with: "this will open the lid", "do not open the lid", "to open the
lid ...". The tags of base forms and of nouns that could be verbs err at times.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedsuite.fedrl.text2action.lexicon import WORDS, Topic, gerund, third_person

REQUIRED, OPTIONAL, EXCLUSIVE = 1, 2, 3
NOT_IN_TEXT = -1


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
        if self.chance(0.6):
            line.add("a/DT" if self.chance(0.3) else "your/PRP$" if self.chance(0.15) else "the/DT")
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

    def clause(self, line: Line) -> None:
        """A verb and its object that are no action."""
        self.verb(line)
        self.noun_phrase(line)

    def place(self, line: Line, share: float) -> None:
        """Perhaps a prepositional phrase, whose nouns are nobody's objects."""
        if self.chance(share):
            line.add(f"{self.pick(WORDS['prepositions'])}/IN")
            self.noun_phrase(line)

    def acted(self, line: Line, word: int, kind: int = REQUIRED) -> None:
        """The objects of an action that has just been named: one phrase, two, two that exclude each other, or none."""
        draw = self.rng.random()
        if draw < 0.07:
            line.add(f"{self.pick(WORDS['adverbs'])}/RB")
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

    # --- sentences with actions --------------------------------------------------------------

    def imperative(self, line: Line) -> None:
        """Open the lid and pour in the oil."""
        if self.chance(0.2):
            line.add(f"{self.pick(WORDS['openers'])}/RB")
        elif self.chance(0.15):
            self.place(line, 1)
        self.acted(line, self.verb(line))
        self.place(line, 0.1)
        if self.chance(0.7):
            line.add("and/CC then/RB" if self.chance(0.3) else "and/CC")
            self.acted(line, self.verb(line))

    def purpose(self, line: Line) -> None:
        """To open the panel press the button."""
        line.add("to/TO")
        self.clause(line)
        self.acted(line, self.verb(line))

    def condition(self, line: Line) -> None:
        """If the lid opens close it; if you want to clean the lid wash it (which is optional)."""
        if self.chance(0.5):
            line.add("if/IN")
            self.noun_phrase(line)
            line.add(f"{self.pick(WORDS['events'])}/VBZ")
            self.acted(line, self.verb(line))
            return
        line.add("if/IN you/PRP want/VBP to/TO")
        self.clause(line)
        self.acted(line, self.verb(line), OPTIONAL)

    def advice(self, line: Line) -> None:
        """You need to press the button."""
        self.begun(line, WORDS["advice"], REQUIRED)

    def option(self, line: Line) -> None:
        """You can also press the button."""
        self.begun(line, WORDS["option"], OPTIONAL)

    def begun(self, line: Line, starts: tuple[str, ...], kind: int) -> None:
        """One of the beginnings, and an action."""
        line.add(starts[self.rng.integers(len(starts))])
        self.acted(line, self.verb(line), kind)

    def alternative(self, line: Line) -> None:
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

    def beginning(self, line: Line) -> None:
        """Start by mixing the flour; after mixing the flour wash the bowl."""
        if self.chance(0.5):
            line.add("begin/VB by/IN" if self.chance(0.5) else "try/VB")
            self.acted(line, self.verb(line, "VBG"))
            return
        line.add("after/IN" if self.chance(0.5) else "before/IN")
        self.verb(line, "VBG")
        self.noun_phrase(line)
        self.acted(line, self.verb(line))

    def again(self, line: Line, previous: Line) -> None:
        """Wash it well: the object stands in the previous sentence."""
        word = self.verb(line)
        line.add("it/PRP")
        line.acts.append(Act(word, REQUIRED, [], earlier=previous.objects))
        if self.chance(0.5):
            line.add(f"{self.pick(WORDS['adverbs'])}/RB")
        else:
            line.add("and/CC")
            self.acted(line, self.verb(line))

    # --- sentences without -------------------------------------------------------------------

    def effect(self, line: Line) -> None:
        """This will open the window; a sharp knife can cut the board."""
        draw = self.rng.random()
        if draw < 0.4:
            line.add("this/DT")
        elif draw < 0.7:
            line.add(f"{self.pick(WORDS['people'])}/NNS")
        else:
            self.noun_phrase(line)
        line.add(f"{self.pick(('will', 'can', 'may', 'could'))}/MD")
        self.clause(line)

    def prohibition(self, line: Line) -> None:
        """Do not open the lid."""
        line.add("do/VB not/RB" if self.chance(0.6) else "never/RB")
        self.clause(line)

    def description(self, line: Line) -> None:
        """The window opens; the lid is warm; make sure the lid is warm."""
        if self.chance(0.3):
            line.add("make/VB sure/JJ")
        self.noun_phrase(line)
        if self.chance(0.4):
            line.add(f"{self.pick(WORDS['events'])}/VBZ")
            self.place(line, 0.4)
        elif self.chance(0.5):
            line.add(f"is/VBZ {self.pick(WORDS['states'])}/JJ")
        else:
            self.verb(line, "VBZ")
            self.noun_phrase(line)

    def sentence(self, previous: Line | None) -> Line:
        line = Line()
        if previous is not None and previous.objects and self.chance(0.12):
            self.again(line, previous)
        else:
            forms: dict[Callable[[Line], None], float] = {
                self.imperative: 0.5, self.purpose: 0.08, self.condition: 0.08, self.advice: 0.08, self.option: 0.05,
                self.alternative: 0.03, self.beginning: 0.06, self.effect: 0.05, self.prohibition: 0.04,
                self.description: 0.05,
            }  # fmt: skip
            shares = np.array(list(forms.values()))
            list(forms)[int(self.rng.choice(len(forms), p=shares / shares.sum()))](line)
        line.words[0] = line.words[0].capitalize()
        return line
