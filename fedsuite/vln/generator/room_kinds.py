"""Which room of a generated floor plan is the kitchen: kinds by area, neighbours and taste."""

import numpy as np

from fedsuite.vln.generator.catalog import ANNEXES, ROOMS, WANTED_DOWNSTAIRS, WANTED_UPSTAIRS
from fedsuite.vln.generator.rooms import Cell, area_m2, wall_length_m

SMALL_M2 = 7.5
SOCIAL = ("living room", "kitchen", "dining room", "family room")
# How much less wanted a kind is once it is there.
_REPEAT = {"bedroom": 0.7, "bathroom": 0.5, "closet": 0.4}


def parent_of(cells: list[Cell], annex: int) -> int:
    """The room through which an annex is reached: the one with the longest wall in common."""
    lengths = [wall_length_m(cells[annex].rect, c.rect) if c.tag == "slot" else 0.0 for c in cells]
    return int(np.argmax(lengths))


def room_kinds(rng: np.random.Generator, cells: list[Cell], floor: int) -> list[str]:
    """A kind for every cell of a floor: what must be there first, then by area and taste."""
    fixed = {
        "hall": "hallway",
        "stairs": "stairwell",
        "patio": "patio" if floor == 0 else "balcony",
    }
    kinds = [fixed.get(c.tag, "") for c in cells]
    slots = sorted(
        (i for i, c in enumerate(cells) if c.tag == "slot"), key=lambda i: -area_m2(cells[i].rect)
    )
    if floor == 0:
        _place_required(rng, cells, slots, kinds)
    wanted = dict(WANTED_DOWNSTAIRS if floor == 0 else WANTED_UPSTAIRS)
    for i in slots:
        if not kinds[i]:
            kinds[i] = _choose(rng, wanted, area_m2(cells[i].rect))
    for i, cell in enumerate(cells):
        if cell.tag == "annex":
            taken = kinds[i - 1] if i and cells[i - 1].tag == "annex" else ""
            kinds[i] = _annex_kind(rng, kinds[parent_of(cells, i)], area_m2(cell.rect), taken)
    return kinds


def _place_required(
    rng: np.random.Generator, cells: list[Cell], slots: list[int], kinds: list[str]
) -> None:
    kinds[slots[0]] = "living room"
    for kind, near in (("kitchen", "living room"), ("dining room", "kitchen")):
        low, high = ROOMS[kind].area_m2
        fits = [i for i in slots if not kinds[i] and low <= area_m2(cells[i].rect) <= high]
        beside = [
            i for i in fits
            if any(kinds[j] == near and wall_length_m(cells[i].rect, cells[j].rect) > 1.5 for j in slots)
        ]  # fmt: skip
        if fits:
            kinds[int(rng.choice(beside or fits))] = kind


def _choose(rng: np.random.Generator, wanted: dict[str, float], area: float) -> str:
    """A kind that fits the area, drawn by `wanted`, which then wants it less."""
    fits = [k for k in wanted if ROOMS[k].area_m2[0] <= area <= ROOMS[k].area_m2[1]]
    fits = fits or ["living room" if area > SMALL_M2 else "closet"]
    weight = np.array([wanted.get(k, 1.0) for k in fits])
    kind = str(rng.choice(fits, p=weight / weight.sum()))
    wanted[kind] = wanted.get(kind, 1.0) * _REPEAT.get(kind, 0.15)
    return kind


def _annex_kind(rng: np.random.Generator, parent: str, area: float, taken: str) -> str:
    options = ANNEXES.get(parent, ANNEXES["any other room"])
    fits = [k for k in options if k != taken and area <= ROOMS[k].area_m2[1]]
    return str(rng.choice(fits or ["office"]))
