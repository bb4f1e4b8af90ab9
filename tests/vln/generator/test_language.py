"""Instructions of generated houses: what they say is true, and they look like instructions.

The facts behind an instruction are checked against positions with plain arithmetic, and the words
of the text against the facts.
"""

import math
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from fedsuite.vln.data.instructions import tokenize
from fedsuite.vln.generator.catalog import COLOURS, KINDS, MATERIALS, ROOMS
from fedsuite.vln.generator.house_plan import House, draw_house
from fedsuite.vln.generator.houses import UNSEEN_FIRST, AnnotatedPath, HouseSettings, annotate_house
from fedsuite.vln.generator.language import Instruction
from fedsuite.vln.generator.panoramas import BOTTOM, LANDING, TOP
from fedsuite.vln.generator.phrases import RARE_NOUNS, RARE_ROOMS, annotators
from fedsuite.vln.generator.routes import Fact, Route

pytestmark = pytest.mark.slow

SETTINGS = HouseSettings(paths_per_house=40)
Said = tuple[Route, Instruction]


@pytest.fixture(scope="module")
def paths() -> list[AnnotatedPath]:
    numbers = [0, 1, 2, 3, 4, 7, 9, UNSEEN_FIRST, UNSEEN_FIRST + 2]
    return [p for n in numbers for p in annotate_house(SETTINGS, n, draw_house(SETTINGS.seed, n))]


@pytest.fixture(scope="module")
def said(paths: list[AnnotatedPath]) -> list[Said]:
    return [(p.route, i) for p in paths for i in p.instructions]


def facts_of(said: list[Said], *kinds: str) -> list[tuple[Route, Fact]]:
    found = [(route, f) for route, i in said for f in i.facts if f.kind in kinds]
    assert len(found) > 20, f"too few facts of kind {kinds} to check"
    return found


def bearing(a: np.ndarray, b: np.ndarray) -> float:
    """Degrees, 0 = +y, clockwise."""
    return math.degrees(math.atan2(b[0] - a[0], b[1] - a[1]))


def turned_by(before: float, after: float) -> float:
    """Signed turn in degrees, right positive."""
    return (after - before + 180) % 360 - 180


def spot(house: House, thing: int) -> np.ndarray:
    return np.array([house.things[thing].x, house.things[thing].y])


def distance_to_way(route: Route, xy: np.ndarray) -> float:
    """Distance from a place to the route, by fine sampling."""
    points = route.house.position_m[list(route.path)]
    steps = np.linspace(0, 1, 60)[:, None]
    way = np.concatenate([a + steps * (b - a) for a, b in pairwise(points)])
    return float(np.linalg.norm(way[:, :2] - xy, axis=1).min())


def test_first_turns_agree_with_the_heading(said: list[Said]) -> None:
    for route, fact in facts_of(said, "start"):
        points = route.house.position_m[list(route.path)]
        degrees = turned_by(math.degrees(route.heading_rad), bearing(points[0], points[1]))
        if fact.way in ("left", "right"):
            assert (degrees > 0) == (fact.way == "right")
            assert 20 < abs(degrees) < 145
        else:
            assert abs(degrees) < 30 if fact.way == "straight" else abs(degrees) > 135


def test_later_turns_agree_with_the_path(said: list[Said]) -> None:
    for route, fact in facts_of(said, "turn"):
        points = route.house.position_m[list(route.path)]
        first, last = int(fact.at), int(fact.last)
        before = bearing(points[first - 1], points[first])
        after = bearing(points[last], points[last + 1])
        parts = [
            turned_by(bearing(points[i - 1], points[i]), bearing(points[i], points[i + 1]))
            for i in range(first, last + 1)
        ]
        assert turned_by(before, after) == pytest.approx((sum(parts) + 180) % 360 - 180, abs=1e-6)
        assert (sum(parts) > 0) == (fact.way == "right")
        assert abs(sum(parts)) > 30


def test_stairs_go_where_it_is_said(said: list[Said]) -> None:
    for route, fact in facts_of(said, "stairs"):
        z = route.house.position_m[list(route.path), 2]
        rise = z[int(fact.last)] - z[int(fact.at)]
        assert abs(rise) > 1.2
        assert (rise > 0) == (fact.way == "up")


def test_doors_are_walked_through(said: list[Said]) -> None:
    for route, fact in facts_of(said, "cross"):
        house, door = route.house, route.house.doors[fact.door]
        assert {fact.room, fact.source} == set(door.rooms)
        assert distance_to_way(route, np.array([door.x, door.y])) < door.width / 2 + 0.1
        points = house.position_m[list(route.path)]
        e = min(int(fact.at), len(points) - 2)
        here = points[e] + (fact.at - e) * (points[e + 1] - points[e])
        x0, y0, x1, y1 = house.rooms[fact.room].rect
        assert x0 - 0.2 < here[0] < x1 + 0.2
        assert y0 - 0.2 < here[1] < y1 + 0.2


