"""What generated houses are made of: kinds of objects, colours, materials, rooms and their
furniture.

Data only. Sizes are the width that one sees, z is the height of the centre above the floor, both in
metres. `place` says where an object goes: against a wall, in the middle of the room, hung on a
wall, on the floor, under the ceiling, or `fixture` (part of the building: doors, windows, stairs).
"""

from dataclasses import dataclass

COLOURS = (
    "white", "black", "brown", "red", "blue", "green", "grey", "beige", "yellow", "orange", "purple", "gold",
)  # fmt: skip
MATERIALS = ("wooden", "leather", "glass", "marble", "metal", "stone", "wicker", "velvet", "brick")


@dataclass(frozen=True)
class ObjectKind:
    """nouns: what people call it, the usual one first; salience: how readily people mention it
    (0..1).
    """

    name: str
    nouns: tuple[str, ...]
    size_m: float
    z_m: float
    place: str
    colours: tuple[str, ...] = ()
    materials: tuple[str, ...] = ()
    salience: float = 0.6


def _kind(
    nouns: str, size_m: float, z_m: float, place: str, colours: str, materials: str, salience: float
) -> ObjectKind:
    names = tuple(n.strip() for n in nouns.split(","))
    return ObjectKind(
        names[0],
        names,
        size_m,
        z_m,
        place,
        tuple(colours.split()),
        tuple(materials.split()),
        salience,
    )


KINDS = (
    _kind(
        "couch, sofa",
        1.9,
        0.5,
        "wall",
        "red blue grey beige brown white green",
        "leather velvet",
        1.0,
    ),
    _kind("armchair", 0.9, 0.5, "wall", "red blue beige brown yellow", "leather wicker", 0.7),
    _kind("coffee table", 0.9, 0.4, "middle", "black white brown", "wooden glass", 0.6),
    _kind("television, tv", 1.2, 1.2, "hung", "", "", 0.9),
    _kind("fireplace", 1.4, 0.7, "wall", "white grey", "brick stone marble", 1.0),
    _kind("bookshelf, bookcase", 1.2, 1.1, "wall", "white brown black", "wooden", 0.8),
    _kind("lamp", 0.5, 1.1, "wall", "white gold black", "", 0.5),
    _kind("plant, potted plant", 0.6, 0.6, "wall", "green", "", 0.7),
    _kind("rug, carpet", 1.6, 0.0, "floor", "red blue beige grey green", "", 0.6),
    _kind("painting, picture", 0.9, 1.6, "hung", "red blue green yellow", "", 0.7),
    _kind("window", 1.2, 1.5, "fixture", "", "", 0.3),
    _kind("bed", 2.0, 0.5, "wall", "white blue purple green", "", 1.0),
    _kind("nightstand, bedside table", 0.5, 0.5, "wall", "white brown", "wooden", 0.5),
    _kind("dresser", 1.2, 0.6, "wall", "white brown black", "wooden", 0.7),
    _kind("mirror", 0.9, 1.5, "hung", "gold", "", 0.7),
    _kind("toilet", 0.6, 0.5, "wall", "", "", 1.0),
    _kind("sink", 0.7, 0.9, "wall", "white", "marble", 1.0),
    _kind("bathtub, tub", 1.5, 0.4, "wall", "white", "", 1.0),
    _kind("shower", 1.1, 1.2, "wall", "", "glass", 0.9),
    _kind("towel rack, towels", 0.6, 1.3, "hung", "white blue yellow", "", 0.6),
    _kind("refrigerator, fridge", 0.9, 1.0, "wall", "white black", "metal", 1.0),
    _kind("stove, oven", 0.8, 0.8, "wall", "white black", "", 1.0),
    _kind("kitchen island, island", 1.6, 0.8, "middle", "white blue", "marble wooden", 0.9),
    _kind("counter", 1.6, 0.9, "wall", "white black", "marble wooden", 0.8),
    _kind("cabinet", 1.0, 1.2, "wall", "white brown green", "wooden glass", 0.6),
    _kind("dining table, table", 1.7, 0.7, "middle", "black white brown", "wooden glass", 1.0),
    _kind("chair", 0.6, 0.5, "middle", "red white black yellow", "wooden wicker", 0.5),
    _kind("chandelier", 0.9, 2.2, "ceiling", "gold", "glass", 0.7),
    _kind("bench", 1.2, 0.4, "wall", "white brown", "wooden stone", 0.7),
    _kind("desk", 1.3, 0.7, "wall", "white black brown", "wooden glass", 0.9),
    _kind("computer", 0.6, 1.0, "wall", "", "", 0.6),
    _kind("washing machine, washer", 0.8, 0.6, "wall", "white red", "", 1.0),
    _kind("shelf, shelves", 1.0, 1.4, "wall", "white brown", "wooden metal", 0.6),
    _kind("bicycle, bike", 1.2, 0.6, "wall", "red blue orange", "", 0.8),
    _kind("car", 2.2, 0.7, "middle", "red blue black white", "", 1.0),
    _kind("piano", 1.6, 0.7, "wall", "black white brown", "", 1.0),
    _kind("pool table", 2.0, 0.7, "middle", "green red", "", 1.0),
    _kind("treadmill", 1.5, 0.7, "wall", "black", "", 1.0),
    _kind("ottoman", 0.7, 0.3, "middle", "red purple grey orange", "leather velvet", 0.5),
    _kind("vase", 0.5, 0.9, "wall", "blue white orange", "glass", 0.6),
    _kind("clock", 0.6, 1.8, "hung", "gold black", "", 0.6),
    _kind("statue", 0.7, 0.9, "wall", "white gold", "stone", 0.8),
    _kind("trash can, bin", 0.5, 0.4, "wall", "black white", "metal", 0.4),
    _kind("bar stool, stool", 0.5, 0.5, "middle", "red black white", "wooden metal", 0.5),
    _kind("wardrobe, armoire", 1.3, 1.1, "wall", "white brown", "wooden", 0.7),
    _kind("console table, side table", 1.0, 0.6, "wall", "black white gold", "wooden marble", 0.7),
    _kind("grill, barbecue", 1.1, 0.7, "wall", "black red", "metal", 0.9),
    _kind("tool bench, workbench", 1.6, 0.8, "wall", "", "wooden metal", 0.9),
    _kind("door", 0.9, 1.0, "fixture", "white brown red", "wooden", 0.4),
    _kind("glass doors, sliding doors", 1.7, 1.0, "fixture", "", "", 0.7),
    _kind("archway, arch", 1.6, 1.2, "fixture", "", "", 0.2),
    _kind("stairs, steps, staircase", 2.0, 0.7, "fixture", "", "", 0.9),
)
KIND_INDEX = {k.name: i for i, k in enumerate(KINDS)}


