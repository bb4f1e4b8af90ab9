"""Furniture, fixtures and decoration of generated houses.

Objects keep clear of doors, of each other and of the ways between panoramas. Every house has its own taste in colours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsuite.vln.generator.catalog import COLOURS, KIND_INDEX, KINDS, MATERIALS, ROOMS, ObjectKind
from fedsuite.vln.generator.rooms import FLOOR_HEIGHT_M
from fedsuite.vln.generator.walls import Door, Room, distance_to_segments

_TRIES = 40
_WALL_GAP_M = 0.06
# Radius that must stay free, as a share of the width: tables may stand a little in the way.
_FOOTPRINT = {"wall": 0.4, "middle": 0.3}


@dataclass(frozen=True)
class Thing:
    """An object; kind, colour, material are indices into the catalogue (-1 = none); x, y, z [m] of its centre."""

    kind: int
    colour: int
    material: int
    x: float
    y: float
    z: float
    floor: int
    room: int
    door: int = -1

    @property
    def about(self) -> ObjectKind:
        """Its catalogue entry."""
        return KINDS[self.kind]


@dataclass(frozen=True)
class Taste:
    """What the owner likes: weights of colours and of materials, and how much of everything there is."""

    colour: np.ndarray
    material: np.ndarray
    abundance: float


def furnish(
    rng: np.random.Generator,
    rooms: Sequence[Room],
    doors: Sequence[Door],
    xy: np.ndarray,
    ways: Sequence[np.ndarray],
) -> list[Thing]:
    """All objects. xy [P, 2] panoramas; ways: per floor, the edges as segments [S, 4]."""
    colour, material = (rng.gamma(1.5, 1.0, len(c)) + 0.15 for c in (COLOURS, MATERIALS))
    taste = Taste(colour, material, float(rng.uniform(0.8, 1.15)))
    things: list[Thing] = []
    for number, room in enumerate(rooms):
        keep_off = [(d.x, d.y, d.width / 2 + 0.25) for d in doors if number in d.rooms]
        for name, probability, most in ROOMS[room.kind].furniture:
            for k in range(most):
                if rng.random() < min(1.0, probability * taste.abundance) * (0.65 if k else 1.0):
                    about = KINDS[KIND_INDEX[name]]
                    spot = _find_spot(rng, about, room, keep_off, xy, ways[room.floor])
                    if spot is not None:
                        things.append(_thing(rng, taste, name, (*spot, number), room.floor))
                        if about.place in _FOOTPRINT:
                            keep_off.append((*spot, about.size_m * _FOOTPRINT[about.place]))
                        elif about.place == "hung":
                            keep_off.append((*spot, 0.25))
    return things + _fixtures(rng, taste, rooms, doors)


def _thing(
    rng: np.random.Generator,
    taste: Taste,
    name: str,
    at: tuple[float, float, int],
    floor: int,
    door: int = -1,
) -> Thing:
    kind = KIND_INDEX[name]
    about = KINDS[kind]
    colour = _pick(rng, COLOURS, about.colours, taste.colour)
    material = _pick(rng, MATERIALS, about.materials, taste.material)
    z = round(floor * FLOOR_HEIGHT_M + about.z_m, 4)
    return Thing(kind, colour, material, round(at[0], 4), round(at[1], 4), z, floor, at[2], door)


def _pick(
    rng: np.random.Generator, names: tuple[str, ...], options: tuple[str, ...], weight: np.ndarray
) -> int:
    """Index of one of the options by weight, -1 if there are none."""
    if not options:
        return -1
    index = np.array([names.index(o) for o in options])
    return int(rng.choice(index, p=weight[index] / weight[index].sum()))


def _find_spot(
    rng: np.random.Generator,
    about: ObjectKind,
    room: Room,
    keep_off: list[tuple[float, float, float]],
    xy: np.ndarray,
    ways: np.ndarray,
) -> tuple[float, float] | None:
    """A free place for an object, or None after some tries."""
    spots = _spots(rng, about, room)
    if about.place in _FOOTPRINT:
        radius = about.size_m * _FOOTPRINT[about.place]
        clear = distance_to_segments(spots, ways).min(1, initial=np.inf) > min(0.5 * radius, 0.4)
        gap = np.linalg.norm(spots[:, None] - xy[None], axis=-1).min(1, initial=np.inf)
        clear &= gap > min(radius, 0.5)
    else:
        radius, clear = 0.2, np.ones(len(spots), bool)
    if about.place not in ("floor", "ceiling"):
        for x, y, other in keep_off:
            clear &= np.hypot(spots[:, 0] - x, spots[:, 1] - y) > other + radius
    free = np.flatnonzero(clear)
    return tuple(spots[free[0]].tolist()) if len(free) else None


def _spots(rng: np.random.Generator, about: ObjectKind, room: Room) -> np.ndarray:
    """Places to try [tries, 2]: along the walls or in the middle."""
    x0, y0, x1, y1 = room.rect
    half = about.size_m / 2
    if about.place in ("wall", "hung"):
        depth = _WALL_GAP_M if about.place == "hung" else min(0.1 + about.size_m * 0.25, 0.6)
        return _along_walls(rng, room, min(half, 1.0), depth)
    mx, my = min(half + 0.2, (x1 - x0) / 2.2), min(half + 0.2, (y1 - y0) / 2.2)
    return rng.uniform((x0 + mx, y0 + my), (x1 - mx, y1 - my), (_TRIES, 2))


def _along_walls(rng: np.random.Generator, room: Room, half: float, depth: float) -> np.ndarray:
    side, share = rng.integers(4, size=_TRIES), rng.random(_TRIES)
    spots = []
    for axis, low, high in ((0, *room.rect[::2]), (1, *room.rect[1::2])):
        margin = min(half, (high - low) / 2)
        along = low + margin + share * (high - low - 2 * margin)
        sides = [side == 2 * axis, side == 2 * axis + 1]
        spots.append(np.select(sides, [low + depth, high - depth], along))
    return np.stack(spots, 1)


def _fixtures(
    rng: np.random.Generator, taste: Taste, rooms: Sequence[Room], doors: Sequence[Door]
) -> list[Thing]:
    """Doors, archways and windows."""
    things = []
    for number, door in enumerate(doors):
        if door.kind != "opening":
            at = (door.x, door.y, door.rooms[0])
            things.append(_thing(rng, taste, door.kind, at, door.floor, number))
    for number, room in enumerate(rooms):
        if room.tag in ("hall", "stairs", "patio") or room.kind in ("closet", "pantry"):
            continue
        spots = _along_walls(rng, room, 0.7, 0.0).tolist()
        outside = [s for s in spots if _is_outside(s, room, rooms)]
        for x, y in outside[: int(rng.integers(0, 3))]:
            things.append(_thing(rng, taste, "window", (x, y, number), room.floor))
    return things


def _is_outside(spot: list[float], room: Room, rooms: Sequence[Room]) -> bool:
    """Whether no other room touches this place."""
    x, y = spot
    return not any(
        r.floor == room.floor and r is not room
        and r.rect[0] - 0.3 <= x <= r.rect[2] + 0.3 and r.rect[1] - 0.3 <= y <= r.rect[3] + 0.3
        for r in rooms
    )  # fmt: skip
