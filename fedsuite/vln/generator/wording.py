"""How a simulated annotator words single facts of a route; see phrases.py for the words."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedsuite.vln.generator.catalog import COLOURS, MATERIALS, ROOMS
from fedsuite.vln.generator.phrases import (
    DOOR_NOUNS,
    FORMS,
    RARE_NOUNS,
    RARE_ROOMS,
    WORDS,
    Annotator,
)
from fedsuite.vln.generator.routes import Fact, Route

_RARE = 0.004
_SLIGHT_DEG, _SHARP_DEG = 55.0, 125.0


@dataclass
class Speaker:
    """Words facts; keeps which attributes were named."""

    route: Route
    rng: np.random.Generator
    person: Annotator
    attributes: list[tuple[int, str]] = field(default_factory=list)
    _plain_turn: bool = False  # whether the last turn was said without a place

    def clauses(self, facts: Sequence[Fact]) -> list[str]:
        """One clause per fact; a turn right before a door may share its clause."""
        out: list[str] = []
        before: Fact | None = None
        for fact in facts:
            if before is not None and self._turns_into(before, fact):
                out[-1] = f"{out[-1]} into the {self._room(fact.room)}"
            else:
                out.append(self._clause(fact, before))
            before = fact
        return out

    def _turns_into(self, before: Fact, fact: Fact) -> bool:
        """Whether a door lies on the step right after a turn, and this is said in one breath."""
        turn = before.kind in ("start", "turn") and before.way in ("left", "right")
        close = fact.kind == "cross" and 0 <= fact.at - before.last <= 1.0
        return turn and close and self._plain_turn and self.rng.random() < 0.45

    def _clause(self, fact: Fact, before: Fact | None) -> str:
        """A clause in the imperative, without capital and full stop."""
        if fact.kind.startswith("stop-"):
            return self._stop(fact)
        if fact.kind in ("start", "turn"):
            return self._turn(fact, before)
        if fact.kind == "cross":
            return self._cross(fact)
        if fact.kind == "stairs":
            return self._say(fact.way)
        if fact.kind in ("along", "through"):
            room = self._room(fact.room)
            return self._say(fact.kind, hall=room, room=room)
        thing = self._thing(fact.thing)
        if fact.kind == "pass":
            side = fact.way and self.rng.random() < self.person.side
            out = self._say("pass", thing=thing)
            whose = "the" if not side or self.rng.random() >= 0.5 else "your"
            return f"{out} on {whose} {fact.way}" if side else out
        if fact.way == "reach":
            return self._say("toward", "reach", thing=thing)
        return self._say(fact.kind, thing=thing)

    def _turn(self, fact: Fact, before: Fact | None) -> str:
        if fact.kind == "start" and fact.way in ("straight", "around"):
            return self._say(fact.way)
        size, form = abs(fact.degrees), "turn"
        if size < _SLIGHT_DEG and self.rng.random() < 0.75:
            form = "slight"
        elif size > _SHARP_DEG:
            form = "sharp"
        where = self._where(fact, before)
        self._plain_turn = not where
        return self._say(form, way=fact.way) + where

    def _where(self, fact: Fact, before: Fact | None) -> str:
        """Where to turn, sometimes."""
        draw = self.rng.random()
        if fact.kind == "start":
            return ""
        if before is not None and before.kind == "stairs" and before.last == fact.at and draw < 0.6:
            return f" at the {'top' if before.way == 'up' else 'bottom'} of the stairs"
        if fact.room >= 0 and draw < 0.5:
            return f" at the end of the {self._room(fact.room)}"
        if fact.thing >= 0 and draw < 0.45:
            return " " + self._say("at a thing", thing=self._thing(fact.thing))
        return ""

    def _cross(self, fact: Fact) -> str:
        rooms = self.route.house.rooms
        door = self._door(fact.door)
        source, room = self._room(fact.source), self._room(fact.room)
        ordinals = WORDS["ordinal"]
        forms = ["enter", "leave into"]
        if rooms[fact.room].tag == "hall":
            forms = ["leave" if self.rng.random() < 0.7 else "leave into"]
        elif rooms[fact.source].tag == "hall":
            counted = fact.way and 0 < fact.ordinal < len(ordinals) and self.rng.random() < 0.5
            forms = ["enter on a side" if counted else "enter"]
        number = ordinals[fact.ordinal] if fact.ordinal < len(ordinals) else ""
        return self._say(*forms, door=door, source=source, room=room, way=fact.way, number=number)

    def _stop(self, fact: Fact) -> str:
        verb = self._drawn(WORDS["stop"])
        if fact.kind == "stop-thing":
            place = self._say(fact.kind, thing=self._thing(fact.thing))
            tag = self.route.house.rooms[fact.room].tag
            if self.rng.random() < (0.5 if tag != "hall" else 0.2):
                place += f" in the {self._room(fact.room)}"
        elif fact.kind == "stop-stairs":
            place = self._say(f"stop-{fact.way}")
        elif fact.kind == "stop-inside":
            place = self._say(fact.kind, room=self._room(fact.room), door=self._door(fact.door))
        else:
            door = fact.kind == "stop-door" and self.route.house.doors[fact.door].kind != "door"
            place = self._say("stop-archway" if door else fact.kind, room=self._room(fact.room))
        return f"{verb} {place}" if verb != "wait there" else f"stop {place} and wait there"

    def _drawn(self, words: Sequence[str]) -> str:
        """One of the words, all equally likely."""
        return words[int(self.rng.integers(len(words)))]

    def _say(self, *forms: str, **fill: object) -> str:
        """A phrase in one of the forms, the person's favourites more often."""
        phrases = [phrase for form in forms for phrase in FORMS[form]]
        rare = FORMS.get(f"rare {forms[0]}", ())
        if rare and self.rng.random() < 5 * _RARE:
            phrases = list(rare)
        likes = phrases[self.person.words % len(phrases)]
        phrase = likes if self.rng.random() < 0.35 else self._drawn(phrases)
        go, stairs = WORDS["go"], WORDS["stairs"]
        go_word = go[self.person.words % 3] if self.rng.random() < 0.6 else self._drawn(go)
        stairs_word = stairs[0] if self.rng.random() < 0.6 else self._drawn(stairs)
        text = phrase.format(**{"go": go_word, "stairs": stairs_word, **fill})
        if self.rng.random() < 2 * _RARE:
            text += " " + self._drawn(WORDS["adverb"])
        return text

    def _name(self, names: Sequence[str], rare: Sequence[str], usual: float = 0.7) -> str:
        if rare and self.rng.random() < _RARE:
            return str(self.rng.choice(list(rare)))
        return names[self.person.words % len(names)] if self.rng.random() < usual else names[0]

    def _room(self, room: int) -> str:
        kind = self.route.house.rooms[room].kind
        return self._name(ROOMS[kind].names, RARE_ROOMS.get(kind, ()))

    def _door(self, door: int) -> str:
        return self._drawn(DOOR_NOUNS[self.route.house.doors[door].kind])

    def _thing(self, thing: int) -> str:
        """Noun with colour and material, which are said when it would be mistaken for another one."""
        it, things = self.route.house.things[thing], self.route.house.things
        twins = [t for t in things if t.kind == it.kind and t.room == it.room and t is not it]
        said = []
        for names, value, share in ((COLOURS, it.colour, 1.0), (MATERIALS, it.material, 0.5)):
            needed = any((t.colour, t.material) != (it.colour, it.material) for t in twins)
            wish = min(1.0, self.person.colour * share + (0.3 if needed else 0.0))
            if value >= 0 and self.rng.random() < wish:
                said.append(names[value])
                self.attributes.append((thing, names[value]))
        noun = self._name(it.about.nouns, RARE_NOUNS.get(it.about.name, ()))
        return " ".join([*said, noun])
