"""Floor plans of generated houses: rectangles around corridors.

A house is a corridor with a band of rooms on both sides, perhaps a large room across either end and a wing with its own
corridor, on one to three floors that share corridor and stairwell; small houses have no corridor and are cut from one
rectangle. All in metres; rectangles are (x0, y0, x1, y1).
"""

from dataclasses import dataclass

import numpy as np

Rect = tuple[float, float, float, float]
FLOOR_HEIGHT_M = 2.9


@dataclass(frozen=True)
class Cell:
    """A rectangle before it has a kind; tag: hall, stairs, slot, annex (reached through another room), patio."""

    rect: Rect
    tag: str


@dataclass(frozen=True)
class Shape:
    """What the floors of a house share. Depths, widths in metres; stairs: "", "turn" (with a landing) or "straight"."""

    floors: int
    width: float
    hall: float
    up: float
    down: float
    left_end: float
    right_end: float
    wing: float
    wing_depth: float
    inset: float
    stairs: str
    stairs_x: float

    @property
    def stairwell(self) -> Rect:
        """Where the stairs are, the same on every floor."""
        if self.stairs == "turn":
            return (self.stairs_x, self.hall, self.stairs_x + 2.6, self.hall + self.up)
        return (self.stairs_x, self.hall, self.stairs_x + 4.8, self.hall + 1.7)

    @property
    def flight(self) -> tuple[tuple[float, float], ...]:
        """Bottom, landing and top of one flight, seen from above."""
        x0, y0, x1, y1 = self.stairwell
        if self.stairs == "turn":
            return ((x0 + 0.65, y0 + 0.6), ((x0 + x1) / 2, y1 - 0.7), (x1 - 0.65, y0 + 0.6))
        middle = (y0 + y1) / 2
        return ((x0 + 0.7, middle), ((x0 + x1) / 2, middle), (x1 - 0.7, middle))


def draw_shape(rng: np.random.Generator) -> Shape:
    """Size and type of a house with a corridor."""
    floors = int(rng.choice([1, 2, 3], p=[0.4, 0.42, 0.18]))
    width = float(rng.uniform(8, 15 if floors == 1 else 11.5))
    wing = bool(rng.random() < (0.45 if floors == 1 else 0.2))
    left, right = rng.random(2) < (0.6, 0.0 if wing else 0.35)
    stairs = "" if floors == 1 else str(rng.choice(["turn", "straight"]))
    room_for_stairs = width - (2.6 if stairs == "turn" else 4.8)
    return Shape(
        floors=floors,
        width=width,
        hall=float(rng.uniform(1.6, 2.1)),
        up=float(rng.uniform(3.7, 5.2)),
        down=float(rng.uniform(3.4, 5.2)),
        left_end=float(rng.uniform(4, 6)) if left else 0.0,
        right_end=float(rng.uniform(4, 6)) if right else 0.0,
        wing=float(rng.uniform(5, 8)) if wing else 0.0,
        wing_depth=float(rng.uniform(3.4, 4.6)),
        inset=0.0 if left else float(rng.uniform(0, 0.25) * width),
        stairs=stairs,
        stairs_x=float(rng.choice([0.0, room_for_stairs, room_for_stairs * rng.uniform(0.3, 0.7)])),
    )


def floor_cells(rng: np.random.Generator, shape: Shape, floor: int) -> list[Cell]:
    """The rectangles of one floor; the first one is the main corridor."""
    w, c, top = shape.width, shape.hall, shape.hall + shape.up
    cells = [Cell((0, 0, w, c), "hall")]
    free = [(0.0, w)]
    if shape.stairs:
        well = shape.stairwell
        cells.append(Cell(well, "stairs"))
        if shape.stairs == "straight":
            cells.append(Cell((well[0], well[3], well[2], top), "annex"))
        free = [(0.0, well[0]), (well[2], w)]
    for low, high in free:
        cells += _band(rng, (low, c, high, top), hall_below=True)
    cells += _band(rng, (shape.inset, -shape.down, w, 0), hall_below=False)
    if shape.left_end:
        cut = float(rng.choice([0, 1]) * rng.uniform(0.5, 1.5))
        cells.append(Cell((-shape.left_end, -shape.down + cut, 0, top), "slot"))
    if shape.right_end:
        cells.append(Cell((w, -shape.down, w + shape.right_end, top), "slot"))
    if shape.wing:
        cells += _wing(rng, shape)
    if rng.random() < 0.5 and floor == 0:
        low = float(rng.uniform(shape.inset, w / 2))
        cells.append(Cell((low, -shape.down - 2.8, w, -shape.down), "patio"))
    elif rng.random() < 0.35:
        cells.append(Cell((w / 2, -shape.down - 1.8, w, -shape.down), "patio"))
    return cells


