"""Learning curves: the drawn data, the file, and bad input."""

import itertools

import numpy as np
import pandas as pd
import pytest

from fedsuite.errors import InputError
from fedsuite.report import plots
from fedsuite.report.plots import COLOURS, learning_curves


def frame(values, run="r"):
    return pd.DataFrame({"run": run, "round": range(1, len(values) + 1), "sr": values})


@pytest.fixture
def drawn(monkeypatch):
    """Axes of every figure that is made."""
    made = []

    def recording(*size):
        figure, axes = original(*size)
        made.append(axes)
        return figure, axes

    original = plots.blank_figure
    monkeypatch.setattr(plots, "blank_figure", recording)
    return made


def test_one_curve_per_label(tmp_path, drawn):
    file = tmp_path / "plots" / "sr.png"
    runs = {"full": frame([0.1, np.nan, 0.3]), "lan": frame([0.2, 0.25, 0.35])}
    learning_curves(runs, "sr", file, y_label="success rate")
    assert file.read_bytes().startswith(b"\x89PNG")
    (axes,) = drawn
    full, lan = axes.get_lines()
    assert full.get_xdata().tolist() == [1, 3] and full.get_ydata().tolist() == [0.1, 0.3]
    assert lan.get_ydata().tolist() == [0.2, 0.25, 0.35]
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["full", "lan"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "success rate")
    assert not axes.collections


def test_seeds_become_a_mean_with_a_band(tmp_path, drawn):
    both = pd.concat([frame([0.1, 0.3], "s1"), frame([0.3, 0.7], "s2")])
    learning_curves({"lan": both}, "sr", tmp_path / "sr.svg")
    (axes,) = drawn
    assert axes.get_lines()[0].get_ydata() == pytest.approx([0.2, 0.5])
    low_high = axes.collections[0].get_paths()[0].get_extents()
    spread = np.std([0.3, 0.7], ddof=1)
    assert (low_high.y0, low_high.y1) == pytest.approx((0.2 - np.sqrt(0.02), 0.5 + spread))
    assert axes.get_legend().get_texts()[0].get_text() == "lan (2 seeds)"


def test_equal_runs_give_equal_files(tmp_path):
    for name in ("a.png", "b.png"):
        learning_curves({"lan": frame([0.1, 0.2])}, "sr", tmp_path / name)
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
    with pytest.raises(InputError, match="run 'lan' has no metric 'srr'; did you mean sr"):
        learning_curves({"lan": frame([0.1])}, "srr", tmp_path / "a.png")
    with pytest.raises(InputError, match=r"a\.doc: cannot draw this format; use one of .*png"):
        learning_curves({"lan": frame([0.1])}, "sr", tmp_path / "a.doc")
    with pytest.raises(InputError, match="no runs"):
        learning_curves({}, "sr", tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
