"""Routes of generated houses: which paths are annotated, and what can truly be said about one.

Paths are metric shortest paths of 4-7 panoramas and at least 5 m, as in R2R (Anderson et al. 2018). Instructions are
made of facts only, and keep them, so that they can be checked against the geometry.

Positions along a route are counted in nodes: 2.4 is 40 % of the way from path[2] to path[3]. Angles in degrees, right
positive.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsuite.vln.generator.house_plan import House
from fedsuite.vln.generator.walls import Door

Span = tuple[int, float, float, float]  # room, from, to, metres
MIN_NODES, MAX_NODES, MIN_LENGTH_M = 4, 7, 5.0
_NODE_WEIGHT = {4: 0.2, 5: 1.0, 6: 1.0, 7: 1.1}
_STEP_M = 0.1
_DIP_M = 0.9


@dataclass(frozen=True)
class Visit:
    """A stay in a room between positions `enter` and `leave` of the route; door: entered through it (-1 = none)."""

    room: int
    enter: float
    leave: float
    door: int = -1


@dataclass(frozen=True)
class Fact:
    """One thing that is true of a route. kind: start, turn, cross, along, pass, toward, facing, stairs, stop-...

    at: position along the route; way: left, right, straight, around, up, down, ahead, reach (ahead, and the step ends
    there); degrees: the angle behind it; last: position where it ends; thing, room, source (room left), door: indices
    into the house or -1; ordinal: which door on that side, 0 = not counted.
    """

    kind: str
    at: float
    way: str = ""
    degrees: float = 0.0
    last: float = 0.0
    thing: int = -1
    room: int = -1
    source: int = -1
    door: int = -1
    ordinal: int = 0


@dataclass(frozen=True)
class Route:
    """A path of a house with its initial heading (radians, 0 = +y, clockwise)."""

    house: House
    path: tuple[int, ...]
    heading_rad: float

    @cached_property
    def points(self) -> np.ndarray:
        """Camera positions [n, 3] m."""
        return self.house.position_m[list(self.path)]

    @cached_property
    def step_headings(self) -> np.ndarray:
        """Direction of every step [n - 1] rad."""
        gap = np.diff(self.points, axis=0)
        return np.pi / 2 - np.arctan2(gap[:, 1], gap[:, 0])

    @cached_property
    def turns(self) -> np.ndarray:
        """Turn at every node but the last [n - 1], degrees; the first from the initial heading."""
        before = np.concatenate([[self.heading_rad], self.step_headings[:-1]])
        return wrapped_degrees(self.step_headings - before)

    @cached_property
    def visits(self) -> tuple[Visit, ...]:
        """Rooms in the order they are walked through."""
        pieces = [piece for e in range(len(self.path) - 1) for piece in self._rooms_along(e)]
        visits: list[Visit] = []
        for room, enter, leave, _ in _without_dips(_joined(pieces)):
            door = self._door_between(visits[-1].room, room, enter) if visits else -1
            visits.append(Visit(room, enter, leave, door))
        return tuple(visits)

    def visit_at(self, at: float) -> Visit:
        """The stay at a position."""
        return next((v for v in self.visits if v.enter <= at <= v.leave), self.visits[-1])

    def point_at(self, at: float) -> np.ndarray:
        """Camera position [3] at a position along the route."""
        e = min(int(at), len(self.path) - 2)
        return self.points[e] + (at - e) * (self.points[e + 1] - self.points[e])

    def _rooms_along(self, e: int) -> list[Span]:
        """Short pieces of step e."""
        house, a, b = self.house, self.path[e], self.path[e + 1]
        length = float(np.linalg.norm(self.points[e + 1] - self.points[e]))
        if abs(self.points[e + 1, 2] - self.points[e, 2]) > 0.5:
            pieces = [(int(house.room[a]), e, e + 0.5), (int(house.room[b]), e + 0.5, e + 1.0)]
            return [(room, start, end, length / 2) for room, start, end in pieces]
        number = max(2, math.ceil(length / _STEP_M))
        t = (np.arange(number) + 0.5) / number
        xy = self.points[e, :2] + t[:, None] * (self.points[e + 1, :2] - self.points[e, :2])
        floor = int(house.floor[a])
        ids = [i for i, r in enumerate(house.rooms) if r.floor == floor]
        rect = np.array([house.rooms[i].rect for i in ids])
        inside = (xy[:, None] >= rect[:, :2]) & (xy[:, None] <= rect[:, 2:])
        where = inside.all(-1).argmax(1)
        return [
            (ids[w], e + k / number, e + (k + 1) / number, length / number)
            for k, w in enumerate(where.tolist())
        ]

    def _door_between(self, a: int, b: int, at: float) -> int:
        """The door nearest to where the route goes from room a to room b, -1 if there is none (stairs)."""
        x, y, _ = self.point_at(at)
        between = [(d, i) for i, d in enumerate(self.house.doors) if {a, b} == set(d.rooms)]
        return min(((math.hypot(d.x - x, d.y - y), i) for d, i in between), default=(0, -1))[1]


def wrapped_degrees(angle_rad: np.ndarray) -> np.ndarray:
    """Angles in degrees in [-180, 180)."""
    return np.rad2deg((np.asarray(angle_rad) + np.pi) % (2 * np.pi) - np.pi)


def _joined(spans: list[Span]) -> list[Span]:
    """Spans in one room that follow each other as one."""
    kept: list[Span] = []
    for room, start, end, length in spans:
        if kept and kept[-1][0] == room:
            kept[-1] = (room, kept[-1][1], end, kept[-1][3] + length)
        else:
            kept.append((room, start, end, length))
    return kept


def _without_dips(spans: list[Span]) -> list[Span]:
    """Leave out short steps into a doorway and back, and a metre-long brush with a corner."""
    kept: list[Span] = []
    for k, span in enumerate(spans):
        inner = 0 < k < len(spans) - 1
        if not (inner and span[3] < _DIP_M and kept[-1][0] == spans[k + 1][0]):
            kept.append(span)
    return _joined(kept)


def _shortest_paths(house: House) -> list[tuple[int, ...]]:
    """Nodes of the shortest paths that qualify, both ends included, by start and goal."""
    lengths, before = house.shortest
    paths = []
    for start, goal in np.argwhere((lengths >= MIN_LENGTH_M) & np.isfinite(lengths)).tolist():
        path = [goal]
        while path[-1] != start:
            path.append(int(before[start, path[-1]]))
        if MIN_NODES <= len(path) <= MAX_NODES:
            paths.append(tuple(reversed(path)))
    return paths


def draw_paths(house: House, rng: np.random.Generator, count: int) -> list[tuple[int, ...]]:
    """Up to `count` different paths: few starts with several continuations each, goals all over the house."""
    paths = _shortest_paths(house)
    if not paths:
        return []
    start, first, goal = np.array([(p[0], p[1], p[-1]) for p in paths]).T
    starts = _draw_starts(rng, start, first, max(3, round(count / 4)))
    likes = np.where(np.isin(start, starts), 1.0, 1e-4)
    weight = np.array([_NODE_WEIGHT[len(p)] for p in paths]) * likes
    chosen = []
    for _ in range(min(count, len(paths))):
        k = int(rng.choice(len(paths), p=weight / weight.sum()))
        chosen.append(paths[k])
        weight[k] = 0.0
        weight[goal == goal[k]] *= 0.4
        weight[start == start[k]] *= 0.7
        weight[(start == start[k]) & (first == first[k])] *= 0.3
    return chosen


def _draw_starts(
    rng: np.random.Generator, start: np.ndarray, first: np.ndarray, count: int
) -> np.ndarray:
    """Start panoramas; those from which paths set out in many directions are likelier."""
    options = np.unique(start)
    ways = np.array([len(np.unique(first[start == s])) for s in options], float)
    weight = (ways - 0.7) ** 1.5
    count = min(count, len(options))
    return rng.choice(options, count, replace=False, p=weight / weight.sum())


def doors_on_side(route: Route, door: Door, hall: Visit) -> int:
    """Which door on its side of the corridor this is, counted from where the walk along it began."""
    room = route.house.rooms[hall.room]
    along_y = room.rect[3] - room.rect[1] > room.rect[2] - room.rect[0]
    if along_y != door.vertical:
        return 0  # a door at the end of the corridor
    origin = route.point_at(hall.enter)[1 if door.vertical else 0]
    offsets = [
        d.middle - origin for d in route.house.doors
        if hall.room in d.rooms and d.kind != "opening" and d.vertical == door.vertical
        and abs(d.line - door.line) < 0.01
    ]  # fmt: skip
    mine = door.middle - origin
    if abs(mine) < 0.5:
        return 0
    return sum(1 for o in offsets if o * mine > 0 and 0.3 < abs(o) <= abs(mine) + 1e-6)
