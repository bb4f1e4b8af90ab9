"""What generated houses are made of: kinds of objects, colours, materials, rooms and their furniture.

The table is catalog.json. The order of its entries matters: random draws and view features go by index.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fedsuite.storage.files import read_table


@dataclass(frozen=True)
class ObjectKind:
    """nouns: what people call it, the usual one first, which is its name; size_m: the width that one sees; z_m: height
    of the centre above the floor; salience: how readily people mention it (0..1).

    place: against a `wall`, in the `middle` of the room, `hung` on a wall, on the `floor`, under the `ceiling`, or
    `fixture` (part of the building: doors, windows, stairs).
    """

    nouns: tuple[str, ...]
    size_m: float
    z_m: float
    place: str
    colours: tuple[str, ...]
    materials: tuple[str, ...]
    salience: float

    @property
    def name(self) -> str:
        """The usual noun."""
        return self.nouns[0]


@dataclass(frozen=True)
class RoomKind:
    """names: what people call it, the usual one first; area_m2: least and most; furniture: (object, probability, most)."""

    names: tuple[str, ...]
    area_m2: tuple[float, float]
    furniture: tuple[tuple[str, float, int], ...]


_TABLE = read_table(__file__, "catalog.json")
COLOURS: tuple[str, ...] = _TABLE["colours"]
MATERIALS: tuple[str, ...] = _TABLE["materials"]
KINDS = tuple(ObjectKind(**kind) for kind in _TABLE["kinds"])
KIND_INDEX = {k.name: i for i, k in enumerate(KINDS)}
ROOMS = {name: RoomKind(**room) for name, room in _TABLE["rooms"].items()}
ROOM_KINDS = tuple(ROOMS)
# What the rooms are that one reaches through a room of some kind.
ANNEXES: Mapping[str, tuple[str, ...]] = _TABLE["annexes"]
# Weights by which a floor's free rooms get their kinds.
WANTED_DOWNSTAIRS: Mapping[str, float] = _TABLE["wanted_downstairs"]
WANTED_UPSTAIRS: Mapping[str, float] = _TABLE["wanted_upstairs"]
