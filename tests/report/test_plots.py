"""Learning curves: the drawn data, the file, and bad input."""

import itertools

import numpy as np
import pandas as pd
import pytest

from fedsuite.errors import InputError
from fedsuite.reports import plots
from fedsuite.reports.plots import COLOURS, beside_axis, blank_figure, learning_curves, save_figure


def frame(values, run="r"):
    return pd.DataFrame({"run": run, "round": range(1, len(values) + 1), "sr": values})


@pytest.fixture
def drawn(monkeypatch):
    """Every figure that is written."""
    made = []

    def recording(figure, path):
        made.append(figure)
        save_figure(figure, path)

    monkeypatch.setattr(plots, "save_figure", recording)
    return made


def test_one_curve_per_label(tmp_path, drawn):
    file = tmp_path / "plots" / "sr.png"
    runs = {"full": frame([0.1, np.nan, 0.3]), "lan": frame([0.2, 0.25, 0.35])}
    learning_curves(runs, {"sr": "success rate"}, file)
    assert file.read_bytes().startswith(b"\x89PNG")
    (axes,) = drawn[0].axes
    full, lan = axes.get_lines()
    assert full.get_xdata().tolist() == [1, 3] and full.get_ydata().tolist() == [0.1, 0.3]
    assert lan.get_ydata().tolist() == [0.2, 0.25, 0.35]
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["full", "lan"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "success rate")
    assert not axes.collections


def test_seeds_become_a_mean_with_a_band(tmp_path, drawn):
    both = pd.concat([frame([0.1, 0.3], "s1"), frame([0.3, 0.7], "s2")])
    learning_curves({"lan": both}, {"sr": "SR"}, tmp_path / "sr.svg")
    (axes,) = drawn[0].axes
    assert axes.get_lines()[0].get_ydata() == pytest.approx([0.2, 0.5])
    low_high = axes.collections[0].get_paths()[0].get_extents()
    spread = np.std([0.3, 0.7], ddof=1)
    assert (low_high.y0, low_high.y1) == pytest.approx((0.2 - np.sqrt(0.02), 0.5 + spread))
    assert axes.get_legend().get_texts()[0].get_text() == "lan (2 runs)"


def points(x, score):
    return pd.DataFrame({"x": x, "score": score, "reward": [-s for s in score]})


def test_metrics_have_a_panel_each(tmp_path, drawn):
    """Over another metric, with level lines; runs at the same place are a mean with a band."""
    lines = {"b": points([1, 2], [3, 5]), "a": points([1, 2, 1, 2], [0, 2, 4, 8])}
    panels, levels = {"score": "F1", "reward": "average reward"}, {"random": (1.0, -7.0)}
    learning_curves(lines, panels, tmp_path / "x.png", x="x", x_label="steps", levels=levels)
    score, reward = drawn[0].axes
    b, a, level = score.get_lines()
    assert b.get_ydata().tolist() == [3, 5] and b.get_label() == "b"
    assert a.get_ydata().tolist() == [2, 5] and a.get_label() == "a (2 runs)"
    assert np.asarray(level.get_ydata()).tolist() == [1, 1]
    assert np.asarray(reward.get_lines()[2].get_ydata()).tolist() == [-7, -7]
    assert reward.get_lines()[1].get_ydata().tolist() == [-2, -5]
    assert (score.get_ylabel(), reward.get_ylabel()) == ("F1", "average reward")
    heights = np.asarray(score.collections[0].get_paths()[0].vertices)[:, 1]
    low, high = 2 - np.std([0, 4], ddof=1), 5 + np.std([2, 8], ddof=1)
    assert [heights.min(), heights.max()] == pytest.approx([low, high])


def test_chosen_values_are_marked(tmp_path, drawn):
    for values, scale in (([2, 4, 8, 16], "log"), ([0, 1, 8], "linear"), ([2, 3, 4], "linear")):
        lines = {"a": points([float(v) for v in values], [1.0] * len(values))}
        learning_curves(lines, {"score": "F1"}, tmp_path / "x.png", x="x", marked=True)
        axes = drawn[-1].axes[0]
        assert axes.get_xscale() == scale
        assert [t.get_text() for t in axes.get_xticklabels()] == [str(v) for v in values]


def test_equal_runs_give_equal_files(tmp_path):
    for name in ("a.png", "b.png"):
        learning_curves({"lan": frame([0.1, 0.2])}, {"sr": "SR"}, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def seen_by_deuteranopes(colour):
    """Rough linear simulation of red-green blindness (Machado et al. 2009, severity 1)."""
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    matrix = [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]
    return np.clip(matrix @ rgb, 0, 1)


def test_colours_stay_apart_for_the_colour_blind():
    for a, b in itertools.combinations(COLOURS, 2):
        assert np.linalg.norm(seen_by_deuteranopes(a) - seen_by_deuteranopes(b)) > 0.15, (a, b)


def test_bad_input_is_named(tmp_path):
    with pytest.raises(InputError, match="run 'lan' has no metric 'srr'; it has sr"):
        learning_curves({"lan": frame([0.1])}, {"srr": "SR"}, tmp_path / "a.png")
    with pytest.raises(InputError, match=r"a\.doc: cannot draw this format; use one of .*png"):
        learning_curves({"lan": frame([0.1])}, {"sr": "SR"}, tmp_path / "a.doc")
    with pytest.raises(InputError, match="no runs"):
        learning_curves({}, {"sr": "SR"}, tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_a_long_label_beside_an_axis_is_not_cut() -> None:
    """Of the size of a report's curves, with the legend that takes most room there."""
    label = "regression loss of own models at home, mean over silos"
    figure, axes = blank_figure(5.0, 3.4)
    for number in range(5):
        axes.plot([0, 1], [0, number], label=f"a line of some length {number}")
    axes.set(xlabel="rounds", ylabel=beside_axis(label))
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    figure.draw_without_rendering()
    box, whole = axes.yaxis.label.get_window_extent(), figure.bbox
    assert whole.y0 <= box.y0 and box.y1 <= whole.y1 and whole.x0 <= box.x0
    assert beside_axis(label).split() == label.split()
