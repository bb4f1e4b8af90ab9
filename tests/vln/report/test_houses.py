"""The drawing of a house: what is on it, and refused paths."""

import numpy as np
import pytest

from fedsuite.vln.report import houses
from fedsuite.vln.report.houses import DrawnPath, plot_paths

POSITIONS_M = np.array([[0.0, 0, 1], [2, 0, 1], [2, 3, 4], [9, 9, 9]])
EDGES = np.zeros((4, 4), bool)
EDGES[0, 1] = EDGES[1, 0] = EDGES[1, 2] = True  # 1 -> 2 one way only; 3 is isolated


@pytest.fixture
def drawn(monkeypatch):
    made = []

    def recording(*size):
        figure, axes = original(*size)
        made.append(axes)
        return figure, axes

    original = houses.blank_figure
    monkeypatch.setattr(houses, "blank_figure", recording)
    return made


def test_graph_and_walks_from_above(tmp_path, drawn):
    walks = [DrawnPath("reference", [0, 1, 2], True), DrawnPath("agent", np.array([0, 1]))]
    plot_paths(POSITIONS_M, EDGES, walks, tmp_path / "house.png", title="villa")
    assert (tmp_path / "house.png").read_bytes().startswith(b"\x89PNG")
    (axes,) = drawn
    edges, viewpoints = axes.collections
    segments = [s.tolist() for s in edges.get_segments()]
    assert segments == [[[0, 0], [2, 0]], [[2, 0], [2, 3]]]
    assert viewpoints.get_offsets().tolist() == [[0, 0], [2, 0], [2, 3]]
    labelled = {line.get_label(): line for line in axes.get_lines() if line.get_label()[0] != "_"}
    assert labelled["reference"].get_xydata().tolist() == [[0, 0], [2, 0], [2, 3]]
    assert labelled["agent"].get_xydata().tolist() == [[0, 0], [2, 0]]
    assert labelled["reference"].get_color() == "#000000" != labelled["agent"].get_color()
    assert labelled["reference"].get_linestyle() == "--"
    assert axes.get_title() == "villa" and axes.get_aspect() == 1


def test_a_house_without_walks(tmp_path):
    plot_paths(POSITIONS_M, EDGES, [], tmp_path / "house.pdf")
    plot_paths(POSITIONS_M, EDGES & False, [], tmp_path / "empty.pdf")
    assert (tmp_path / "house.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("viewpoints", [[], [0, 4], [-1]])
def test_refused_walks(tmp_path, viewpoints):
    with pytest.raises(ValueError, match=r"path 'agent': expected viewpoint indices 0\.\.3, got"):
        plot_paths(POSITIONS_M, EDGES, [DrawnPath("agent", viewpoints)], tmp_path / "a.png")


def test_refused_shapes(tmp_path):
    with pytest.raises(ValueError, match=r"got \(4, 2\) and \(4, 4\)"):
        plot_paths(POSITIONS_M[:, :2], EDGES, [], tmp_path / "a.png")
