"""Doors and walls of generated houses, and what one can see past them.

Walls are axis-aligned segments (x0, y0, x1, y1) in metres, one array [S, 4] per floor, with the doorways left out.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from fedsuite.vln.generator.room_kinds import SOCIAL
from fedsuite.vln.generator.rooms import Rect, shared_wall, wall_length_m

DOOR_M = 0.95
MIN_WALL_M = 1.35
Span = tuple[float, float]  # from, to


@dataclass(frozen=True)
class Room:
    """One room; tag as in rooms.Cell."""

    kind: str
    tag: str
    floor: int
    rect: Rect


@dataclass(frozen=True)
class Door:
    """An opening between two rooms; kind: door, glass doors, archway, opening (nothing that people would name)."""

    rooms: tuple[int, int]
    floor: int
    x: float
    y: float
    vertical: bool  # runs along y
    width: float
    kind: str

    @property
    def line(self) -> float:
        """Where its wall stands."""
        return self.x if self.vertical else self.y

    @property
    def middle(self) -> float:
        """Its place along the wall."""
        return self.y if self.vertical else self.x


def make_doors(
    rng: np.random.Generator,
    rooms: list[Room],
    ids: list[int],
    parent: dict[int, int],
    given: list[Door],
) -> list[Door]:
    """Doors of one floor (`ids` are its rooms): `given` ones (stairs), the usual ones, and what keeps it connected."""
    groups = DisjointSet(range(len(rooms)))  # which rooms are connected so far
    for door in given:
        groups.merge(*door.rooms)
    doors = list(given)
    pairs = [
        (i, j) for i in ids for j in ids
        if i < j and "stairs" not in (rooms[i].tag, rooms[j].tag)
        and wall_length_m(rooms[i].rect, rooms[j].rect) >= MIN_WALL_M
    ]  # fmt: skip
    chance = {pair: _chance(rooms, parent, *pair) for pair in pairs}
    chosen = [p for p in pairs if rng.random() < chance[p]]
    for i, j in chosen:
        groups.merge(i, j)
    rest = [p for p in pairs if p not in chosen]
    for i, j in sorted(rest, key=lambda p: (-chance[p], _transit(rooms, *p), rng.random())):
        if groups.merge(i, j):
            chosen.append((i, j))
    return doors + [_door(rng, rooms, i, j) for i, j in sorted(chosen)]


def _transit(rooms: list[Room], i: int, j: int) -> int:
    """How odd it would be to walk through these rooms."""
    odd = ("bathroom", "closet", "pantry", "laundry room", "garage", "bedroom", "balcony")
    return sum(rooms[k].kind in odd for k in (i, j))


def _chance(rooms: list[Room], parent: dict[int, int], i: int, j: int) -> float:
    """How likely two neighbouring rooms have a door."""
    tags, kinds = {rooms[i].tag, rooms[j].tag}, {rooms[i].kind, rooms[j].kind}
    if tags == {"hall"} or parent.get(i) == j or parent.get(j) == i:
        return 1.0
    if "patio" in tags:
        return 0.45 if kinds & set(SOCIAL) else 0.1
    if tags == {"hall", "slot"}:
        return 0.97
    if tags == {"hall", "annex"}:
        return 0.3
    if kinds <= set(SOCIAL):
        return 0.7
    return 0.02 if "annex" in tags else 0.06


def _door(rng: np.random.Generator, rooms: list[Room], i: int, j: int) -> Door:
    wall = shared_wall(rooms[i].rect, rooms[j].rect)
    assert wall is not None
    vertical, line, low, high = wall
    tags, kinds = {rooms[i].tag, rooms[j].tag}, {rooms[i].kind, rooms[j].kind}
    kind, width = "door", DOOR_M
    if tags == {"hall"}:
        kind, width = "opening", high - low - 0.1
    elif "patio" in tags:
        kind, width = "glass doors", 1.3 if high - low < 2.2 else 1.7
    elif kinds <= {*SOCIAL, "hallway", "library", "game room"} and rng.random() < 0.7:
        kind, width = "archway", min(float(rng.uniform(1.2, 2.2)), high - low - 0.3)
    margin = width / 2 + 0.05 + 0.1 * (kind != "opening")
    middle = (low + high) / 2
    if high - low > 2 * margin:
        middle = float(rng.uniform(low + margin, high - margin))
    x, y = (line, middle) if vertical else (middle, line)
    return Door((i, j), rooms[i].floor, x, y, vertical, width, kind)


def make_walls(rooms: list[Room], doors: list[Door], floor: int) -> np.ndarray:
    """Wall segments [S, 4] of one floor."""
    lines: dict[tuple[bool, float], list[Span]] = defaultdict(list)
    for room in rooms:
        if room.floor == floor:
            x0, y0, x1, y1 = room.rect
            for x in (x0, x1):
                lines[True, round(x, 4)].append((y0, y1))
            for y in (y0, y1):
                lines[False, round(y, 4)].append((x0, x1))
    walls: list[tuple[float, float, float, float]] = []
    for (vertical, line), spans in lines.items():
        beside = [d for d in doors if d.floor == floor and d.vertical == vertical]
        own = [d for d in beside if abs(d.line - line) < 1e-3]
        holes = sorted((d.middle - d.width / 2, d.middle + d.width / 2) for d in own)
        for low, high in _without(_merged(spans), holes):
            walls.append((line, low, line, high) if vertical else (low, line, high, line))
    return np.array(walls).reshape(-1, 4)


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1] + 1e-6:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _without(spans: list[Span], holes: list[Span]) -> list[Span]:
    left = []
    for start, end in spans:
        at = start
        for low, high in holes:
            if start <= low and high <= end:
                left.append((at, low))
                at = high
        left.append((at, end))
    return [(low, high) for low, high in left if high - low > 1e-6]


def _lines(walls: np.ndarray) -> Iterator[tuple[int, int, float, float, float]]:
    """Of every wall the axis across it, the axis along it, its place on the first and its span on the second."""
    for line, along in ((0, 1), (1, 0)):
        for wall in walls[np.isclose(walls[:, line], walls[:, line + 2])]:
            yield line, along, wall[line], wall[along], wall[along + 2]


def in_sight(source: np.ndarray, target: np.ndarray, walls: np.ndarray) -> np.ndarray:
    """No wall between: source [N, 2], target [M, 2] -> [N, M] bool."""
    clear = np.ones((len(source), len(target)), bool)
    for line, along, x, low, high in _lines(walls):
        a, b = source[:, None, line], target[None, :, line]
        c, d = source[:, None, along], target[None, :, along]
        with np.errstate(divide="ignore", invalid="ignore"):
            where = c + (x - a) / (b - a) * (d - c)
        crosses = (a - x) * (b - x) < 0
        clear &= ~(crosses & (where > low - 1e-9) & (where < high + 1e-9))
    return clear


def ray_lengths(
    source: np.ndarray, direction: np.ndarray, walls: np.ndarray, most: float
) -> np.ndarray:
    """Distance to the first wall [N, R] from source [N, 2] along unit vectors direction [R, 2], at most `most`."""
    reach = np.full((len(source), len(direction)), most)
    for line, along, x, low, high in _lines(walls):
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (x - source[:, None, line]) / direction[None, :, line]
            where = source[:, None, along] + t * direction[None, :, along]
            hit = (t > 1e-6) & (where >= low) & (where <= high)
        reach = np.where(hit, np.minimum(reach, t), reach)
    return reach


def distance_to_segments(points: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Distances [N, S] from points [N, 2] to segments [S, 4]."""
    start, gap = segments[None, :, :2], segments[None, :, 2:] - segments[None, :, :2]
    offset = points[:, None] - start
    length2 = np.maximum((gap**2).sum(-1), 1e-12)
    t = np.clip((offset * gap).sum(-1) / length2, 0, 1)
    return np.linalg.norm(offset - t[..., None] * gap, axis=-1)