@dataclass(frozen=True)
class RoomKind:
    """names: what people call it, the usual one first; min/max area m^2; furniture: (object,
    probability, most).
    """

    names: tuple[str, ...]
    area_m2: tuple[float, float]
    furniture: tuple[tuple[str, float, int], ...]


def _room(names: str, low_m2: float, high_m2: float, furniture: str) -> RoomKind:
    """`furniture` lists `object probability*most` entries, e.g. `bed 1*1, lamp .7*2`."""
    entries = []
    for entry in furniture.split(","):
        name, _, amount = entry.strip().rpartition(" ")
        probability, most = amount.split("*")
        entries.append((name, float(probability), int(most)))
    return RoomKind(tuple(n.strip() for n in names.split(",")), (low_m2, high_m2), tuple(entries))


ROOMS = {
    "hallway": _room(
        "hallway, hall, corridor", 0, 60,
        "painting .75*4, rug .4*1, console table .45*2, plant .4*2, mirror .3*1, bench .25*1, clock .25*1, "
        "vase .25*1, statue .2*1, lamp .3*2",
    ),
    "stairwell": _room("stairs", 0, 30, "painting .5*1"),
    "living room": _room(
        "living room", 14, 60,
        "couch 1*2, armchair .7*2, coffee table .8*1, television .6*1, fireplace .6*1, rug .7*1, lamp .5*2, "
        "plant .5*2, painting .6*2, bookshelf .3*1, piano .3*1",
    ),
    "kitchen": _room(
        "kitchen", 9, 30,
        "refrigerator .95*1, stove .95*1, sink .8*1, counter .8*2, kitchen island .6*1, bar stool .6*2, "
        "cabinet .6*2, trash can .3*1",
    ),
    "dining room": _room(
        "dining room", 9, 30,
        "dining table .95*1, chair .9*4, chandelier .7*1, cabinet .4*1, painting .5*2, rug .3*1, vase .2*1",
    ),
    "bedroom": _room(
        "bedroom", 8, 30,
        "bed 1*1, nightstand .7*2, dresser .6*1, lamp .5*2, mirror .3*1, painting .5*2, rug .4*1, "
        "wardrobe .4*1, television .3*1, armchair .2*1, bench .2*1",
    ),
    "bathroom": _room(
        "bathroom", 2.5, 12,
        "toilet .95*1, sink .95*1, bathtub .5*1, shower .5*1, mirror .6*1, towel rack .5*1",
    ),
    "office": _room(
        "office, study", 7, 20,
        "desk 1*1, computer .7*1, chair .7*2, bookshelf .6*2, lamp .4*1, plant .3*1, painting .4*1, rug .3*1",
    ),
    "laundry room": _room(
        "laundry room", 2.5, 10, "washing machine 1*2, sink .4*1, shelf .6*1, cabinet .4*1, trash can .3*1",
    ),
    "closet": _room("closet", 2, 8, "shelf .9*2, dresser .4*1, mirror .3*1, rug .2*1"),
    "pantry": _room("pantry", 2, 8, "shelf 1*3, cabinet .5*1, trash can .3*1"),
    "garage": _room(
        "garage", 16, 60, "car .95*1, bicycle .7*2, tool bench .7*1, shelf .6*2, trash can .4*1",
    ),
    "library": _room(
        "library", 10, 40,
        "bookshelf 1*4, armchair .8*2, desk .4*1, lamp .6*2, rug .5*1, fireplace .3*1, statue .3*1",
    ),
    "family room": _room(
        "family room", 14, 60,
        "couch 1*2, television .9*1, ottoman .7*2, rug .6*1, bookshelf .3*1, plant .4*1, lamp .4*1, painting .4*1",
    ),
    "game room": _room(
        "game room", 16, 60, "pool table 1*1, bar stool .7*3, television .5*1, couch .5*1, painting .4*2",
    ),
    "gym": _room("gym, exercise room", 9, 40, "treadmill 1*2, bench .7*1, mirror .8*2, television .4*1"),
    "playroom": _room(
        "playroom", 9, 25, "shelf .8*2, rug .9*1, ottoman .7*2, chair .6*2, television .3*1, painting .4*1",
    ),
    "patio": _room(
        "patio", 5, 60, "grill .7*1, dining table .5*1, chair .6*2, plant .9*3, bench .6*1, statue .2*1",
    ),
    "balcony": _room("balcony", 3, 30, "plant .9*3, chair .7*2, bench .5*1"),
}  # fmt: skip
ROOM_KINDS = tuple(ROOMS)
