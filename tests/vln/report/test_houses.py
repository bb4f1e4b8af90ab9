"""The drawing of a house: what is on it, and refused paths."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedsuite.vln.data.floor_plan import FloorPlan
from fedsuite.vln.generator.walls import Room
from fedsuite.vln.report.houses import (
    DrawnPath,
    draw_storey,
    legend_handles,
    plot_paths,
    shown_storeys,
    window_of,
)

POSITIONS_M = np.array([[0.0, 0, 1], [2, 0, 1], [2, 3, 4], [9, 9, 9], [30, 0, 1]])
EDGES = np.zeros((5, 5), bool)
EDGES[0, 1] = EDGES[1, 0] = EDGES[1, 2] = EDGES[1, 4] = True  # 3 is isolated
ROOMS = (Room("kitchen", "slot", 0, (-1, -1, 4, 1)), Room("attic", "slot", 1, (-1, -1, 4, 4)))
PLAN = FloorPlan(
    "villa", tuple("abcde"), POSITIONS_M, EDGES, np.array([0, 0, 1, 1, 0]), np.array([0, 0, 1, 1, 0]), ROOMS,
    (np.array([[-1.0, -1, 4, -1]]), np.zeros((0, 4))),
)  # fmt: skip
WALK, REFERENCE = DrawnPath("agent", np.array([0, 1])), DrawnPath("reference", [0, 1, 2], True)


def drawn(storey: int, *paths: DrawnPath):
    axes = Figure().subplots()
    draw_storey(axes, PLAN, storey, paths, window_of(PLAN))
    return axes


def segments(axes) -> list[list[list[list[float]]]]:
    """Of walls, graph and paths."""
    found = [c for c in axes.collections if hasattr(c, "get_segments")]
    return [[s.tolist() for s in c.get_segments()] for c in found]


def marks(axes) -> dict[str, list[list[float]]]:
    return {line.get_marker(): line.get_xydata().tolist() for line in axes.get_lines()}


def test_graph_and_walks_from_above():
    axes = drawn(0, REFERENCE, WALK)
    walls, graph, agent, reference = segments(axes)
    assert walls == [[[-1, -1], [4, -1]]]
    assert graph == [[[0, 0], [2, 0]], [[2, 0], [30, 0]]]
    assert agent == [[[0, 0], [2, 0]]]
    assert reference == [[[0, 0], [2, 0]], [[2, 0], [2, 3]]]
    assert marks(axes) == {"o": [[0, 0]], "s": [[2, 0]], "^": [[2, 3]]}
    assert [t.get_text() for t in axes.texts] == ["kitchen", "storey 1 of 2"]
    assert axes.get_aspect() == 1
    (points,) = [c for c in axes.collections if len(c.get_offsets()) > 1]
    assert points.get_offsets().tolist() == [[0, 0], [2, 0], [30, 0]]


def test_the_goal_and_its_radius_are_on_its_storey():
    axes = drawn(1, REFERENCE, WALK)
    assert marks(axes) == {"*": [[2, 3]], "v": [[2, 0]]}
    (ring,) = [p for p in axes.patches if hasattr(p, "radius")]
    assert ring.center == (2, 3) and ring.radius == 3
    assert "kitchen" not in [t.get_text() for t in axes.texts]


def test_only_touched_storeys_are_shown():
    assert shown_storeys(PLAN, [WALK]) == [0]
    assert shown_storeys(PLAN, [WALK, REFERENCE]) == shown_storeys(PLAN, []) == [0, 1]


def test_a_window_keeps_to_the_paths():
    assert window_of(PLAN)[:2] == pytest.approx((-1.6, 30.6))
    near = window_of(PLAN, [WALK], around_m=4)
    assert near == pytest.approx((-1.6, 6.6, -1.6, 4.6))  # no further than the house


def test_legend():
    labels = [h.get_label() for h in legend_handles([REFERENCE, WALK], 2)]
    assert labels == [
        "reference", "agent", "start", "end of a walk", "goal, 3 m around it", "to another storey"
    ]  # fmt: skip
    assert [h.get_label() for h in legend_handles([WALK], 1)][1:] == ["start", "end of a walk"]
    reference, agent = legend_handles([REFERENCE, WALK], 1)[:2]
    assert reference.get_color() == "#000000" != agent.get_color()


@pytest.mark.slow
def test_files(tmp_path):
    plot_paths(PLAN, [REFERENCE, WALK], tmp_path / "house.png", title="villa")
    plot_paths(PLAN, [], tmp_path / "house.pdf")
    assert (tmp_path / "house.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "house.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("viewpoints", [[], [0, 5], [-1]])
def test_refused_walks(tmp_path, viewpoints):
    with pytest.raises(ValueError, match=r"path 'agent': expected viewpoint indices 0\.\.4, got"):
        plot_paths(PLAN, [DrawnPath("agent", viewpoints)], tmp_path / "a.png")
