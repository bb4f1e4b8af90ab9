"""What a walk's table says of a decision: where it goes, as the camera looked before it, and the words attended to."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simulations.fedvln.walk_table import SHOWN_WORDS, _direction, steps_table

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


def test_a_row_has_the_place_the_chance_and_the_words_most_attended_to() -> None:
    decisions = [
        SimpleNamespace(possible=["stop", "b", "c"], chosen=2, probability=[0.1, 0.2, 0.7]),
        SimpleNamespace(possible=["stop", "a"], chosen=0, probability=[0.9, 0.1]),
    ]
    walk: Any = SimpleNamespace(
        decisions=decisions, words=["go", "to", "the", "door"], lengths_m=[1.5],
        attention=np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.25, 0.05]]),
        positions_m=np.array([[0.0, 0, 0], [0.0, 1.5, 0]]), heading_rad=[0.0, 0.0],
    )  # fmt: skip
    rooms = SimpleNamespace(room_name=lambda place: "kitchen" if place == 2 else "")
    index = {"a": 0, "b": 1, "c": 2}
    walker: Any = SimpleNamespace(
        plan=rooms, house=SimpleNamespace(graph=SimpleNamespace(index=index))
    )
    table = steps_table(walker, walk)
    rows = [[str(cell) for cell in column.cells] for column in table.columns]
    told = list(zip(*rows, strict=True))
    assert SHOWN_WORDS == 3
    assert told[0][1:] == ("c (kitchen)", "ahead", "1.5", "0.70", "0.40 door  0.30 the  0.20 to")
    assert told[1][2:] == ("", "", "0.90", "0.40 go  0.30 to  0.25 the")
