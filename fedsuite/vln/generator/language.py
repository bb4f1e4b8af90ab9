"""Instructions for routes through generated houses, in the manner of R2R (Anderson et al. 2018).

A simulated annotator picks some of the facts of a route (never all), words them in his own way and makes sentences of
them. What was said is returned beside the text, fact by fact, so that it can be checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsuite.vln.generator.facts import route_facts
from fedsuite.vln.generator.phrases import MISSPELT, Annotator, annotators
from fedsuite.vln.generator.routes import Fact, Route
from fedsuite.vln.generator.wording import Speaker

MIN_WORDS, MAX_WORDS = 9, 48
_TRIES = 8
# Beginnings of clauses that cannot stand alone.
_OPENINGS = ("with ", "start facing", "you start")


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
    """One instruction of a usual length: says less after a long try, more after a short one."""
    keep = 1.0
    for _ in range(_TRIES):
        speaker = Speaker(route, rng, person)
        picked = _pick(route, facts, rng, person, keep)
        text = _sentences(speaker.clauses(picked), rng, person)
        length = len(text.split())
        if MIN_WORDS <= length <= MAX_WORDS:
            break
        keep *= 1.25 if length < MIN_WORDS else 0.8
    text = _with_slips(text, rng, person)
    return Instruction(text, tuple(picked), tuple(speaker.attributes), index)


def _pick(
    route: Route, facts: Sequence[Fact], rng: np.random.Generator, person: Annotator, keep: float
) -> list[Fact]:
    """What this person mentions, in walking order; `keep` scales how much."""
    stop = _pick_stop(route, facts, rng)
    used = {f.thing for f in stop if f.kind == "stop-thing"}
    chance = {
        "turn": person.detail, "cross": person.detail, "stairs": 0.98, "along": 0.35 * person.detail,
        "through": 0.5 * person.detail,
    }  # fmt: skip
    picked = [f for f in facts if f.kind in chance and rng.random() < keep * chance[f.kind]]
    start = facts[0]
    if rng.random() < (0.7 if start.way == "around" else 0.25 if start.way == "straight" else 0.6):
        picked.append(start)
    picked += _pick_landmarks(route, facts, rng, keep * person.landmarks, used)
    # The last doorway is not entered if one stops in it.
    stop_doors = [f.door for f in stop if f.kind == "stop-door"]
    picked = [f for f in picked if f.kind != "cross" or f.door not in stop_doors]
    order = {"facing": 0, "start": 1, "turn": 2, "toward": 3}
    return sorted(picked, key=lambda f: (f.at, order.get(f.kind, 4))) + stop


def _pick_landmarks(
    route: Route, facts: Sequence[Fact], rng: np.random.Generator, number: float, used: set[int]
) -> list[Fact]:
    """Objects along the way, telling ones first, each once and no two at the same place."""
    pool = [f for f in facts if f.kind in ("pass", "toward", "facing")]
    kind_weight = {"pass": 1.0, "toward": 0.8, "facing": 0.45}
    count = int(number + rng.random())
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
    for kind, share in (("stop-door", 0.85), ("stop-stairs", 0.85), ("stop-inside", 0.4)):
        sure = kind == "stop-stairs" and not things
        if kind in by_kind and (sure or rng.random() < share):
            return [by_kind[kind]]
    if things and rng.random() < 0.88:
        weight = np.array([
            (0.1 + route.house.things[f.thing].about.salience ** 2) / (0.7 + f.degrees) for f in things
        ])  # fmt: skip
        return [things[int(rng.choice(len(things), p=weight / weight.sum()))]]
    return [by_kind.get("stop-room") or by_kind.get("stop-stairs") or by_kind["stop-door"]]


def _sentences(clauses: list[str], rng: np.random.Generator, person: Annotator) -> str:
    """Clauses joined in the person's way, capitals and full stops."""
    parts: list[list[str]] = []
    most = {"sentences": 2, "commas": 5, "then": 3}[person.glue]
    for k, clause in enumerate(clauses):
        last = k == len(clauses) - 1
        full = bool(parts) and len(parts[-1]) >= int(rng.integers(1, most + 1))
        alone = bool(parts) and len(parts[-1]) == 1 and parts[-1][0].startswith(_OPENINGS)
        if not parts or ((full or (last and rng.random() < 0.5)) and not alone):
            parts.append([])
        parts[-1].append(clause)
    text = [_joined(p, rng, person, k > 0) for k, p in enumerate(parts)]
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
        if parts[k - 1].startswith(_OPENINGS):
            link = ", "
        elif link == ", " and not part.startswith("then") and k == len(parts) - 1:
            link = ", and " if rng.random() < 0.5 else link
        out += link + part
    return out + "."


def _with_slips(text: str, rng: np.random.Generator, person: Annotator) -> str:
    """Typing: misspelt words, capitals, a missing or superfluous end."""
    tokens = []
    for token in text.split(" "):
        bare = token.rstrip(".,").lower()
        if bare in MISSPELT and rng.random() < person.typo:
            token = MISSPELT[bare] + token[len(bare) :]
        tokens.append(token)
    text = " ".join(tokens)
    if person.case == "lower":
        text = text.lower()
    elif person.case == "upper":
        text = text.upper()
    if rng.random() < 0.06:
        text = text.rstrip(".")
    return text + (" " if rng.random() < 0.25 else "")
