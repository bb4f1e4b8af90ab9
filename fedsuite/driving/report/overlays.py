"""An overlay on a map: silos at their longitude and latitude, the network's links under it, mixing weights on its edges.

Where places are unknown silos stand on a circle. Longitudes are drawn shorter by the cosine of the middle latitude, so that
distances look alike both ways.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedsuite.driving.plan import Plan
from fedsuite.reports.plots import COLOURS, blank_figure

_MANY = 40  # above this many silos, labels would cover one another
_FEW_WEIGHTS = 50  # above this many edges, numbers would
_SHORT = 0.08  # of the map's width: edges that have no room for a number
_NEAR = 0.12  # of the same: silos whose labels would meet
_NO_WEIGHT = 0.3  # as wide as if it were this
Edge = tuple[int, int]


def places(positions_deg: np.ndarray | None, num_silos: int) -> np.ndarray:
    """[N, 2] horizontal and vertical places: longitude and latitude (degrees), or a circle of radius 1 from the top."""
    if positions_deg is not None:
        return np.asarray(positions_deg, dtype=np.float64)[:, ::-1]
    angle_rad = np.pi / 2 - 2 * np.pi * np.arange(num_silos) / num_silos
    return np.column_stack([np.cos(angle_rad), np.sin(angle_rad)])


def overlay_map(
    positions_deg: np.ndarray | None,
    labels: Sequence[str],
    edges: Sequence[Edge],
    *,
    weights: Mapping[Edge, float] | None = None,
    underlay: Sequence[Edge] = (),
    title: str = "",
    directed: bool = False,
) -> Figure:
    """The drawing.

    positions_deg: [N, 2] latitude and longitude, or None. edges: pairs of silo numbers; with `directed` as arrows i -> j,
    otherwise each link once. weights: A_ji by edge (i, j), how much of i's model j takes, told by width and, of few long
    edges where weights differ, in numbers. underlay: links of the network beneath.
    """
    at = places(positions_deg, len(labels))
    figure, axes = blank_figure(7.2, 4.8)
    for i, j in underlay:
        axes.plot(*at[[i, j]].T, color="0.8", linewidth=0.8, zorder=1)
    drawn = sorted(set(edges)) if directed else sorted({(min(e), max(e)) for e in edges})
    known = {edge: (weights or {}).get(edge, 0.0) for edge in drawn}
    alike = len({f"{w:.2f}" for w in known.values()}) == 1
    numbered = not alike and len(drawn) <= _FEW_WEIGHTS
    shortest = _SHORT * float(np.ptp(at, axis=0).max())
    for (i, j), weight in known.items():
        _draw_edge(axes, at[i], at[j], weight if weights else _NO_WEIGHT, directed)
        far = bool(np.hypot(*(at[j] - at[i])) > shortest)
        if weights and far and numbered:
            _write_weight(axes, (at[i] + at[j]) / 2, weight)
    axes.scatter(at[:, 0], at[:, 1], s=22, color=COLOURS[1], zorder=3)
    if len(labels) <= _MANY:
        for i, label in enumerate(labels):
            _annotate(axes, label, at, i)
    axes.margins(0.1)
    axes.set_title(title)
    if positions_deg is None:
        axes.set_axis_off()
        axes.set_aspect("equal")
    else:
        axes.set_xlabel("longitude (degrees)")
        axes.set_ylabel("latitude (degrees)")
        axes.set_aspect(1 / math.cos(math.radians(float(at[:, 1].mean()))), adjustable="datalim")
    told = ", the wider the larger the mixing weight"
    if alike:
        told = f" (mixing weight {next(iter(known.values())):.2f})"
    elif numbered:
        told = ", with its mixing weight"
    handles = _legend(bool(underlay), told if weights else "", directed)
    if len(handles) > 1:
        figure.legend(
            handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8
        )
    return figure


def overlay_of(plan: Plan, title: str = "") -> Figure:
    """The overlay of a run, with its mixing weights (of MATCHA the expected ones) on the network that it was built on."""
    schedule, net = plan.schedule(), plan.network
    n, matcha = net.num_silos, schedule.matcha
    if matcha is None:
        a = schedule.matrix(0)
        weights = {(i, j): float(a[j, i]) for i, j in plan.overlay.edges}
    else:
        parts = zip(matcha.matchings, matcha.probabilities, strict=True)
        weights = {(min(e), max(e)): matcha.alpha * p for edges, p in parts for e in edges}
    underlay = [] if net.underlay.number_of_edges() == n * (n - 1) // 2 else [*net.underlay.edges]
    return overlay_map(
        net.position_deg, net.labels, plan.overlay.edges,
        weights=None if schedule.links else weights, underlay=underlay, title=title, directed=plan.directed,
    )  # fmt: skip


def _draw_edge(
    axes: Axes, start: np.ndarray, end: np.ndarray, weight: float, directed: bool
) -> None:
    style: dict[str, Any] = {
        "arrowstyle": "-|>" if directed else "-",
        "color": COLOURS[0],
        "alpha": 0.7,
    }
    style |= {"shrinkA": 4, "shrinkB": 4, "linewidth": 0.5 + 3 * abs(weight)}
    axes.annotate("", xy=tuple(end), xytext=tuple(start), arrowprops=style, zorder=2)


def _write_weight(axes: Axes, middle: np.ndarray, weight: float) -> None:
    box: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8}
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 6, "color": COLOURS[0]}
    axes.annotate(f"{weight:.2f}".replace("0.", ".", 1), tuple(middle), bbox=box, zorder=4, **look)


def _annotate(axes: Axes, label: str, at: np.ndarray, i: int) -> None:
    """Beside the silo, on the side where no near neighbour is."""
    gaps = np.hypot(*(at - at[i]).T)
    gaps[i] = np.inf
    near = gaps < _NEAR * np.ptp(at, axis=0).max()
    left = bool(near.any() and at[gaps.argmin(), 0] > at[i, 0])
    axes.annotate(
        label, tuple(at[i]), xytext=(-4 if left else 4, 4), textcoords="offset points",
        ha="right" if left else "left", fontsize=7, zorder=5,
    )  # fmt: skip


def _legend(underlay: bool, told: str, directed: bool) -> list[Line2D]:
    says = "model sent" if directed else "models exchanged"
    handles = [Line2D([], [], color=COLOURS[0], linewidth=2, label=says + told)]
    if underlay:
        handles.append(Line2D([], [], color="0.8", label="link of the network"))
    dot = Line2D([], [], color=COLOURS[1], marker="o", linestyle="", label="silo")
    return [dot, *handles]
