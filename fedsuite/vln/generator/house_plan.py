"""One generated house: rooms, doors, walls, panoramas, navigation graph, objects and who sees what.

A house depends on (seed, house) alone. A drawn plan that is too small, too large or not connected is drawn again from the
same stream. P panoramas, O objects; metres, z up; heading 0 = +y, clockwise.
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.sparse.csgraph import connected_components, shortest_path

from fedsuite.randomness import rng_for
from fedsuite.storage.files import sha256_of
from fedsuite.vln.generator.catalog import KIND_INDEX
from fedsuite.vln.generator.furniture import Thing, furnish
from fedsuite.vln.generator.panoramas import (
    CAMERA_M,
    LANDING,
    Places,
    add_missing_doorways,
    place_panoramas,
    spanner,
    walkable,
)
from fedsuite.vln.generator.room_kinds import parent_of, room_kinds
from fedsuite.vln.generator.rooms import (
    FLOOR_HEIGHT_M,
    Shape,
    cottage_cells,
    draw_shape,
    floor_cells,
    turned,
    turned_point,
)
from fedsuite.vln.generator.walls import Door, Room, in_sight, make_doors, make_walls

MIN_PANORAMAS, MAX_PANORAMAS = 25, 120
SIGHT_M = 10.0
_ATTEMPTS = 60
_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True)
class House:
    """A house. position_m [P, 3]; height_m, yaw_rad [P]; room, floor, door (doorway or -1), stairs code [P] int64;
    included [P]; edge (among included), unobstructed, visible [P, P] bool; walls: [S, 4] per floor; sees [P, O] bool:
    the object is in line of sight and at most SIGHT_M away.
    """

    scan: str
    rooms: tuple[Room, ...]
    doors: tuple[Door, ...]
    walls: tuple[np.ndarray, ...]
    things: tuple[Thing, ...]
    viewpoint_ids: tuple[str, ...]
    position_m: np.ndarray
    height_m: np.ndarray
    yaw_rad: np.ndarray
    floor: np.ndarray
    room: np.ndarray
    door: np.ndarray
    stairs: np.ndarray
    included: np.ndarray
    edge: np.ndarray
    unobstructed: np.ndarray
    visible: np.ndarray
    sees: np.ndarray

    @cached_property
    def thing_position_m(self) -> np.ndarray:
        """Centres of the objects [O, 3]."""
        return np.array([(t.x, t.y, t.z) for t in self.things]).reshape(-1, 3)

    @cached_property
    def shortest(self) -> tuple[np.ndarray, np.ndarray]:
        """Lengths of the shortest ways [P, P] m and the predecessor of each goal [P, P]."""
        gap = np.linalg.norm(self.position_m[:, None] - self.position_m[None], axis=-1)
        length = np.where(self.edge, gap, np.inf)
        return shortest_path(length, method="D", return_predecessors=True)


def draw_house(seed: int, house: int) -> House:
    """House number `house` of the world `seed`."""
    rng = rng_for(seed, "generated-house-plan", 0, house)
    for _ in range(_ATTEMPTS):
        drawn = _attempt(rng, scan_id(seed, house))
        if drawn is not None:
            return drawn
    raise RuntimeError(f"no usable plan for house {house} of seed {seed} in {_ATTEMPTS} attempts")


def scan_id(seed: int, house: int) -> str:
    """Eleven letters and digits, like the ids of real scans."""
    number = int(sha256_of(f"generated house {seed}/{house}".encode())[:24], 16)
    return "".join(_LETTERS[number // 62**k % 62] for k in range(11))


def _attempt(rng: np.random.Generator, scan: str) -> House | None:
    """A house, or None if this draw is no good."""
    rooms, doors, flight = _building(rng)
    floors = max(r.floor for r in rooms) + 1
    walls = tuple(make_walls(rooms, doors, f) for f in range(floors))
    places = place_panoramas(rng, rooms, doors, flight)
    candidate = walkable(places, walls)[1]
    if add_missing_doorways(places, rooms, doors, candidate):
        candidate = walkable(places, walls)[1]
    connected = connected_components(candidate, directed=False)[0] == 1
    if not connected or not MIN_PANORAMAS <= len(places.xy) <= MAX_PANORAMAS - 5:
        return None
    edge = spanner(places.position_m(), candidate)
    ways = [_ways(places, edge, f) for f in range(floors)]
    things = furnish(rng, rooms, doors, np.array(places.xy), ways) + _stairs(rooms, flight)
    return _finished(rng, scan, rooms, doors, walls, things, places, edge)


def _building(rng: np.random.Generator) -> tuple[list[Room], list[Door], list[tuple[float, float]]]:
    """Rooms and doors of all floors, and the stairs from above (empty without stairs), in a random orientation."""
    orientation = int(rng.integers(8))
    shape = None if rng.random() < 0.2 else draw_shape(rng)
    rooms: list[Room] = []
    doors: list[Door] = []
    stairs = () if shape is None or not shape.stairs else shape.flight
    for floor in range(1 if shape is None else shape.floors):
        cells = cottage_cells(rng) if shape is None else floor_cells(rng, shape, floor)
        kinds = room_kinds(rng, cells, floor)
        first = len(rooms)
        rooms += [
            Room(kind, c.tag, floor, turned(c.rect, orientation))
            for kind, c in zip(kinds, cells, strict=True)
        ]
        annexes = [i for i, c in enumerate(cells) if c.tag == "annex"]
        parent = {first + i: first + parent_of(cells, i) for i in annexes}
        given = [] if shape is None else _stair_doors(shape, floor, first, orientation)
        doors += make_doors(rng, rooms, list(range(first, len(rooms))), parent, given)
    return rooms, doors, [turned_point(p, orientation) for p in stairs]


def _stair_doors(shape: Shape, floor: int, first: int, orientation: int) -> list[Door]:
    """Openings between corridor (the floor's first room) and stairwell (its second)."""
    if not shape.stairs:
        return []
    ends = [shape.flight[0][0]] * (floor < shape.floors - 1) + [shape.flight[2][0]] * (floor > 0)
    spots = [turned_point((x, shape.hall), orientation) for x in ends]
    vertical = bool(orientation & 4)
    return [Door((first, first + 1), floor, *at, vertical, 1.15, "opening") for at in spots]


def _stairs(rooms: Sequence[Room], flight: Sequence[tuple[float, float]]) -> list[Thing]:
    """The stairs as objects: one at the bottom (they go up) and one at the top (they go down) of every flight."""
    wells = [i for i, r in enumerate(rooms) if r.tag == "stairs"]
    things = []
    for lower, upper in pairwise(wells):
        for (x, y), room, rise in ((flight[0], lower, 0.7), (flight[2], upper, -0.5)):
            floor = rooms[room].floor
            at = (round(x, 4), round(y, 4), round(floor * FLOOR_HEIGHT_M + rise, 4))
            things.append(Thing(KIND_INDEX["stairs"], -1, -1, *at, floor, room))
    return things


def _ways(places: Places, edge: np.ndarray, floor: int) -> np.ndarray:
    """Edges of one floor as segments [S, 4]."""
    xy, level = np.array(places.xy), np.array(places.floor)
    i, j = np.nonzero(np.triu(edge))
    here = (level[i] == floor) & (level[j] == floor)
    return np.hstack([xy[i[here]], xy[j[here]]])


def _finished(
    rng: np.random.Generator,
    scan: str,
    rooms: list[Room],
    doors: list[Door],
    walls: tuple[np.ndarray, ...],
    things: list[Thing],
    places: Places,
    edge: np.ndarray,
) -> House:
    """Add excluded and isolated panoramas, shuffle the rows, work out who sees what."""
    used = len(places.xy)
    _add_unused(rng, places)
    xy, floor, room, door, stairs = places.arrays()
    total = len(xy)
    included = np.arange(total) < used
    visible = walkable(places, walls)[0]
    near = np.linalg.norm(xy[:, None] - xy[None], axis=-1) < 2.5
    all_edges = np.zeros((total, total), bool)
    all_edges[:used, :used] = edge
    touching = visible & near & ~(included[:, None] & included[None])
    if rng.random() < 0.25:
        lonely = total - 1
        included[lonely], touching[lonely], touching[:, lonely] = True, False, False
    height = np.round(rng.normal(CAMERA_M + 0.05, 0.04, total), 6)
    position = places.position_m()
    position[:, 2] = np.round(position[:, 2] + rng.normal(0, 0.02, total), 4)
    row = rng.permutation(total)
    house = House(
        scan, tuple(rooms), tuple(doors), walls, tuple(things),
        tuple(_viewpoint_id(rng) for _ in range(total)), position[row], height,
        np.round(rng.uniform(-np.pi, np.pi, total), 6),
        floor[row], room[row], door[row], stairs[row], included[row], all_edges[np.ix_(row, row)],
        (all_edges | touching)[np.ix_(row, row)], visible[np.ix_(row, row)], np.zeros((0, 0), bool),
    )  # fmt: skip
    return replace(house, sees=_sees(house))


def _add_unused(rng: np.random.Generator, places: Places) -> None:
    """Copies of some panoramas, a step aside, that the simulator is to ignore."""
    ordinary = [i for i, s in enumerate(places.stairs) if s == 0 and places.door[i] < 0]
    for i in rng.choice(ordinary, int(rng.integers(2, 6)), replace=False):
        angle, step = rng.uniform(0, 2 * np.pi), rng.uniform(0.15, 0.4)
        x, y = places.xy[i]
        at = (x + step * float(np.cos(angle)), y + step * float(np.sin(angle)))
        places.add(at, places.room[i], places.floor[i])


def _viewpoint_id(rng: np.random.Generator) -> str:
    """32 hexadecimal characters, a version-4 UUID without dashes."""
    text = rng.bytes(16).hex()
    return text[:12] + "4" + text[13:]


def _sees(house: House) -> np.ndarray:
    """Objects in line of sight [P, O]. From a landing one sees the stairwell only."""
    where, xy = house.thing_position_m, house.position_m[:, :2]
    level = np.array([t.floor for t in house.things])
    sees = np.linalg.norm(xy[:, None] - where[None, :, :2], axis=-1) <= SIGHT_M
    sees &= house.floor[:, None] == level[None]
    for f, walls in enumerate(house.walls):
        rows, columns = np.flatnonzero(house.floor == f), np.flatnonzero(level == f)
        sees[np.ix_(rows, columns)] &= in_sight(xy[rows], where[columns, :2], walls)
    well = np.array([house.rooms[t.room].tag == "stairs" for t in house.things])
    sees[house.stairs == LANDING] &= well
    return sees
