"""Drawings of what a network steers: frames with angles, angles by silo, and where on the road its errors are.

Angles are left positive, in the unit of the run. Recorded angles are light blue and dashed, steered ones red and solid.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fedsuite.driving.data.given import Given
from fedsuite.driving.evaluation.metrics import errors_of
from fedsuite.reports.plots import COLOURS, blank_panels

TRUTH: dict[str, Any] = {"color": COLOURS[4], "linestyle": "--"}
STEERED: dict[str, Any] = {"color": COLOURS[1], "linestyle": "-"}
MOST_FRAMES, MOST_GROUPS = 8, 12
_LEAN_DEG = 60.0  # of the largest angle in a drawing
_COLUMNS, _BINS = 4, 31


def steered_frames(given: Given, angles: np.ndarray, unit: str) -> Figure:
    """At most MOST_FRAMES of the frames, spread evenly, with the steered angle and, where it is known, the recorded one.

    Arrows start at the car and lean with the angle: the largest in the drawing by 60 degrees, all others in proportion.
    """
    count = min(len(given), MOST_FRAMES)
    chosen = np.linspace(0, len(given) - 1, count).round().astype(int)
    both = np.abs(np.concatenate([angles[chosen], given.truth[chosen]]))
    span = float(np.nanmax(both)) or 1.0
    columns = min(count, _COLUMNS)
    rows = -(-count // columns)
    figure = Figure(figsize=(1.5 * columns, 1.75 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, i in zip(panels, chosen, strict=False):
        _draw_frame(axes, given.images[i])
        lines = [given.names[i][-26:]]
        if np.isfinite(given.truth[i]):
            _draw_arrow(axes, given.images.shape[-1], given.truth[i] / span, TRUTH)
            lines.append(f"{angles[i]:+.2f} (recorded {given.truth[i]:+.2f})")
        else:
            lines.append(f"{angles[i]:+.2f}")
        _draw_arrow(axes, given.images.shape[-1], angles[i] / span, STEERED)
        axes.set_title("\n".join(lines), fontsize=7)
    for unused in panels[count:]:
        unused.set_axis_off()
    known = bool(np.isfinite(given.truth[chosen]).any())
    title = f"angle in {unit}, left positive; arrows lean {_LEAN_DEG:.0f}° at {span:.2f}"
    _legend(figure, known, title)
    return figure


def steering_distributions(given: Given, angles: np.ndarray, unit: str) -> Figure:
    """Histograms of recorded and steered angles, all frames first, then at most MOST_GROUPS silos or drives."""
    names = list(dict.fromkeys(given.groups))[:MOST_GROUPS]
    groups = np.array(given.groups)
    parts = [(name, groups == name) for name in names]
    if len(parts) > 1:
        parts.insert(0, ("all", np.ones(len(given), bool)))
    columns = min(len(parts), _COLUMNS)
    rows = -(-len(parts) // columns)
    size = (max(2.3 * columns, 4.6), 1.7 * rows + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    limit = float(np.nanmax(np.abs(np.concatenate([given.truth, angles])))) or 1.0
    bins = np.linspace(-limit, limit, _BINS).tolist()
    for axes, (name, own) in zip(panels, parts, strict=False):
        _draw_histograms(axes, name, given.truth[own], angles[own], bins)
    for unused in panels[len(parts) :]:
        unused.set_axis_off()
    figure.supxlabel(f"steering angle ({unit}, left positive)", fontsize=9)
    figure.supylabel("share of frames", fontsize=9)
    handles = [
        Line2D([], [], linewidth=1.2, label="steered", **STEERED),
        Patch(color=TRUTH["color"], alpha=0.8, label="recorded"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    return figure


def errors_along(given: Given, angles: np.ndarray, unit: str) -> Figure:
    """Recorded and steered angle of a drive, frame by frame, and under it the error."""
    figure = Figure(figsize=(8.0, 4.4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    at, error = np.arange(len(given)), angles - given.truth
    upper.plot(at, given.truth, linewidth=1, **TRUTH)
    upper.plot(at, angles, linewidth=1, **STEERED)
    lower.fill_between(at, 0, error, color=COLOURS[0], linewidth=0)
    upper.set_ylabel(f"angle ({unit},\nleft positive)")
    lower.set_ylabel("steered less\nrecorded")
    lower.set_xlabel("frame of the drive")
    _mark_groups((upper, lower), given.groups)
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    _legend(figure, True, _errors_in_words(angles, given.truth, unit))
    return figure


def errors_on_road(given: Given, angles: np.ndarray, unit: str) -> Figure:
    """Size of the error over the road's curvature and over the car's place in its lane (generated roads)."""
    error = np.abs(angles - given.truth)
    figure, panels = blank_panels(8.0, 3.6, 2)
    labels = ("curvature of the road (1/m, left positive)", "place in the lane (m, left positive)")
    for axes, values, label in zip(panels, given.poses[:, [2, 0]].T, labels, strict=True):
        axes.scatter(values, error, s=7, color=COLOURS[4], alpha=0.5, linewidth=0)
        middles, medians = _medians(values, error)
        axes.plot(middles, medians, color=COLOURS[1], marker="o", markersize=4)
        axes.set_xlabel(label)
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel(f"size of the error ({unit})")
    dot: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 4}
    handles = [
        Line2D([], [], color=COLOURS[4], label="frame", **dot),
        Line2D([], [], color=COLOURS[1], marker="o", markersize=4, label="median of a tenth"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(_errors_in_words(angles, given.truth, unit), fontsize=9)
    return figure


def _medians(values: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Medians of both over tenths of the frames, in order of `values`."""
    parts = np.array_split(np.argsort(values, kind="stable"), min(10, len(values)))
    pairs = [(np.median(values[p]), np.median(error[p])) for p in parts]
    middles, medians = np.array(pairs).T
    return middles, medians


