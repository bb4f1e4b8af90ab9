"""Learning curves of a sweep: colour, line style and marker each stand for a varied key.

The first key is told by colour, the second by line style, all further ones together by marker; the
legend explains each key by itself, so that its length is the sum, not the product, of their values.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedsuite.errors import InputError
from fedsuite.reports.plots import COLOURS, blank_figure, draw_mean, save_figure

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
_MOST_BANDS = 6  # with more curves the bands of their seeds would cover one another
Setting = tuple[str, ...]  # one value a key, as text


def sweep_curves(
    curves: Mapping[Setting, pd.DataFrame],
    keys: Sequence[str],
    metric: str,
    targets: Sequence[float],
    path: Path,
) -> None:
    """Write the drawing to `path` (.png, .pdf, ...).

    curves: setting -> columns run, round, value (several runs, seeds: their mean); keys: the
    varied keys, in the settings' order; targets: drawn as horizontal lines.
    """
    if not curves:
        raise InputError("no runs to draw; name at least one run")
    figure, axes = blank_figure(7.2, 4.4)
    plain: dict[str, Any] = {"color": "black", "linestyle": "-"}
    looks = [_looks(place, curves) for place in range(min(3, len(keys)))]
    for setting, frame in curves.items():
        look = plain.copy()
        for known, part in zip(looks, _parts(setting), strict=False):
            look |= known[part]
        draw_mean(axes, frame, "round", "value", look, band=len(curves) <= _MOST_BANDS)
    for target in targets:
        axes.axhline(target, color="grey", linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
    axes.set_xlabel("round")
    axes.set_ylabel(metric)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    handles = [
        Line2D([], [], **plain | look, label=f"{title} = {value}")
        for title, known in zip(_parts(keys), looks, strict=False)
        for value, look in known.items()
    ]
    axes.legend(handles=handles, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    save_figure(figure, path)


def _parts(setting: Sequence[str]) -> list[str]:
    """The first two, and all further ones together."""
    return [*setting[:2], ", ".join(setting[2:])]


def _looks(place: int, curves: Mapping[Setting, pd.DataFrame]) -> dict[str, dict[str, Any]]:
    """Value of the key at this place -> what tells it, values in order of appearance."""
    values = list(dict.fromkeys(_parts(setting)[place] for setting in curves))
    if place == 0:
        return {v: {"color": c} for v, c in zip(values, _colours(len(values)), strict=True)}
    if place == 1:
        return {v: {"linestyle": _line(i)} for i, v in enumerate(values)}
    return {v: {"marker": _MARKERS[i % len(_MARKERS)]} for i, v in enumerate(values)}


def _colours(count: int) -> list[Any]:
    if count <= len(COLOURS):
        return list(COLOURS[:count])
    scale = matplotlib.colormaps["viridis"]
    return [scale(0.9 * i / (count - 1)) for i in range(count)]


def _line(number: int) -> Any:
    """Solid, dashed, dash-dotted, dotted; then one dash and ever more dots."""
    simple = ("-", "--", "-.", ":")
    if number < len(simple):
        return simple[number]
    return (0, (6, 2, *(1, 2) * (number - 2)))