def _band(rng: np.random.Generator, rect: Rect, hall_below: bool) -> list[Cell]:
    """Cut a strip along a corridor into rooms; a few get small rooms carved out."""
    x0, y0, x1, y1 = rect
    length, depth = x1 - x0, y1 - y0
    if length < 1.8:
        return [] if length < 1.0 else [Cell(rect, "slot")]
    number = max(1, round(length / rng.uniform(3.2, 4.8)))
    share = rng.uniform(0.65, 1.35, number)
    edges = x0 + length * np.concatenate([[0], np.cumsum(share / share.sum())])
    cells = []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        area = (high - low) * depth
        if area > 16 and high - low > 4.6 and rng.random() < 0.6:
            cells += _suite(rng, (low, y0, high, y1))
        elif high - low < 3.5 and depth > 4.2 and rng.random() < 0.35:
            cut = float(rng.uniform(0.45, 0.6) * depth)
            at = y0 + cut if hall_below else y1 - cut
            tags = ("slot", "annex") if hall_below else ("annex", "slot")
            parts = [Cell((low, y0, high, at), tags[0]), Cell((low, at, high, y1), tags[1])]
            cells += parts if hall_below else reversed(parts)
        else:
            cells.append(Cell((low, y0, high, y1), "slot"))
    return cells


def _suite(rng: np.random.Generator, rect: Rect) -> list[Cell]:
    """A room with two small ones at its side."""
    x0, y0, x1, y1 = rect
    strip, cut = float(rng.uniform(1.8, 2.3)), y0 + float(rng.uniform(0.42, 0.58)) * (y1 - y0)
    if rng.random() < 0.5:
        main, low, high = (x0, y0, x1 - strip, y1), x1 - strip, x1
    else:
        main, low, high = (x0 + strip, y0, x1, y1), x0, x0 + strip
    annexes = (low, y0, high, cut), (low, cut, high, y1)
    return [Cell(main, "slot"), *(Cell(annex, "annex") for annex in annexes)]


def _wing(rng: np.random.Generator, shape: Shape) -> list[Cell]:
    """A second corridor at a right angle to the first one, at its right end."""
    w, c, top = shape.width, shape.hall, shape.hall + shape.up + shape.wing
    cells = [Cell((w, 0, w + c, top), "hall")]
    right = _band(rng, (-top, w + c, 0.0, w + c + shape.wing_depth), hall_below=True)
    left = _band(rng, (-top, w - shape.wing_depth, -(c + shape.up), w), hall_below=False)
    for cell in right + left:
        x0, y0, x1, y1 = cell.rect
        cells.append(Cell((y0, -x1, y1, -x0), cell.tag))
    return cells


def cottage_cells(rng: np.random.Generator) -> list[Cell]:
    """A small house without corridors: one rectangle, cut again and again."""
    todo: list[Rect] = [(0.0, 0.0, float(rng.uniform(11, 15)), float(rng.uniform(8.5, 12)))]
    cells = []
    while todo:
        x0, y0, x1, y1 = todo.pop()
        wide, high = x1 - x0, y1 - y0
        area, side = wide * high, max(wide, high)
        if side < 4.6 or area < rng.uniform(10, 24):
            cells.append(Cell((x0, y0, x1, y1), "slot"))
            continue
        cut = float(rng.uniform(0.36, 0.64)) * side
        if wide >= high:
            todo += [(x0, y0, x0 + cut, y1), (x0 + cut, y0, x1, y1)]
        else:
            todo += [(x0, y0, x1, y0 + cut), (x0, y0 + cut, x1, y1)]
    return cells


def area_m2(rect: Rect) -> float:
    return (rect[2] - rect[0]) * (rect[3] - rect[1])


def shared_wall(a: Rect, b: Rect) -> tuple[bool, float, float, float] | None:
    """(vertical?, line, low, high) of the wall between two rectangles; None if they do not touch."""
    for vertical in (True, False):
        i, j = (0, 1) if vertical else (1, 0)
        for line, other in ((a[i + 2], b[i]), (a[i], b[i + 2])):
            low, high = max(a[j], b[j]), min(a[j + 2], b[j + 2])
            if abs(line - other) < 1e-6 and high - low > 1e-6:
                return vertical, line, low, high
    return None


def wall_length_m(a: Rect, b: Rect) -> float:
    """Length of the wall between two rectangles, 0 if they do not touch."""
    wall = shared_wall(a, b)
    return 0.0 if wall is None else wall[3] - wall[2]


def turned(rect: Rect, orientation: int) -> Rect:
    """The rectangle in one of eight orientations: bit 0 mirrors x, bit 1 mirrors y, bit 2 swaps the axes."""
    (xa, ya), (xb, yb) = turned_point(rect[:2], orientation), turned_point(rect[2:], orientation)
    return (min(xa, xb), min(ya, yb), max(xa, xb), max(ya, yb))


def turned_point(point: tuple[float, float], orientation: int) -> tuple[float, float]:
    """The same for a point."""
    x, y = (-point[0] if orientation & 1 else point[0], -point[1] if orientation & 2 else point[1])
    return (y, x) if orientation & 4 else (x, y)
