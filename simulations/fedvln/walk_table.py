"""A walk as a table for a terminal: where each decision led, how sure the agent was, and which words it attended to."""

import math
from collections.abc import Iterator

import numpy as np
from rich.console import RenderableType
from rich.table import Table

from fedsuite.errors import one_line
from fedsuite.vln.evaluation.following import STOP_HERE, InstructionWalk
from fedsuite.vln.walking import Walker

SHOWN_WORDS = 3  # of every decision
ID_LENGTH = 8  # characters of a viewpoint; --start takes as few
SECTORS = (
    "ahead", "ahead right", "right", "behind right", "behind", "behind left", "left", "ahead left",
)  # fmt: skip
STEEP = math.tan(math.radians(15))  # rise over run of a move that goes up or down


def lines_of(name: str, walker: Walker, walk: InstructionWalk) -> Iterator[RenderableType]:
    """All that is to be said of a walk."""
    place, look = _place(walker, walk.viewpoints[0]), math.degrees(walk.heading_rad[0])
    yield f"{one_line(name, 200)}: house {walk.scan}, from {place}, camera at {look:.0f} degrees"
    if walker.config.ablations.blind_to == "language":
        yield "this run's agent reads no instruction (ablations.blind-to = language)"
    if walk.unknown:
        words = ", ".join(one_line(w, 40) for w in walk.unknown)
        yield f"not in its vocabulary: {one_line(words)}"
    if walk.left_out:
        limit = walker.config.data.max_instruction_length
        yield f"not read: the last {walk.left_out} words (data.max-instruction-length = {limit})"
    yield steps_table(walker, walk)
    yield walk.summary


def steps_table(walker: Walker, walk: InstructionWalk) -> Table:
    """A row per decision: where it led, direction from the camera, metres, probability, words most attended to."""
    table = Table("", "to", "direction", "m", "p", "words most attended to", box=None)
    for number, decision in enumerate(walk.decisions):
        best = np.argsort(-walk.attention[number], kind="stable")[:SHOWN_WORDS]
        words = [f"{walk.attention[number, w]:.2f} {one_line(walk.words[w], 20)}" for w in best]
        chosen, p = decision.possible[decision.chosen], decision.probability[decision.chosen]
        to, direction, length = STOP_HERE, "", ""
        if decision.chosen:
            to, direction = _place(walker, chosen), _direction(walk, number)
            length = f"{walk.lengths_m[number]:.1f}"
        table.add_row(str(number + 1), to, direction, length, f"{p:.2f}", "  ".join(words))
    return table


def _place(walker: Walker, viewpoint: str) -> str:
    room = walker.plan.room_name(walker.house.graph.index[viewpoint])
    return f"{viewpoint[:ID_LENGTH]} ({room})" if room else viewpoint[:ID_LENGTH]


def _direction(walk: InstructionWalk, move: int) -> str:
    """Where a move goes, as the camera looks before it."""
    x, y, z = walk.positions_m[move + 1] - walk.positions_m[move]
    turn = math.atan2(x, y) - walk.heading_rad[move]
    sector = SECTORS[round(turn / (2 * math.pi / len(SECTORS))) % len(SECTORS)]
    steep = abs(z) > STEEP * math.hypot(x, y)
    return f"{sector}, {'up' if z > 0 else 'down'}" if steep else sector
