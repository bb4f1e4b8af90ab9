"""Drawings of overlays: where silos stand, what is drawn, and faults."""

import numpy as np
import pytest

from fedsuite.driving.report import overlays
from fedsuite.driving.report.overlays import places, plot_overlay
from fedsuite.errors import InputError

LABELS = ("Lyon", "Turin", "Genoa")
POSITIONS = np.array([[45.8, 4.8], [45.1, 7.7], [44.4, 8.9]])


@pytest.fixture
def drawn(monkeypatch):
    made = []
    original = overlays.blank_figure

    def recording(*size):
        figure, axes = original(*size)
        made.append(axes)
        return figure, axes

    monkeypatch.setattr(overlays, "blank_figure", recording)
    return made


def test_map(tmp_path, drawn):
    file = tmp_path / "plots" / "ring.png"
    plot_overlay(POSITIONS, LABELS, [(0, 1), (1, 2), (2, 0)], file, "ring", directed=True)
    assert file.read_bytes().startswith(b"\x89PNG")
    (axes,) = drawn
    assert axes.collections[0].get_offsets().tolist() == POSITIONS[:, ::-1].tolist()
    arrows = [t for t in axes.texts if t.arrow_patch is not None]
    assert [tuple(t.xy) for t in arrows] == [(7.7, 45.1), (8.9, 44.4), (4.8, 45.8)]
    assert [t.get_text() for t in axes.texts if t.arrow_patch is None] == list(LABELS)
    assert (axes.get_title(), axes.get_xlabel()) == ("ring", "longitude (degrees)")


def test_links_are_drawn_once_on_a_circle(tmp_path, drawn):
    plot_overlay(None, LABELS, [(0, 1), (1, 0), (2, 1)], tmp_path / "tree.svg")
    (axes,) = drawn
    assert sum(t.arrow_patch is not None for t in axes.texts) == 2
    at = places(None, 3)
    assert np.hypot(*at.T) == pytest.approx([1, 1, 1]) and at[0] == pytest.approx([0, 1])


def test_a_format_that_is_unknown(tmp_path):
    with pytest.raises(InputError, match="cannot draw this format"):
        plot_overlay(None, LABELS, [], tmp_path / "a.doc")
