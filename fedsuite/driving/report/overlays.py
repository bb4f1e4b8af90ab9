"""Drawing of an overlay: silos at their longitude and latitude, or on a circle where places are unknown."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedsuite.report.plots import COLOURS, blank_figure, save_figure

_MANY = 40  # above this many silos, labels would cover one another


def places(positions_deg: np.ndarray | None, num_silos: int) -> np.ndarray:
    """[N, 2] horizontal and vertical places: longitude and latitude (degrees), or a circle of radius 1 from the top."""
    if positions_deg is not None:
        return np.asarray(positions_deg, dtype=np.float64)[:, ::-1]
    angle_rad = np.pi / 2 - 2 * np.pi * np.arange(num_silos) / num_silos
    return np.column_stack([np.cos(angle_rad), np.sin(angle_rad)])


def plot_overlay(
    positions_deg: np.ndarray | None,
    labels: Sequence[str],
    edges: Sequence[tuple[int, int]],
    path: Path,
    title: str = "",
    directed: bool = False,
) -> None:
    """Write the drawing to `path` (.png, .pdf, ...).

    positions_deg: [N, 2] latitude and longitude, or None. edges: pairs of silo numbers; with `directed` as arrows i -> j,
    otherwise each link once. InputError if the format is unknown.
    """
    size = len(labels)
    at = places(positions_deg, size)
    figure, axes = blank_figure(7.2, 4.8)
    for i, j in sorted(set(edges)) if directed else sorted({(min(e), max(e)) for e in edges}):
        style = {"arrowstyle": "-|>" if directed else "-", "color": COLOURS[0], "alpha": 0.7}
        axes.annotate("", xy=tuple(at[j]), xytext=tuple(at[i]), arrowprops=style)
    axes.scatter(at[:, 0], at[:, 1], s=18, color=COLOURS[1], zorder=3)
    if size <= _MANY:
        for label, place in zip(labels, at, strict=True):
            axes.annotate(
                label, tuple(place), xytext=(3, 3), textcoords="offset points", fontsize=7
            )
    axes.margins(0.1)
    axes.set_title(title)
    if positions_deg is None:
        axes.set_axis_off()
        axes.set_aspect("equal")
    else:
        axes.set_xlabel("longitude (degrees)")
        axes.set_ylabel("latitude (degrees)")
    save_figure(figure, path)
