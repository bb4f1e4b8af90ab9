"""Instructions for routes through generated houses, in the manner of R2R (Anderson et al. 2018).

A simulated annotator picks some of the facts of a route (never all), words them in his own way and makes sentences of them.
What was said is returned beside the text, fact by fact, so that it can be checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedsuite.vln import house_phrases as words
from fedsuite.vln.house_catalog import COLOURS, MATERIALS, ROOMS
from fedsuite.vln.house_facts import route_facts
from fedsuite.vln.house_phrases import Annotator, annotators
from fedsuite.vln.house_routes import Fact, Route

MIN_WORDS, MAX_WORDS = 9, 58
_RARE = 0.004
_TRIES = 8
_SLIGHT_DEG, _SHARP_DEG = 55.0, 125.0


@dataclass(frozen=True)
class Instruction:
    """text and the facts it states, in order; attributes: (thing, colour or material word) that were named."""

    text: str
    facts: tuple[Fact, ...]
    attributes: tuple[tuple[int, str], ...]
    annotator: int


def describe(route: Route, rng: np.random.Generator, number: int = 3) -> list[Instruction]:
    """`number` instructions by different annotators."""
    people, facts = annotators(), route_facts(route)
    chosen = rng.choice(len(people), number, replace=False).tolist()
    return [_describe_as(route, facts, rng, people[k], k) for k in chosen]


def _describe_as(
    route: Route, facts: Sequence[Fact], rng: np.random.Generator, person: Annotator, index: int
) -> Instruction:
    """One instruction of a usual length; the last try counts whatever its length."""
    for _ in range(_TRIES):
        speaker = _Speaker(route, rng, person)
        picked = _pick(route, facts, rng, person)
        clauses = [speaker.clause(f, picked[k - 1] if k else None) for k, f in enumerate(picked)]
        text = _sentences(clauses, rng, person)
        if MIN_WORDS <= len(text.split()) <= MAX_WORDS:
            break
    return Instruction(_slips(text, rng, person), tuple(picked), tuple(speaker.attributes), index)


def _pick(
    route: Route, facts: Sequence[Fact], rng: np.random.Generator, person: Annotator
) -> list[Fact]:
    """What this person mentions, in walking order."""
    stop = _pick_stop(route, facts, rng)
    used = {f.thing for f in stop if f.kind == "stop-thing"}
    chance = {
        "turn": person.detail, "cross": person.detail, "stairs": 0.98, "along": 0.35 * person.detail,
        "through": 0.5 * person.detail,
    }  # fmt: skip
    picked = [f for f in facts if f.kind in chance and rng.random() < chance[f.kind]]
    start = facts[0]
    if rng.random() < (0.7 if start.way == "around" else 0.25 if start.way == "straight" else 0.6):
        picked.append(start)
    picked += _pick_landmarks(route, facts, rng, person, used)
    picked = [f for f in picked if not _said_by_stop(f, stop)]
    order = {"facing": 0, "start": 1, "turn": 2, "toward": 3}
    return sorted(picked, key=lambda f: (f.at, order.get(f.kind, 4))) + stop


def _said_by_stop(fact: Fact, stop: Sequence[Fact]) -> bool:
    """The last doorway is not entered if one stops in it."""
    return fact.kind == "cross" and any(s.kind == "stop-door" and s.door == fact.door for s in stop)


def _pick_landmarks(
    route: Route, facts: Sequence[Fact], rng: np.random.Generator, person: Annotator, used: set[int]
) -> list[Fact]:
    """Objects along the way, telling ones first, each once and no two at the same place."""
    pool = [f for f in facts if f.kind in ("pass", "toward", "facing")]
    kind_weight = {"pass": 1.0, "toward": 0.8, "facing": 0.25}
    count = int(person.landmarks + rng.random())
    picked: list[Fact] = []
    while pool and len(picked) < count:
        weight = np.array([
            kind_weight[f.kind] * (0.15 + route.house.things[f.thing].about.salience ** 2) for f in pool
        ])  # fmt: skip
        fact = pool[int(rng.choice(len(pool), p=weight / weight.sum()))]
        if fact.thing not in used:
            picked.append(fact)
            used.add(fact.thing)
        pool = [f for f in pool if f.thing not in used and abs(f.at - fact.at) > 0.5]
    return picked


def _pick_stop(route: Route, facts: Sequence[Fact], rng: np.random.Generator) -> list[Fact]:
    """Where to stop: mostly a doorway, stairs or an object, often with the room."""
    by_kind = {f.kind: f for f in facts if f.kind.startswith("stop-")}
    things = [f for f in facts if f.kind == "stop-thing"]
    if "stop-door" in by_kind and rng.random() < 0.85:
        return [by_kind["stop-door"]]
    if "stop-stairs" in by_kind and (not things or rng.random() < 0.85):
        return [by_kind["stop-stairs"]]
    if "stop-inside" in by_kind and rng.random() < 0.4:
        return [by_kind["stop-inside"]]
    if things and rng.random() < 0.88:
        weight = np.array([
            (0.1 + route.house.things[f.thing].about.salience ** 2) / (0.7 + f.degrees) for f in things
        ])  # fmt: skip
        return [things[int(rng.choice(len(things), p=weight / weight.sum()))]]
    return [by_kind.get("stop-room") or by_kind.get("stop-stairs") or by_kind["stop-door"]]


@dataclass
class _Speaker:
    """Words facts; keeps which attributes were named."""

    route: Route
    rng: np.random.Generator
    person: Annotator
    attributes: list[tuple[int, str]] = field(default_factory=list)

    def clause(self, fact: Fact, before: Fact | None) -> str:
        """A clause in the imperative, without capital and full stop."""
        if fact.kind.startswith("stop-"):
            return self._stop(fact)
        if fact.kind in ("start", "turn"):
            return self._turn(fact, before)
        if fact.kind == "cross":
            return self._cross(fact)
        if fact.kind == "stairs":
            return self._say(words.UP if fact.way == "up" else words.DOWN)
        if fact.kind in ("along", "through"):
            room = self._room(fact.room)
            return self._say(words.ALONG if fact.kind == "along" else words.THROUGH, hall=room, room=room)
        thing = self._thing(fact.thing)
        if fact.kind == "pass":
            side = fact.way and self.rng.random() < self.person.side
            return self._say(words.PASS, thing=thing) + (f" on {self._the()} {fact.way}" if side else "")
        if fact.kind == "toward":
            return self._say(words.TOWARD, words.RARE_TOWARD, thing=thing)
        return self._say(words.FACING, thing=thing)

    def _turn(self, fact: Fact, before: Fact | None) -> str:
        if fact.kind == "start" and fact.way in ("straight", "around"):
            if fact.way == "around":
                return self._say(words.AROUND)
            return self._say(words.STRAIGHT, words.RARE_STRAIGHT)
        size = abs(fact.degrees)
        forms = words.TURN
        if size < _SLIGHT_DEG and self.rng.random() < 0.75:
            forms = words.SLIGHT
        elif size > _SHARP_DEG:
            forms = words.SHARP
        return self._say(forms, way=fact.way) + self._where(fact, before)

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
            return " " + self._say(words.AT_THING, thing=self._thing(fact.thing))
        return ""

    def _cross(self, fact: Fact) -> str:
        rooms = self.route.house.rooms
        door = self._door(fact.door)
        source, room = self._room(fact.source), self._room(fact.room)
        if rooms[fact.room].tag == "hall":
            forms = words.LEAVE if self.rng.random() < 0.7 else words.LEAVE_INTO
        elif rooms[fact.source].tag == "hall":
            counted = fact.way and 0 < fact.ordinal < len(words.ORDINALS) and self.rng.random() < 0.5
            forms = words.ENTER_SIDE if counted else words.ENTER
        else:
            forms = (*words.ENTER, *words.LEAVE_INTO)
        number = words.ORDINALS[fact.ordinal] if fact.ordinal < len(words.ORDINALS) else ""
        return self._say(forms, door=door, source=source, room=room, way=fact.way, number=number)

    def _stop(self, fact: Fact) -> str:
        verb = words.STOP[int(self.rng.integers(len(words.STOP)))]
        if fact.kind == "stop-thing":
            place = self._say(words.STOP_THING, words.RARE_STOP_THING, thing=self._thing(fact.thing))
            tag = self.route.house.rooms[fact.room].tag
            if self.rng.random() < (0.5 if tag != "hall" else 0.2):
                place += f" in the {self._room(fact.room)}"
        elif fact.kind == "stop-stairs":
            place = self._say(words.STOP_STAIRS[fact.way])
        elif fact.kind == "stop-room":
            place = self._say(words.STOP_ROOM, room=self._room(fact.room))
        elif fact.kind == "stop-inside":
            place = self._say(words.STOP_INSIDE, room=self._room(fact.room), door=self._door(fact.door))
        else:
            forms = words.STOP_DOOR if self.route.house.doors[fact.door].kind == "door" else words.STOP_ARCH
            place = self._say(forms, room=self._room(fact.room))
        return f"{verb} {place}" if verb != "wait there" else f"stop {place} and wait there"

    def _say(self, forms: Sequence[str], rare: Sequence[str] = (), **fill: object) -> str:
        """One of the forms, the person's favourites more often."""
        if rare and self.rng.random() < 5 * _RARE:
            forms = rare
        likes = self.person.words % len(forms)
        pick = likes if self.rng.random() < 0.35 else int(self.rng.integers(len(forms)))
        go = words.GO[self.person.words % 3 if self.rng.random() < 0.6 else int(self.rng.integers(len(words.GO)))]
        stairs = words.STAIRS[0 if self.rng.random() < 0.6 else int(self.rng.integers(len(words.STAIRS)))]
        text = forms[pick].format(**{"go": go, "stairs": stairs, **fill})
        if self.rng.random() < 2 * _RARE:
            text += " " + words.ADVERBS[int(self.rng.integers(len(words.ADVERBS)))]
        return text

    def _the(self) -> str:
        return "your" if self.rng.random() < 0.5 else "the"

    def _name(self, names: Sequence[str], rare: Sequence[str], usual: float = 0.7) -> str:
        if rare and self.rng.random() < _RARE:
            return str(self.rng.choice(list(rare)))
        return names[self.person.words % len(names)] if self.rng.random() < usual else names[0]

    def _room(self, room: int) -> str:
        kind = self.route.house.rooms[room].kind
        return self._name(ROOMS[kind].names, words.RARE_ROOMS.get(kind, ()))

    def _door(self, door: int) -> str:
        names = words.DOOR_NOUNS[self.route.house.doors[door].kind]
        return names[int(self.rng.integers(len(names)))]

    def _thing(self, thing: int) -> str:
        """Noun with colour and material, which are said when it would be mistaken for another one."""
        it, things = self.route.house.things[thing], self.route.house.things
        twins = [t for t in things if t.kind == it.kind and t.room == it.room and t is not it]
        said = []
        for names, value, share in (
            (COLOURS, it.colour, 1.0),
            (MATERIALS, it.material, 0.5),
        ):
            needed = any((t.colour, t.material) != (it.colour, it.material) for t in twins)
            wish = min(1.0, self.person.colour * share + (0.3 if needed else 0.0))
            if value >= 0 and self.rng.random() < wish:
                said.append(names[value])
                self.attributes.append((thing, names[value]))
        noun = self._name(it.about.nouns, words.RARE_NOUNS.get(it.about.name, ()))
        return " ".join([*said, noun])


