"""A house from above, storey by storey: rooms, walls, navigation graph, and walks through it.

Circles are starts, squares ends of walks, stars goals with the success radius of 3 m around them. References are black and
dashed. Where a walk leaves for another storey, a triangle points up or down.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle
from mpl_toolkits.axes_grid1.anchored_artists import AnchoredSizeBar

from fedsuite.reports.plots import COLOURS, blank_panels, save_figure
from fedsuite.vln.data.floor_plan import FloorPlan

REFERENCE_COLOUR = "#000000"
WALK_COLOURS = tuple(c for c in COLOURS if c != REFERENCE_COLOUR)
SUCCESS_M = 3.0
_MARGIN_M = 0.6
_NARROW_M = 2.4  # the names of higher rooms that are narrower stand upright
_SCALES_M = (1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class DrawnPath:
    """A walk over viewpoint rows 0..P-1, the start first; references are black and dashed and end at a goal."""

    label: str
    viewpoints: Sequence[int]
    is_reference: bool = False
    colour: str = WALK_COLOURS[0]


class Window(NamedTuple):
    """What of a house is drawn, seen from above, metres."""

    left: float
    right: float
    bottom: float
    top: float

    @property
    def across_m(self) -> float:
        return self.right - self.left

    @property
    def shape(self) -> float:
        """Height over width."""
        return (self.top - self.bottom) / self.across_m


def plot_paths(plan: FloorPlan, paths: Sequence[DrawnPath], file: Path, *, title: str = "") -> None:
    """Draw and write the storeys that the paths touch (.png, .pdf, .svg, ...), walks in colours of their own."""
    storeys = shown_storeys(plan, paths)
    window = window_of(plan)
    width = 6.0 if len(storeys) == 1 else 4.5
    height = min(max(width * window.shape, 2.5), 8.0)
    figure, row = blank_panels(width * len(storeys) + 1.5, height, len(storeys))
    colours = cycle(WALK_COLOURS)
    coloured = [
        p if p.is_reference else DrawnPath(p.label, p.viewpoints, colour=next(colours))
        for p in paths
    ]
    for axes, storey in zip(row, storeys, strict=True):
        draw_storey(axes, plan, storey, coloured, window)
    figure.suptitle(title, fontsize=10, parse_math=False)
    if paths:
        handles = legend_handles(coloured, len(storeys))
        figure.legend(handles=handles, frameon=False, fontsize=8, loc="outside right upper")
    save_figure(figure, file)


def legend_handles(paths: Sequence[DrawnPath], storeys: int) -> list[Line2D]:
    """Lines by label, and the marks that stand at their ends."""
    lines = {
        p.label: Line2D([], [], color=_colour(p), linestyle="--" if p.is_reference else "-", label=p.label)
        for p in paths
    }  # fmt: skip
    marks: list[tuple[str, str, dict[str, Any]]] = [
        ("start", "o", {"markerfacecolor": "white"}),
        ("end of a walk", "s", {}),
    ]
    if any(p.is_reference for p in paths):
        marks.append((f"goal, {SUCCESS_M:g} m around it", "*", {"markersize": 9}))
    if storeys > 1:
        marks.append(("to another storey", "^", {}))
    grey: dict[str, Any] = {"color": "0.2", "linestyle": ""}
    drawn = [
        Line2D([], [], marker=mark, label=label, **grey, **more) for label, mark, more in marks
    ]
    return [*lines.values(), *drawn]


def shown_storeys(plan: FloorPlan, paths: Sequence[DrawnPath]) -> list[int]:
    """Storeys that any path touches; all if there are no paths."""
    total = len(plan.position_m)
    for path in paths:
        if not len(path.viewpoints) or not all(0 <= v < total for v in path.viewpoints):
            raise ValueError(
                f"path {path.label!r}: expected viewpoint indices 0..{total - 1}, "
                f"got {list(path.viewpoints)}"
            )
    rows = [v for path in paths for v in path.viewpoints]
    return sorted(set(plan.storey[rows or slice(None)].tolist()))


def window_of(plan: FloorPlan, paths: Sequence[DrawnPath] = (), around_m: float = np.inf) -> Window:
    """The whole house, or what of it lies within `around_m` of the paths."""
    used = plan.position_m[(plan.edge | plan.edge.T).any(0), :2]
    corners = [np.reshape(room.rect, (2, 2)) for room in plan.rooms]
    house = np.concatenate([used if used.size else plan.position_m[:, :2], *corners])
    low, high = house.min(0), house.max(0)
    if rows := [v for path in paths for v in path.viewpoints]:
        place = plan.position_m[rows, :2]
        low = np.maximum(low, place.min(0) - around_m)
        high = np.minimum(high, place.max(0) + around_m)
    low, high = low - _MARGIN_M, high + _MARGIN_M
    return Window(float(low[0]), float(high[0]), float(low[1]), float(high[1]))


def draw_storey(
    axes: Axes, plan: FloorPlan, storey: int, paths: Sequence[DrawnPath], window: Window
) -> None:
    """One storey with the parts of the paths that lie on it; viewpoints without an edge are left out."""
    axes.set_axis_off()
    axes.set_aspect("equal", adjustable="box")
    axes.set(xlim=window[:2], ylim=window[2:])
    _draw_rooms(axes, plan, storey)
    _draw_graph(axes, plan, storey)
    for path in sorted(paths, key=lambda p: p.is_reference):  # on top: dashes let others show
        _draw_path(axes, plan, storey, path)
    _draw_scale(axes, window.across_m)
    if (total := int(plan.storey.max()) + 1) > 1:
        place: dict[str, Any] = {"transform": axes.transAxes, "ha": "right", "va": "top"}
        axes.text(1.0, 0.0, f"storey {storey + 1} of {total}", fontsize=8, **place)


def _draw_rooms(axes: Axes, plan: FloorPlan, storey: int) -> None:
    for room in (r for r in plan.rooms if r.floor == storey):
        x0, y0, x1, y1 = room.rect
        patch = Rectangle((x0, y0), x1 - x0, y1 - y0, facecolor="0.96", edgecolor="none", zorder=0)
        axes.add_patch(patch)
        upright = x1 - x0 < _NARROW_M and y1 - y0 > x1 - x0
        axes.text(
            x0 + 0.15, y1 - 0.15, room.kind, fontsize=6, color="0.4", ha="left", va="top",
            rotation=90 if upright else 0, rotation_mode="default", zorder=2.5, clip_on=True,
        )  # fmt: skip
    if storey < len(plan.walls):
        walls = plan.walls[storey].reshape(-1, 2, 2)
        axes.add_collection(LineCollection(list(walls), colors="0.35", linewidths=1.4, zorder=0.5))


def _draw_graph(axes: Axes, plan: FloorPlan, storey: int) -> None:
    either = plan.edge | plan.edge.T
    first, second = np.nonzero(np.triu(either, 1))
    here = (plan.storey[first] == storey) & (plan.storey[second] == storey)
    lines = np.stack([plan.position_m[first[here], :2], plan.position_m[second[here], :2]], 1)
    axes.add_collection(LineCollection(list(lines), colors="0.8", linewidths=0.8, zorder=1))
    used = either.any(0) & (plan.storey == storey)
    x, y = plan.position_m[used, :2].T
    axes.scatter(x, y, s=9, c="0.65", linewidths=0, zorder=2)


def _draw_path(axes: Axes, plan: FloorPlan, storey: int, path: DrawnPath) -> None:
    rows = np.array(path.viewpoints)
    place, level = plan.position_m[rows, :2], plan.storey[rows]
    colour = _colour(path)
    style, width, order = ("--", 1.6, 5) if path.is_reference else ("-", 2.8, 4)
    ends: dict[str, Any] = {"color": colour, "zorder": order + 2, "linestyle": ""}
    touching = (level[:-1] == storey) | (level[1:] == storey)
    lines = np.stack([place[:-1], place[1:]], 1)[touching]
    axes.add_collection(
        LineCollection(list(lines), colors=colour, linewidths=width, linestyles=style, zorder=order)
    )
    for here, there in zip(np.flatnonzero(touching), np.flatnonzero(touching) + 1, strict=True):
        for at in (a for a in (here, there) if level[a] != storey):
            axes.plot(*place[at], "^" if level[at] > storey else "v", markersize=7, **ends)
    if level[0] == storey:
        axes.plot(*place[0], "o", markersize=8, markerfacecolor="white", **ends)
    if level[-1] != storey:
        return
    mark, size = ("*", 13) if path.is_reference else ("s", 7)
    axes.plot(*place[-1], mark, markersize=size, **ends)
    if path.is_reference:
        ring: dict[str, Any] = {"fill": False, "linestyle": ":", "linewidth": 1.2}
        axes.add_patch(Circle(tuple(place[-1]), SUCCESS_M, edgecolor=colour, zorder=order, **ring))


def _colour(path: DrawnPath) -> str:
    return REFERENCE_COLOUR if path.is_reference else path.colour


def _draw_scale(axes: Axes, width_m: float) -> None:
    """A bar below the house, the longest round length that is not over two sevenths of its width."""
    length_m = max((s for s in _SCALES_M if s <= width_m / 3.5), default=_SCALES_M[0])
    axes.add_artist(
        AnchoredSizeBar(
            axes.transData, length_m, f"{length_m} m", "upper left", frameon=False, pad=0.1, size_vertical=0.04,
            bbox_to_anchor=(0.0, 0.0), bbox_transform=axes.transAxes, fontproperties=FontProperties(size=8),
        )
    )  # fmt: skip
