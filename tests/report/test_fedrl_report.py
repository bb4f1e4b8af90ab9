"""Drawings of score and reward: the drawn data, the bands, the marks of a sweep, the file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from fedsuite.errors import InputError
from fedsuite.report import fedrl
from fedsuite.report.fedrl import plot_scores
from fedsuite.report.plots import save_figure


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that is written."""
    made: list[Figure] = []

    def recording(figure: Figure, path: Path) -> None:
        made.append(figure)
        save_figure(figure, path)

    monkeypatch.setattr(fedrl, "save_figure", recording)
    return made


def points(name: str, x: list[float], scores: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"line": name, "x": x, "score": scores, "reward": [-s for s in scores]})


def test_score_and_reward_have_a_panel_each(tmp_path: Path, drawn: list[Figure]) -> None:
    both = pd.concat([points("b", [1, 2], [3, 5]), points("a", [1, 2, 1, 2], [0, 2, 4, 8])])
    file = tmp_path / "plots" / "x.png"
    plot_scores(both, file, x_label="steps", score_label="F1", levels={"random": (1.0, -7.0)})
    assert file.read_bytes().startswith(b"\x89PNG")
    score, reward = drawn[0].axes
    b, a, level = score.get_lines()
    assert np.asarray(b.get_ydata()).tolist() == [3, 5] and b.get_label() == "b"
    assert np.asarray(a.get_ydata()).tolist() == [2, 5] and a.get_label() == "a (2 runs)"
    assert np.asarray(level.get_ydata()).tolist() == [1, 1]
    assert np.asarray(reward.get_lines()[2].get_ydata()).tolist() == [-7, -7]
    assert np.asarray(reward.get_lines()[1].get_ydata()).tolist() == [-2, -5]
    assert (score.get_ylabel(), reward.get_ylabel()) == ("F1", "average reward")
    (band,) = score.collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    deviation = np.std([2, 8], ddof=1)
    assert [heights.min(), heights.max()] == pytest.approx(
        [2 - np.std([0, 4], ddof=1), 5 + deviation]
    )


def test_a_sweep_marks_its_values(tmp_path: Path, drawn: list[Figure]) -> None:
    for values, scale in (([2, 4, 8, 16], "log"), ([0, 1, 8], "linear"), ([2, 3, 4], "linear")):
        given = points("a", [float(v) for v in values], [1.0] * len(values))
        plot_scores(given, tmp_path / "x.png", x_label="H", score_label="F1", is_sweep=True)
        axes = drawn[-1].axes[0]
        assert axes.get_xscale() == scale
        assert [t.get_text() for t in axes.get_xticklabels()] == [str(v) for v in values]


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no points to draw"):
        plot_scores(points("a", [], []), tmp_path / "x.png", x_label="H", score_label="F1")
