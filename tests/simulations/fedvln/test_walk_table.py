"""What a walk's table says of a move: where it goes, as the camera looked before it."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simulations.fedvln.walk_table import _direction

EAST, NORTH, UP = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 1.0, 2.0)


@pytest.mark.parametrize(
    ("move", "heading", "told"),
    [
        (NORTH, 0.0, "ahead"), (EAST, 0.0, "right"), (EAST, 90.0, "ahead"), (NORTH, 90.0, "left"),
        (NORTH, 180.0, "behind"), (EAST, 45.0, "ahead right"), (EAST, 135.0, "ahead left"), (NORTH, 225.0, "behind right"),
        (UP, 0.0, "ahead, up"), ((0.0, -1.0, -2.0), 0.0, "behind, down"), ((0.0, 1.0, 0.2), 0.0, "ahead"),
    ],
)  # fmt: skip
def test_directions(move: tuple[float, ...], heading: float, told: str) -> None:
    """The second of three moves, of which the others go elsewhere."""
    at = np.cumsum([(5.0, 5.0, 5.0), (-3.0, -1.0, 0.0), move, (2.0, -7.0, 0.0)], axis=0)
    walk: Any = SimpleNamespace(positions_m=at, heading_rad=[1.0, math.radians(heading), 2.0])
    assert _direction(walk, 1) == told
