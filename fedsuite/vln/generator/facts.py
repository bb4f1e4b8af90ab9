"""What can truly be said about a route through a generated house, as facts in walking order; see `routes.Fact`.

Angles in degrees, right positive; distances in metres.
"""

import math
from itertools import groupby

import numpy as np

from fedsuite.vln.generator.house_plan import House
from fedsuite.vln.generator.panoramas import BOTTOM, LANDING, NO_STAIRS, TOP
from fedsuite.vln.generator.routes import Fact, Route, Visit, doors_on_side, wrapped_degrees

STRAIGHT_DEG, AROUND_DEG, TURN_DEG = 25.0, 140.0, 32.0
PASS_M, STOP_M, AT_M, TOWARD_DEG = 2.2, 2.3, 1.8, 18.0
_STEEP_M = 0.5
# Parts of the building that do not serve as landmarks by themselves.
_NO_LANDMARK = ("door", "window")


def way_of(degrees: float) -> str:
    """Left, right, straight or around."""
    if abs(degrees) < STRAIGHT_DEG:
        return "straight"
    if abs(degrees) > AROUND_DEG:
        return "around"
    return "right" if degrees > 0 else "left"


def route_facts(route: Route) -> list[Fact]:
    """All facts, by position; those about the goal come last."""
    first = float(route.turns[0])
    facts = [Fact("start", 0.0, way_of(first), first)]
    facts += _turn_facts(route) + _visit_facts(route) + _stair_facts(route)
    facts += _pass_facts(route) + _ahead_facts(route)
    return sorted(facts, key=lambda f: f.at) + stop_facts(route)


def _on_stairs(route: Route) -> list[float]:
    """Rise of every step, 0 where level."""
    rise = np.diff(route.points[:, 2])
    return np.where(np.abs(rise) > _STEEP_M, rise, 0.0).tolist()


def _turn_facts(route: Route) -> list[Fact]:
    """Turns between steps; two in short succession are one, or none if they cancel."""
    rise, turns = _on_stairs(route), route.turns.tolist()
    lengths = np.linalg.norm(np.diff(route.points, axis=0), axis=1)
    facts, i = [], 1
    while i < len(turns):
        degrees, last = turns[i], i
        near = i + 1 < len(turns) and lengths[i] < 2.0 and not rise[i] and not rise[i + 1]
        if near and abs(turns[i]) > 15 and abs(turns[i + 1]) > 15:
            both = turns[i] + turns[i + 1]
            if turns[i] * turns[i + 1] > 0 or abs(both) < TURN_DEG:
                degrees, last = both, i + 1
        if abs(degrees) >= TURN_DEG and not rise[i]:
            way = "right" if degrees > 0 else "left"
            thing, room = _thing_near(route, i), _hall_end(route, i)
            facts.append(Fact("turn", float(i), way, degrees, float(last), thing, room))
        i = last + 1
    return facts


def _landmarks(house: House, near: np.ndarray, node: int) -> list[int]:
    """Of the objects that are near [O] those that one sees from a panorama, in its room."""
    return [
        k for k in np.flatnonzero(near & house.sees[node]).tolist()
        if house.things[k].about.name not in _NO_LANDMARK and house.things[k].room == house.room[node]
    ]  # fmt: skip


def _thing_near(route: Route, node: int) -> int:
    """The most telling object beside a node, -1 if there is none."""
    house, at = route.house, route.path[node]
    gap = np.linalg.norm(house.thing_position_m[:, :2] - house.position_m[at, :2], axis=1)
    value = [thing.about.salience / (0.5 + g) for thing, g in zip(house.things, gap, strict=True)]
    return max(_landmarks(house, gap < AT_M, at), key=value.__getitem__, default=-1)


def _hall_end(route: Route, node: int) -> int:
    """The corridor at whose end this node is, after a walk along it; else -1."""
    house, visit = route.house, route.visit_at(float(node))
    room = house.rooms[visit.room]
    if room.tag != "hall" or house.room[route.path[node]] != visit.room:
        return -1
    start, here = route.point_at(visit.enter)[:2], route.points[node, :2]
    if np.linalg.norm(here - start) < 2.5:
        return -1
    x0, y0, x1, y1 = room.rect
    axis = 0 if x1 - x0 > y1 - y0 else 1
    end = room.rect[axis + 2] if here[axis] > start[axis] else room.rect[axis]
    return visit.room if abs(end - here[axis]) < 1.9 else -1


def _visit_facts(route: Route) -> list[Fact]:
    """Doors walked through, corridors walked along, rooms walked through."""
    house, facts = route.house, []
    for k, visit in enumerate(route.visits):
        tag = house.rooms[visit.room].tag
        if k and visit.door >= 0 and house.doors[visit.door].kind != "opening":
            facts.append(_cross(route, route.visits[k - 1], visit))
        walked = float(np.linalg.norm(route.point_at(visit.leave) - route.point_at(visit.enter)))
        if tag == "hall" and walked > 2.8:
            facts.append(Fact("along", visit.enter + 1e-3, last=visit.leave, room=visit.room))
        elif tag not in ("hall", "stairs") and walked > 2.5 and 0 < k < len(route.visits) - 1:
            facts.append(Fact("through", visit.enter + 1e-3, last=visit.leave, room=visit.room))
    return facts