def _draw_frame(axes: Axes, image: np.ndarray) -> None:
    picture = np.moveaxis(image, 0, -1)
    grey = picture.shape[-1] == 1
    axes.imshow(
        picture[..., 0] if grey else picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest"
    )
    axes.set_xticks([])
    axes.set_yticks([])


def _draw_arrow(axes: Axes, size_px: int, share: float, look: dict[str, Any]) -> None:
    """From the middle of the lower edge; share: of the largest angle, left positive."""
    lean = np.deg2rad(_LEAN_DEG) * share
    start = np.array([size_px / 2 - 0.5, size_px - 1.0])
    end = start + 0.55 * size_px * np.array([-np.sin(lean), -np.cos(lean)])
    style = {"arrowstyle": "->", "linewidth": 2.0, **look}
    axes.annotate("", xy=tuple(end), xytext=tuple(start), arrowprops=style)


def _draw_histograms(
    axes: Axes, name: str, truth: np.ndarray, angles: np.ndarray, bins: list[float]
) -> None:
    share = np.full(len(angles), 1 / len(angles))
    axes.hist(truth, bins=bins, weights=share, color=TRUTH["color"], alpha=0.8)
    axes.hist(
        angles, bins=bins, weights=share, histtype="step", color=STEERED["color"], linewidth=1.2
    )
    axes.set_title(f"{name}: RMSE {errors_of(angles, truth).scores['rmse']:.3f}", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _mark_groups(panels: Sequence[Axes], groups: Sequence[str]) -> None:
    """A line where one drive ends and the next begins."""
    for i in range(1, len(groups)):
        if groups[i] != groups[i - 1]:
            for axes in panels:
                axes.axvline(i - 0.5, color="0.5", linewidth=0.8)


def _errors_in_words(angles: np.ndarray, truth: np.ndarray, unit: str) -> str:
    found = errors_of(angles, truth)
    told = ", ".join(f"{m.heading} {found.scores[m.name]:.3f}" for m in found.rows)
    return f"{told} {unit} over {found.count} frames"


def _legend(figure: Figure, known: bool, title: str) -> None:
    handles = [Line2D([], [], linewidth=2, label="steered", **STEERED)]
    if known:
        handles.append(Line2D([], [], linewidth=2, label="recorded", **TRUTH))
    figure.legend(
        handles=handles, title=title, loc="outside upper center", ncols=2, frameon=False,
        fontsize=8, title_fontsize=8,
    )  # fmt: skip