def test_counted_doors_are_on_that_side(said: list[Said]) -> None:
    counted = [(r, f) for r, f in facts_of(said, "cross") if f.ordinal]
    assert len(counted) > 20
    for route, fact in counted:
        house, door = route.house, route.house.doors[fact.door]
        visit = next(v for v in route.visits if v.door == fact.door and v.enter == fact.at)
        hall = route.visits[route.visits.index(visit) - 1]
        start, end = route.point_at(hall.enter), route.point_at(visit.enter)
        wall_axis = 1 if door.vertical else 0
        ahead = np.zeros(2)
        ahead[wall_axis] = np.sign(end[wall_axis] - start[wall_axis])
        rect = house.rooms[fact.room].rect
        into = np.array([(rect[0] + rect[2]) / 2 - door.x, (rect[1] + rect[3]) / 2 - door.y])
        right = ahead[1] * into[0] - ahead[0] * into[1] > 0
        assert right == (fact.way == "right")


def test_objects_passed_are_beside_the_way_and_in_sight(said: list[Said]) -> None:
    for route, fact in facts_of(said, "pass"):
        house, xy = route.house, spot(route.house, fact.thing)
        assert distance_to_way(route, xy) < 2.3
        assert house.sees[list(route.path), fact.thing].any()
        e = int(fact.at)
        a, b = house.position_m[route.path[e], :2], house.position_m[route.path[e + 1], :2]
        side = turned_by(bearing(a, b), bearing(a, xy))
        if fact.way:
            assert (side > 0) == (fact.way == "right")


def test_objects_ahead_are_ahead(said: list[Said]) -> None:
    for route, fact in facts_of(said, "toward"):
        house, e = route.house, int(fact.at)
        a, b = house.position_m[route.path[e], :2], house.position_m[route.path[e + 1], :2]
        xy = spot(house, fact.thing)
        assert abs(turned_by(bearing(a, b), bearing(a, xy))) < 20
        assert house.sees[route.path[e], fact.thing]
        assert np.linalg.norm(xy - a) > np.linalg.norm(b - a)
    for route, fact in facts_of(said, "facing"):
        a = route.house.position_m[route.path[0], :2]
        ahead = bearing(a, spot(route.house, fact.thing))
        assert abs(turned_by(math.degrees(route.heading_rad), ahead)) < 20
        assert route.house.sees[route.path[0], fact.thing]


def test_the_goal_is_where_one_is_told_to_stop(said: list[Said]) -> None:
    kinds: Counter[str] = Counter()
    for route, instruction in said:
        house, goal, stop = route.house, route.path[-1], instruction.facts[-1]
        kinds[stop.kind] += 1
        at = house.position_m[goal, :2]
        if stop.kind == "stop-thing":
            assert np.linalg.norm(spot(house, stop.thing) - at) < 2.4
            assert house.sees[goal, stop.thing]
            assert house.things[stop.thing].room == house.room[goal]
        elif stop.kind == "stop-door":
            door = house.doors[stop.door]
            assert math.dist((door.x, door.y), at) < 0.4
        elif stop.kind == "stop-stairs":
            assert (
                house.stairs[goal] == {"bottom": BOTTOM, "landing": LANDING, "top": TOP}[stop.way]
            )
        else:
            assert stop.kind in ("stop-room", "stop-inside")
            x0, y0, x1, y1 = house.rooms[stop.room].rect
            assert x0 < at[0] < x1 and y0 < at[1] < y1
    assert set(kinds) == {"stop-thing", "stop-door", "stop-stairs", "stop-room", "stop-inside"}
    assert kinds["stop-thing"] / len(said) > 0.4


def test_left_and_right_are_said_only_where_a_fact_says_so(said: list[Said]) -> None:
    for _, instruction in said:
        text = re.sub(r"right (inside|where)", "", instruction.text.lower())
        ways = {f.way for f in instruction.facts}
        for way in ("left", "right"):
            if re.search(rf"\b{way}\b", text):
                assert way in ways, instruction
        turns = [f for f in instruction.facts if f.kind in ("start", "turn")]
        words = re.findall(r"\b(left|letf|right|rigth)\b", text)
        assert len(words) >= sum(f.way in ("left", "right") for f in turns)


