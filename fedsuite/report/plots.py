"""Learning curves of finished runs.

Runs come as pandas frames by label, as described in `fedsuite.report.tables`. A frame with
several runs (seeds) is drawn as their mean with a band of one sample standard deviation on either
side.
"""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedsuite.errors import InputError
from fedsuite.report.tables import metric_column

# Okabe and Ito's colours, told apart with any common colour blindness (without yellow: too pale on
# white). Line styles and markers differ as well, for prints in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DOTS_PER_INCH = 150
_FEW_ROUNDS = 30  # up to here every round gets a marker


def blank_figure(width_in: float, height_in: float) -> tuple[Figure, Axes]:
    """An empty drawing that needs no display and leaves no state behind."""
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    return figure, axes


def save_figure(figure: Figure, file: Path) -> None:
    """Write in the format that the file's ending names; InputError if there is no such format."""
    known = sorted(figure.canvas.get_supported_filetypes())
    if file.suffix.removeprefix(".") not in known:
        raise InputError(f"{file}: cannot draw this format; use one of {', '.join(known)}")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=_DOTS_PER_INCH, bbox_inches="tight")


def learning_curves(
    runs: Mapping[str, pd.DataFrame],
    metric: str,
    path: Path,
    *,
    y_label: str | None = None,
    x_metric: str | None = None,
    x_label: str = "round",
) -> None:
    """Draw `metric` over rounds, one curve per label, and write it to `path` (.png, .pdf, ...).

    x_metric: another metric of the same rounds to stand on the horizontal axis instead.
    """
    if not runs:
        raise InputError("no runs to draw; name at least one run")
    figure, axes = blank_figure(6.4, 4.0)
    for number, (label, frame) in enumerate(runs.items()):
        found = metric_column(frame, metric, label)
        if x_metric is not None:
            found["round"] = metric_column(frame, x_metric, label)["value"]
            found = found.dropna(subset="round")
        _curve(axes, found, label, number)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label or metric)
    axes.xaxis.set_major_locator(MaxNLocator(integer=x_metric is None))
    axes.legend(frameon=False)
    save_figure(figure, path)


def _curve(axes: Axes, found: pd.DataFrame, label: str, number: int) -> None:
    by_round = found.groupby("round")["value"]
    mean, deviation, seeds = by_round.mean(), by_round.std(), found["run"].nunique()
    rounds, colour = mean.index.to_numpy(), COLOURS[number % len(COLOURS)]
    axes.plot(
        rounds,
        mean.to_numpy(),
        color=colour,
        linestyle=_LINES[number % len(_LINES)],
        marker=_MARKERS[number % len(_MARKERS)],
        markevery=max(1, len(rounds) // _FEW_ROUNDS),
        markersize=4,
        label=label if seeds < 2 else f"{label} ({seeds} seeds)",
    )
    if seeds > 1:
        low, high = (mean - deviation).to_numpy(), (mean + deviation).to_numpy()
        axes.fill_between(rounds, low, high, color=colour, alpha=0.2, linewidth=0)
