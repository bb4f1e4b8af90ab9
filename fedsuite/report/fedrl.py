"""Drawings of FedRL: score and reward side by side, over the course of training or over the values of one setting.

As figures 4 and 5 of Zhuo et al. (2019), which have the score in one row and the reward in the other. Lines
are means over runs (seeds, folds), with a band of one sample standard deviation on either side.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedsuite.errors import InputError
from fedsuite.report.plots import COLOURS, save_figure

PANELS = ("score", "reward")
MOST_LINES = len(COLOURS)  # more cannot be told apart
_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LEVELS = (":", (0, (1, 4)))
_DOUBLINGS = 4.0  # a range of at least so many times its least value is drawn in doublings


def plot_scores(
    points: pd.DataFrame,
    path: Path,
    *,
    x_label: str,
    score_label: str,
    levels: Mapping[str, tuple[float, float]] | None = None,
    is_sweep: bool = False,
) -> None:
    """Draw `points`: columns line, x, score, reward; several points of a line at one x are several runs.

    levels: name -> score and reward of what does not depend on x, drawn as level lines. is_sweep: x are a few
    chosen values, each of which gets its own mark on the axis.
    """
    if points.empty:
        raise InputError("no points to draw; name at least one finished run")
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    both = figure.subplots(1, len(PANELS))
    labels = (score_label, "average reward")
    for panel, (axes, value, label) in enumerate(zip(both, PANELS, labels, strict=True)):
        for number, (name, own) in enumerate(points.groupby("line", sort=False)):
            _line(axes, own, value, str(name), number)
        for number, (name, pair) in enumerate((levels or {}).items()):
            style = _LEVELS[number % len(_LEVELS)]
            axes.axhline(pair[panel], color="grey", linestyle=style, label=name)
        axes.set(xlabel=x_label, ylabel=label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
        if is_sweep:
            _mark_values(axes, sorted(points["x"].unique()))
    handles, names = both[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, loc="outside right center")
    save_figure(figure, path)


def _line(axes: Axes, own: pd.DataFrame, value: str, name: str, number: int) -> None:
    at_x = own.groupby("x")[value]
    mean, deviation, runs = at_x.mean(), at_x.std(), int(at_x.size().max())
    colour = COLOURS[number % len(COLOURS)]
    axes.plot(
        mean.index.to_numpy(),
        mean.to_numpy(),
        color=colour,
        linestyle=_LINES[number % len(_LINES)],
        marker=_MARKERS[number % len(_MARKERS)],
        markevery=max(1, len(mean) // 20),
        markersize=4,
        label=name if runs < 2 else f"{name} ({runs} runs)",
    )
    if runs > 1:
        low, high = (mean - deviation).to_numpy(), (mean + deviation).to_numpy()
        axes.fill_between(mean.index.to_numpy(), low, high, color=colour, alpha=0.2, linewidth=0)


def _mark_values(axes: Axes, values: list[float]) -> None:
    if values[0] > 0 and values[-1] / values[0] >= _DOUBLINGS:
        positions = [math.log2(v) for v in values]
        axes.set_xscale("log", base=2)
        gap = 0.05 * (positions[-1] - positions[0])
        axes.set_xlim(2 ** (positions[0] - gap), 2 ** (positions[-1] + gap))
    axes.set_xticks(values, [f"{v:g}" for v in values])
    axes.minorticks_off()