def test_up_and_down_are_said_only_on_stairs(said: list[Said]) -> None:
    up = re.compile(r"\b(up|upstairs|climb)\b")
    down = re.compile(
        r"\b(downstairs|descend)\b|down the (stairs|staris|steps|staircase|flight)| down\b[ .,]*$"
    )
    met: Counter[str] = Counter()
    for _, instruction in said:
        text = re.sub(r"\bend up\b", "", instruction.text.lower())
        ways = {f.way for f in instruction.facts if f.kind == "stairs"}
        for way, pattern in (("up", up), ("down", down)):
            if pattern.search(text):
                assert way in ways, instruction
                met[way] += 1
    assert min(met.values()) > 20


def _mentioned(text: str, names: dict[str, set[str]]) -> list[set[str]]:
    """Kinds that the words of a text may stand for, longest names first."""
    found = []
    for name in sorted(names, key=len, reverse=True):
        pattern = rf"\b{re.escape(name)}\b"
        if re.search(pattern, text):
            found.append(names[name])
            text = re.sub(pattern, " ", text)
    return found


def test_only_rooms_on_the_way_are_named(said: list[Said]) -> None:
    names: dict[str, set[str]] = {}
    for kind, room in ROOMS.items():
        if kind != "stairwell":
            for name in (*room.names, *RARE_ROOMS.get(kind, ())):
                names.setdefault(name, set()).add(kind)
    names |= {"kitchen island": set(ROOMS)}  # an object
    rooms_named = 0
    for route, instruction in said:
        rooms = {route.house.rooms[v.room].kind for v in route.visits}
        for kinds in _mentioned(instruction.text.lower(), names):
            assert kinds & rooms, (instruction.text, kinds, rooms)
            rooms_named += 1
    assert rooms_named > len(said)


def test_only_objects_of_the_facts_are_named(said: list[Said]) -> None:
    names: dict[str, set[str]] = {}
    for kind in KINDS:
        for name in (*kind.nouns, *RARE_NOUNS.get(kind.name, ())):
            names.setdefault(name, set()).add(kind.name)
    for kind in ROOMS.values():
        names.update({n: {"room"} for n in kind.names})
    checked = 0
    for route, instruction in said:
        if annotators()[instruction.annotator].typo:
            continue  # "bed room" would name a bed
        things = {route.house.things[f.thing].about.name for f in instruction.facts if f.thing >= 0}
        things |= {"room", "door", "glass doors", "archway"}
        if any("stairs" in f.kind for f in instruction.facts):
            things.add("stairs")
        for kinds in _mentioned(instruction.text.lower(), names):
            assert kinds & things, (instruction.text, kinds, things)
            checked += 1
    assert checked > len(said)


def test_colours_and_materials_are_those_of_the_objects(said: list[Said]) -> None:
    named = 0
    for route, instruction in said:
        true = set()
        for thing, word in instruction.attributes:
            it = route.house.things[thing]
            true |= {COLOURS[it.colour]} if it.colour >= 0 else set()
            true |= {MATERIALS[it.material]} if it.material >= 0 else set()
            assert word in true
            named += 1
        text = instruction.text.lower().replace("glass doors", "").replace("looking glass", "")
        words = set(re.findall(r"\w+", text)) & {*COLOURS, *MATERIALS}
        assert words == {word for _, word in instruction.attributes}
    assert named > len(said) / 3


def test_landmarks_and_goals_are_mentioned_often(said: list[Said]) -> None:
    on_the_way = [
        any(f.kind in ("pass", "toward", "facing", "turn") and f.thing >= 0 for f in i.facts)
        for _, i in said
    ]
    assert np.mean(on_the_way) > 0.6
    rooms = [any(f.room >= 0 for f in i.facts) for _, i in said]
    assert np.mean(rooms) > 0.9


def test_lengths_and_words_look_like_r2r(said: list[Said]) -> None:
    tokens = [tokenize(i.text) for _, i in said]
    lengths = np.array([len(t) for t in tokens])
    assert 24 < lengths.mean() < 38
    assert lengths.std() > 7
    assert lengths.min() >= 9
    assert lengths.max() <= 65
    counts = Counter(t for text in tokens for t in text)
    assert 230 < len(counts) < 600
    assert 15 < sum(n < 5 for n in counts.values()) < 150
    assert len({tuple(t) for t in tokens}) > 0.99 * len(tokens)


def test_people_write_differently(said: list[Said]) -> None:
    texts = [i.text for _, i in said]
    assert any(t == t.lower() for t in texts)
    assert any(t == t.upper() for t in texts)
    assert any(not t.rstrip().endswith(".") for t in texts)
    assert any("rigth" in t or "letf" in t or "trun" in t for t in texts)
    assert len({i.annotator for _, i in said}) > 20


def test_the_same_path_gets_the_same_words_again() -> None:
    house = draw_house(SETTINGS.seed, 3)
    first, again = (annotate_house(SETTINGS, 3, house) for _ in range(2))
    assert [p.entry() for p in first] == [p.entry() for p in again]