def _cross(route: Route, before: Visit, visit: Visit) -> Fact:
    """A doorway; with its number on its side if it is reached along a corridor."""
    house, door = route.house, route.house.doors[visit.door]
    way, ordinal = "", 0
    if house.rooms[before.room].tag == "hall":
        along = route.point_at(visit.enter)[:2] - route.point_at(before.enter)[:2]
        number = doors_on_side(route, door, before)
        walked = abs(along[1] if door.vertical else along[0])
        if number and walked > 1.5:
            room = house.rooms[visit.room].rect
            away = ((room[0] + room[2]) / 2 - door.x, (room[1] + room[3]) / 2 - door.y)
            cross = -along[1] * away[0] if door.vertical else along[0] * away[1]
            way, ordinal = "left" if cross > 0 else "right", number
    return Fact(
        "cross", visit.enter, way, last=visit.enter, room=visit.room, source=before.room, door=visit.door,
        ordinal=ordinal,
    )  # fmt: skip


def _stair_facts(route: Route) -> list[Fact]:
    """Runs of steps that rise or fall."""
    facts, e = [], 0
    for sign, steps in groupby(np.sign(_on_stairs(route)).tolist()):
        end = e + len(list(steps))
        if sign:
            facts.append(Fact("stairs", float(e), "up" if sign > 0 else "down", last=float(end)))
        e = end
    return facts


def _pass_facts(route: Route) -> list[Fact]:
    """Objects beside the way, in rooms that it goes through, with their side."""
    house, where = route.house, route.house.thing_position_m[:, :2]
    best: dict[int, tuple[float, Fact]] = {}
    rise = _on_stairs(route)
    for e in range(len(route.path) - 1):
        if rise[e]:
            continue
        start, gap = route.points[e, :2], (route.points[e + 1] - route.points[e])[:2]
        length = float(np.hypot(*gap))
        offset = where - start
        along = offset @ gap / length
        across = (offset[:, 0] * gap[1] - offset[:, 1] * gap[0]) / length
        seen = house.sees[route.path[e]] | house.sees[route.path[e + 1]]
        near = seen & (np.abs(across) < PASS_M) & (along > 0.1) & (along < length - 0.1)
        for k in np.flatnonzero(near).tolist():
            thing, at = house.things[k], e + float(along[k]) / length
            if thing.about.name in _NO_LANDMARK or thing.room != route.visit_at(at).room:
                continue
            way = "" if abs(across[k]) < 0.4 else ("right" if across[k] > 0 else "left")
            if k not in best or abs(across[k]) < best[k][0]:
                best[k] = (abs(float(across[k])), Fact("pass", at, way, float(across[k]), at, k))
    return [fact for _, fact in best.values()]


def _ahead_facts(route: Route) -> list[Fact]:
    """Objects that a step goes towards, and one that is in front at the start."""
    house, facts, rise = route.house, [], _on_stairs(route)
    for e in range(-1, len(route.path) - 1):
        node = max(e, 0)
        heading = route.heading_rad if e < 0 else float(route.step_headings[e])
        gap = house.thing_position_m[:, :2] - route.points[node, :2]
        distance = np.linalg.norm(gap, axis=1)
        angle = wrapped_degrees(np.pi / 2 - np.arctan2(gap[:, 1], gap[:, 0]) - heading)
        length = 0.5 if e < 0 else float(np.linalg.norm(route.points[e + 1] - route.points[e]))
        good = house.sees[route.path[node]] & (np.abs(angle) < TOWARD_DEG)
        good &= (distance > length + 0.2) & (distance < (4.5 if e < 0 else 8.0))
        for k in np.flatnonzero(good).tolist():
            thing = house.things[k]
            climbing = thing.about.name == "stairs" and bool(rise[node])
            if thing.about.name != "door" and not climbing:
                kind, at = ("facing", 0.0) if e < 0 else ("toward", e + 0.02)
                end = route.points[max(e + 1, 0), :2] - house.thing_position_m[k, :2]
                way = "reach" if e >= 0 and float(np.hypot(*end)) < AT_M else "ahead"
                facts.append(Fact(kind, at, way, float(angle[k]), at, k))
    return facts


def stop_facts(route: Route) -> list[Fact]:
    """Where the goal is: a doorway, stairs, a room, just inside it, beside an object."""
    house, goal, end = route.house, route.path[-1], float(len(route.path) - 1)
    room, last = int(house.room[goal]), route.visits[-1]
    facts = []
    if house.door[goal] >= 0:
        facts.append(Fact("stop-door", end, room=room, door=int(house.door[goal]), last=end))
    if house.stairs[goal] != NO_STAIRS:
        way = {BOTTOM: "bottom", LANDING: "landing", TOP: "top"}[int(house.stairs[goal])]
        facts.append(Fact("stop-stairs", end, way, last=end))
    elif house.rooms[room].tag != "stairs":
        facts.append(Fact("stop-room", end, room=room, last=end))
    if len(route.visits) > 1 and last.door >= 0 and last.room == room and house.door[goal] < 0:
        door = house.doors[last.door]
        if door.kind != "opening" and math.dist((door.x, door.y), house.position_m[goal, :2]) < 2.6:
            facts.append(Fact("stop-inside", end, room=room, door=last.door, last=end))
    return facts + _stop_things(route)


def _stop_things(route: Route) -> list[Fact]:
    """Objects beside the goal that get nearer with the last step."""
    house, goal, end = route.house, route.path[-1], float(len(route.path) - 1)
    where = house.thing_position_m[:, :2]
    now = np.linalg.norm(where - house.position_m[goal, :2], axis=1)
    before = np.linalg.norm(where - house.position_m[route.path[-2], :2], axis=1)
    near = (now < STOP_M) & (now < before)
    return [
        Fact("stop-thing", end, "", float(now[k]), end, k, house.things[k].room)
        for k in _landmarks(house, near, goal)
    ]
