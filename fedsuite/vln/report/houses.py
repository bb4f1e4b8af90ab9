"""One house from above: its navigation graph with predicted and reference walks."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from fedsuite.report.plots import COLOURS, blank_figure, save_figure

_REFERENCE_COLOUR = "#000000"


@dataclass(frozen=True)
class DrawnPath:
    """A walk over viewpoint indices 0..P-1, the start first; references are black and dashed."""

    label: str
    viewpoints: Sequence[int]
    is_reference: bool = False


def plot_paths(
    positions_m: np.ndarray,
    edges: np.ndarray,
    paths: Sequence[DrawnPath],
    file: Path,
    *,
    title: str = "",
) -> None:
    """Draw and write a house (.png, .pdf, .svg, ...): circles are starts, stars are ends of walks.

    positions_m [P, 3]: x, y, z with z up; edges [P, P] bool: the navigation graph, where either
    direction counts. Viewpoints without an edge are left out; lighter ones are higher up.
    """
    positions_m, edges = np.asarray(positions_m, np.float64), np.asarray(edges, bool)
    _check(positions_m, edges, paths)
    figure, axes = blank_figure(7.0, 6.0)
    _draw_graph(axes, positions_m, edges)
    colours = cycle(c for c in COLOURS if c != _REFERENCE_COLOUR)
    for path in sorted(paths, key=lambda p: p.is_reference):  # on top: dashes let others show
        colour = _REFERENCE_COLOUR if path.is_reference else next(colours)
        _draw_path(axes, positions_m, path, colour)
    axes.set_aspect("equal", adjustable="box")
    axes.set(xlabel="x (m)", ylabel="y (m)", title=title)
    if paths:
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save_figure(figure, file)


def _check(positions_m: np.ndarray, edges: np.ndarray, paths: Sequence[DrawnPath]) -> None:
    total = len(positions_m)
    if positions_m.shape != (total, 3) or edges.shape != (total, total):
        raise ValueError(
            f"expected positions [P, 3] and edges [P, P], got {positions_m.shape} and {edges.shape}"
        )
    for path in paths:
        if not len(path.viewpoints) or not all(0 <= v < total for v in path.viewpoints):
            raise ValueError(
                f"path {path.label!r}: expected viewpoint indices 0..{total - 1}, "
                f"got {list(path.viewpoints)}"
            )


def _draw_graph(axes: Axes, positions_m: np.ndarray, edges: np.ndarray) -> None:
    either = edges | edges.T
    first, second = np.nonzero(np.triu(either, 1))
    lines = np.stack([positions_m[first, :2], positions_m[second, :2]], 1)
    axes.add_collection(LineCollection(list(lines), colors="0.8", linewidths=0.8, zorder=1))
    x, y, z = positions_m[either.any(0)].T
    dots = axes.scatter(x, y, s=14, c=z, cmap="Greys_r", edgecolors="0.4", linewidths=0.5, zorder=2)
    if z.size:
        dots.set_clim(z.min() - 1, z.max() + 1)  # a metre of margin: one storey is mid-grey


def _draw_path(axes: Axes, positions_m: np.ndarray, path: DrawnPath, colour: str) -> None:
    x, y = positions_m[list(path.viewpoints), :2].T
    style, width, order = ("--", 1.6, 5) if path.is_reference else ("-", 2.6, 4)
    axes.plot(x, y, style, color=colour, linewidth=width, label=path.label, zorder=order)
    ends: dict[str, Any] = {"color": colour, "zorder": order + 2}
    axes.plot(x[:1], y[:1], "o", markersize=8, markerfacecolor="white", **ends)
    axes.plot(x[-1:], y[-1:], "*", markersize=13, **ends)
