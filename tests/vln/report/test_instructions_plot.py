"""Drawing of verbs: which ones, in which order, how high, the file."""

from pathlib import Path

import pytest
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from fedsuite.reports.plots import save_figure
from fedsuite.vln.report import speaker
from fedsuite.vln.report.speaker import common_verbs, verbs_plot

HUMAN = {"walk": 1.0, "turn": 0.8, "exit": 0.2}
GENERATED = {"turn": 0.9, "walk": 0.5, "stop": 0.3}


def test_bars_stand_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Figure] = []

    def recording(figure: Figure, path: Path) -> None:
        made.append(figure)
        save_figure(figure, path)

    monkeypatch.setattr(speaker, "save_figure", recording)
    file = tmp_path / "plots" / "verbs.png"
    monkeypatch.setattr(speaker, "MOST_VERBS", 3)
    verbs_plot({"human": HUMAN, "generated": GENERATED}, file)
    assert file.read_bytes().startswith(b"\x89PNG")
    (axes,) = made[0].axes
    assert [t.get_text() for t in axes.get_xticklabels()] == ["turn", "walk", "stop"]
    human, generated = (c for c in axes.containers if isinstance(c, BarContainer))
    assert [b.get_height() for b in human] == [0.8, 1.0, 0.0]
    assert [b.get_height() for b in generated] == [0.9, 0.5, 0.3]
    for left, right in zip(human, generated, strict=True):
        assert left.get_x() + left.get_width() == pytest.approx(right.get_x())


def test_verbs_are_ordered_by_sums_then_by_name() -> None:
    assert common_verbs({"a": {"x": 1.0, "y": 2.0}, "b": {"x": 1.0, "z": 3.0}}, 3) == [
        "z",
        "x",
        "y",
    ]
