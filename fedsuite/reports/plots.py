"""Learning curves of finished runs.

Runs come as pandas frames by label, like `RunFrames.rounds` of `fedsuite.history.load_runs`. A frame
with several runs (seeds, folds) is drawn as their mean with a band of one sample standard deviation on
either side. Rounds without a value of a metric (not evaluated) hold NaN.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedsuite.errors import InputError

# Okabe and Ito's colours, told apart with any common colour blindness (without yellow: too pale on
# white). Line styles and markers differ as well, for prints in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MOST_CURVES = len(COLOURS)  # more cannot be told apart
_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LEVEL_LINES = (":", (0, (1, 4)))
_DOUBLINGS = 4.0  # a range of at least so many times its least value is drawn in doublings
_SIZES_IN = {1: (6.4, 4.0), 2: (9.6, 3.6)}  # by number of panels
_DOTS_PER_INCH = 150
_LONGEST_LABEL = 24  # characters of a line beside the lowest of the figures
_FEW_POINTS = 30  # up to here every point gets a marker


def blank_panels(width_in: float, height_in: float, panels: int) -> tuple[Figure, list[Axes]]:
    """An empty drawing of panels side by side that needs no display and leaves no state behind."""
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    row = list(figure.subplots(1, panels, squeeze=False)[0])
    for axes in row:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    return figure, row


def blank_figure(width_in: float, height_in: float) -> tuple[Figure, Axes]:
    """The same with one panel."""
    figure, (axes,) = blank_panels(width_in, height_in, 1)
    return figure, axes


def save_figure(figure: Figure, file: Path) -> None:
    """Write in the format that the file's ending names; InputError if there is no such format."""
    known = sorted(figure.canvas.get_supported_filetypes())
    if file.suffix.removeprefix(".") not in known:
        raise InputError(f"{file}: cannot draw this format; use one of {', '.join(known)}")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=_DOTS_PER_INCH, bbox_inches="tight")


def beside_axis(label: str) -> str:
    """A label of a vertical axis, in lines of which none is cut."""
    return textwrap.fill(label, _LONGEST_LABEL)


def look_of(number: int) -> dict[str, Any]:
    """Colour, line style and marker of a drawing's line of this number."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": _LINES[number % len(_LINES)],
        "marker": _MARKERS[number % len(_MARKERS)],
    }


def draw_mean(
    axes: Axes, points: pd.DataFrame, x: str, value: str, look: Mapping[str, Any], band: bool = True
) -> None:
    """A line through the mean of column `value` at every `x` and, where points repeat, the band."""
    at_x = points.groupby(x)[value]
    mean, deviation = at_x.mean(), at_x.std()
    places = mean.index.to_numpy()
    every = max(1, len(places) // _FEW_POINTS)
    axes.plot(places, mean.to_numpy(), markersize=4, markevery=every, **look)
    if band and at_x.size().max() > 1:
        low, high = (mean - deviation).to_numpy(), (mean + deviation).to_numpy()
        axes.fill_between(places, low, high, color=look["color"], alpha=0.2, linewidth=0)


def learning_curves(
    runs: Mapping[str, pd.DataFrame],
    panels: Mapping[str, str],
    path: Path,
    *,
    x: str = "round",
    x_label: str = "round",
    levels: Mapping[str, Sequence[float]] | None = None,
    marked: bool = False,
) -> None:
    """Draw metrics over rounds, one curve per label, and write it to `path` (.png, .pdf, ...).

    panels: metric -> label of its axis, each in a panel of its own. x: another metric of the same rounds to stand on the
    horizontal axis instead. levels: name -> values, by panel, of what does not depend on x. marked: x are a few
    chosen values, each of which gets its own mark on the axis.
    """
    if not runs:
        raise InputError("no runs to draw; name at least one run")
    figure, row = blank_panels(*_SIZES_IN[min(len(panels), 2)], len(panels))
    for place, (axes, (metric, label)) in enumerate(zip(row, panels.items(), strict=True)):
        for number, (name, frame) in enumerate(runs.items()):
            for column in (metric, x):
                if column not in frame:
                    known = ", ".join(sorted(set(map(str, frame)) - {"run", "round"})) or "none"
                    raise InputError(f"run {name!r} has no metric {column!r}; it has {known}")
            found = frame.dropna(subset=[metric, x])
            repeats = found.groupby(x).size().max()
            title = f"{name} ({repeats} runs)" if repeats > 1 else name
            draw_mean(axes, found, x, metric, look_of(number) | {"label": title})
        for number, (name, values) in enumerate((levels or {}).items()):
            style = _LEVEL_LINES[number % len(_LEVEL_LINES)]
            axes.axhline(values[place], color="grey", linestyle=style, label=name)
        axes.set(xlabel=x_label, ylabel=beside_axis(label))
        if x == "round":
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if marked:
            _mark_values(axes, sorted({v for frame in runs.values() for v in frame[x]}))
    if len(panels) == 1:
        row[0].legend(frameon=False)
    else:
        handles, names = row[0].get_legend_handles_labels()
        figure.legend(handles, names, frameon=False, loc="outside right center")
    save_figure(figure, path)


def _mark_values(axes: Axes, values: Sequence[float]) -> None:
    if values[0] > 0 and values[-1] / values[0] >= _DOUBLINGS:
        positions = [math.log2(v) for v in values]
        axes.set_xscale("log", base=2)
        gap = 0.05 * (positions[-1] - positions[0])
        axes.set_xlim(2 ** (positions[0] - gap), 2 ** (positions[-1] + gap))
    axes.set_xticks(values, [f"{v:g}" for v in values])
    axes.minorticks_off()
