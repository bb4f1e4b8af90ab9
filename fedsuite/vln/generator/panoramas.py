"""Where the panoramas of a generated house stand, and between which one can walk.

Panoramas stand on stairs (bottom, landing, top), in doorways, along corridors and in rooms. Candidate edges have a clear
line of sight and 1-5 m; of these a greedy spanner keeps those that shorten the way between their ends, which leaves a
mean degree of about 4 as in the R2R connectivity files (Anderson et al. 2018).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.sparse.csgraph import connected_components

from fedsuite.vln.generator.rooms import FLOOR_HEIGHT_M
from fedsuite.vln.generator.walls import Door, Room, in_sight

MIN_EDGE_M, MAX_EDGE_M, MAX_DEGREE = 1.0, 5.0, 13
CAMERA_M = 1.5
MOST_IN_ROOM = 6
DETOUR = 1.004
NO_STAIRS, BOTTOM, LANDING, TOP = 0, 1, 2, 3
_INSIDE_M = 0.25


@dataclass
class Places:
    """Panoramas so far: x, y, z [m] of the floor below the camera, floor, room, doorway (-1 = none), stairs code."""

    xy: list[tuple[float, float]] = field(default_factory=list)
    z: list[float] = field(default_factory=list)
    floor: list[int] = field(default_factory=list)
    room: list[int] = field(default_factory=list)
    door: list[int] = field(default_factory=list)
    stairs: list[int] = field(default_factory=list)

    def nearest_m(self, xy: tuple[float, float], floor: int) -> float:
        """Distance to the nearest panorama of the floor."""
        same = [p for p, f in zip(self.xy, self.floor, strict=True) if f == floor]
        return float(np.hypot(*(np.array(same).reshape(-1, 2) - xy).T).min(initial=np.inf))

    def add(self, xy: tuple[float, float], room: int, floor: int, **extra: float) -> None:
        self.xy.append((round(float(xy[0]), 4), round(float(xy[1]), 4)))
        self.z.append(extra.get("z", floor * FLOOR_HEIGHT_M))
        self.floor.append(floor)
        self.room.append(room)
        self.door.append(int(extra.get("door", -1)))
        self.stairs.append(int(extra.get("stairs", NO_STAIRS)))

    def position_m(self) -> np.ndarray:
        """Camera positions [P, 3]."""
        return np.column_stack([np.array(self.xy), np.round(np.array(self.z) + CAMERA_M, 4)])

    def arrays(self) -> tuple[np.ndarray, ...]:
        """xy [P, 2] and the integer columns floor, room, door, stairs [P]."""
        columns = (self.floor, self.room, self.door, self.stairs)
        return (np.array(self.xy), *(np.array(c, dtype=np.int64) for c in columns))


def place_panoramas(
    rng: np.random.Generator,
    rooms: Sequence[Room],
    doors: Sequence[Door],
    flight: Sequence[tuple[float, float]],
) -> Places:
    """All panoramas; `flight` = bottom, landing and top of the stairs seen from above, or empty."""
    places = Places()
    wells = [i for i, r in enumerate(rooms) if r.tag == "stairs"]
    for lower, upper in pairwise(wells):
        floor = rooms[lower].floor
        places.add(flight[0], lower, floor, stairs=BOTTOM)
        places.add(flight[1], lower, floor, stairs=LANDING, z=(floor + 0.5) * FLOOR_HEIGHT_M)
        places.add(flight[2], upper, floor + 1, stairs=TOP)
    for number, door in enumerate(doors):
        chance = {"opening": 0.0, "door": 0.5, "archway": 0.4}.get(door.kind, 0.7)
        if rng.random() < chance:
            _add_doorway(places, rooms, door, number)
    for number, room in enumerate(rooms):
        if room.tag == "hall":
            _along_hall(rng, places, number, room, doors)
    for number, room in enumerate(rooms):
        if room.tag not in ("hall", "stairs"):
            _in_room(rng, places, number, room)
    return places


def _add_doorway(places: Places, rooms: Sequence[Room], door: Door, number: int) -> bool:
    """Just inside the room that is not a corridor, if there is space."""
    inside = door.rooms[1] if rooms[door.rooms[0]].tag == "hall" else door.rooms[0]
    x0, y0, x1, y1 = rooms[inside].rect
    middle = (x0 + x1) / 2 if door.vertical else (y0 + y1) / 2
    step = _INSIDE_M if middle > door.line else -_INSIDE_M
    xy = (door.x + step, door.y) if door.vertical else (door.x, door.y + step)
    if places.nearest_m(xy, door.floor) < MIN_EDGE_M + 0.02:
        return False
    places.add(xy, inside, door.floor, door=number)
    return True


def _along_hall(
    rng: np.random.Generator, places: Places, number: int, room: Room, doors: Sequence[Door]
) -> None:
    """On the centre line: opposite the doors first, then where a gap is left."""
    x0, y0, x1, y1 = room.rect
    along_x = x1 - x0 > y1 - y0
    low, high = (x0, x1) if along_x else (y0, y1)
    centre = (y0 + y1) / 2 if along_x else (x0 + x1) / 2
    own = [d for d in doors if number in d.rooms and d.vertical != along_x]
    middles = rng.permutation([d.middle for d in own])
    spots = [float(np.clip(s, low + 0.5, high - 0.5)) for s in middles]
    spots += np.linspace(low + 0.8, high - 0.8, max(2, round((high - low) / 1.2))).tolist()
    taken: list[float] = []
    for spot in spots:
        if len(taken) < MOST_IN_ROOM and all(abs(spot - t) >= 1.5 for t in taken):
            xy = (spot, centre) if along_x else (centre, spot)
            if places.nearest_m(xy, room.floor) >= MIN_EDGE_M + 0.02:
                places.add(xy, number, room.floor)
                taken.append(spot)


def _in_room(rng: np.random.Generator, places: Places, number: int, room: Room) -> None:
    """One to six, far from each other and from the doorways."""
    x0, y0, x1, y1 = room.rect
    area = (x1 - x0) * (y1 - y0)
    per_panorama = 10.0 if room.tag == "patio" else 6.5
    wanted = int(np.clip(round(area / per_panorama + rng.uniform(-0.5, 0.5)), 1, MOST_IN_ROOM))
    wanted = min(wanted, MOST_IN_ROOM - places.room.count(number))
    mx, my = min(0.75, (x1 - x0) / 2 - 0.05), min(0.75, (y1 - y0) / 2 - 0.05)
    for _ in range(wanted):
        spots = rng.uniform((x0 + mx, y0 + my), (x1 - mx, y1 - my), (24, 2))
        gaps = [places.nearest_m((float(x), float(y)), room.floor) for x, y in spots]
        best = int(np.argmax(gaps))
        if gaps[best] >= (1.6 if number in places.room else MIN_EDGE_M + 0.02):
            places.add((float(spots[best, 0]), float(spots[best, 1])), number, room.floor)
    if number not in places.room:
        places.add(((x0 + x1) / 2, (y0 + y1) / 2), number, room.floor)


def walkable(places: Places, walls: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(visible, candidate edge), both [P, P] bool and symmetric."""
    xy, floor, _, _, stairs = places.arrays()
    position = places.position_m()
    visible = np.zeros((len(xy), len(xy)), bool)
    for level, segments in enumerate(walls):
        here = np.flatnonzero(floor == level)
        visible[np.ix_(here, here)] = in_sight(xy[here], xy[here], segments)
    visible &= visible.T
    for bottom in np.flatnonzero(stairs == BOTTOM):
        for a, b in ((bottom, bottom + 1), (bottom + 1, bottom + 2)):
            visible[a, b] = visible[b, a] = True
    np.fill_diagonal(visible, False)
    length = np.linalg.norm(position[:, None] - position[None], axis=-1)
    edge = visible & (length >= MIN_EDGE_M) & (length <= MAX_EDGE_M)
    for landing in np.flatnonzero(stairs == LANDING):
        others = np.ones(len(xy), bool)
        others[[landing - 1, landing + 1]] = False
        edge[landing, others] = edge[others, landing] = False
    at_ends = (stairs != NO_STAIRS) & (stairs != LANDING)
    return visible, edge & ~(at_ends[:, None] & at_ends)