def _sentences(clauses: list[str], rng: np.random.Generator, person: Annotator) -> str:
    """Clauses joined in the person's way, capitals and full stops."""
    sentences: list[list[str]] = []
    most = {"sentences": 2, "commas": 5, "then": 3}[person.glue]
    for k, clause in enumerate(clauses):
        last = k == len(clauses) - 1
        if not sentences or len(sentences[-1]) >= int(rng.integers(1, most + 1)):
            sentences.append([])
        elif last and rng.random() < 0.5:
            sentences.append([])
        sentences[-1].append(clause)
    text = [_joined(parts, rng, person, k > 0) for k, parts in enumerate(sentences)]
    return " ".join(text)


def _joined(parts: list[str], rng: np.random.Generator, person: Annotator, later: bool) -> str:
    first = parts[0]
    if later and person.glue == "then" and rng.random() < 0.4 and not first.startswith("then"):
        first = "then " + first
    out = first[0].upper() + first[1:]
    for k, part in enumerate(parts[1:], 1):
        link = ", " if k < len(parts) - 1 or rng.random() < 0.3 else " and "
        if person.glue == "then" and rng.random() < 0.5 and not part.startswith("then"):
            link = ", then " if rng.random() < 0.6 else " and then "
        if link.endswith("and ") and part.startswith("then"):
            link = ", "
        if link == ", " and not part.startswith("then") and k == len(parts) - 1 and rng.random() < 0.5:
            link = ", and "
        out += link + part
    return out + "."


def _slips(text: str, rng: np.random.Generator, person: Annotator) -> str:
    """Typing: misspelt words, capitals, a missing or superfluous end."""
    tokens = []
    for token in text.split(" "):
        bare = token.rstrip(".,").lower()
        if bare in words.MISSPELT and rng.random() < person.typo:
            token = words.MISSPELT[bare] + token[len(bare) :]
        tokens.append(token)
    text = " ".join(tokens)
    if person.case == "lower":
        text = text.lower()
    elif person.case == "upper":
        text = text.upper()
    if rng.random() < 0.06:
        text = text.rstrip(".")
    return text + (" " if rng.random() < 0.25 else "")