def add_missing_doorways(
    places: Places, rooms: Sequence[Room], doors: Sequence[Door], edge: np.ndarray
) -> bool:
    """Put panoramas into doorways between parts that are not connected; True if any was added."""
    part = connected_components(edge, directed=False)[1]
    added = False
    for number, door in enumerate(doors):
        parts = {part[i] for i, r in enumerate(places.room[: len(part)]) if r in door.rooms}
        if len(parts) > 1 and number not in places.door and door.kind != "opening":
            added |= _add_doorway(places, rooms, door, number)
    return added


def spanner(position: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    """Edges [P, P] bool: shortest candidates first, kept unless a way at most DETOUR times as long is there."""
    length = np.linalg.norm(position[:, None] - position[None], axis=-1)
    source, target = np.nonzero(np.triu(candidate))
    order = np.argsort(length[source, target], kind="stable")
    edge = np.zeros_like(candidate)
    way = np.full(length.shape, np.inf)
    np.fill_diagonal(way, 0.0)
    degree = np.zeros(len(position), np.int64)
    for i, j in zip(source[order].tolist(), target[order].tolist(), strict=True):
        full = max(degree[i], degree[j]) >= MAX_DEGREE and np.isfinite(way[i, j])
        if way[i, j] <= DETOUR * length[i, j] or full:
            continue
        edge[i, j] = edge[j, i] = True
        degree[[i, j]] += 1
        through = length[i, j] + np.minimum(
            way[:, i, None] + way[None, j], way[:, j, None] + way[None, i]
        )
        np.minimum(way, through, out=way)
    return edge
