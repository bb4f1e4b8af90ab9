"""What a drawing needs to live in a page: colours that follow light and dark, and the values of its lines for the cursor.

Values stand in the SVG element as `data-values`, JSON of panels. A panel has its `box` and, along each axis, [a, b] of
place = a + b * value, all in units of the SVG (y down); names of its axes; and lines, each with name, x and y.
"""

import html
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsuite.errors import one_line
from fedsuite.storage.escaping import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNIT = 72  # of an SVG by matplotlib, per inch
DIGITS = 5  # of a value at the cursor
NAMES = {
    "#000000": "ink", "#ffffff": "page", "#b0b0b0": "grid", "#808080": "soft", "#0072b2": "blue", "#d55e00": "red",
    "#009e73": "green", "#cc79a7": "pink", "#56b4e9": "sky", "#e69f00": "amber",
}  # fmt: skip
_COLOUR = re.compile(r"(?<=[ \";])(fill|stroke|stop-color): (#[0-9a-f]{6})\b")
_TAG = re.compile(r"<[^<>]*>")
_TEXT = re.compile(r"<text (?![^>]*\bfill:)([^>]*style=\")")


def themed(svg: str) -> str:
    """Colours of tags as `var(--f-NAME, colour)`; a program that knows no such names shows the colour."""

    def named(found: re.Match[str]) -> str:
        name = NAMES.get(found[2])
        return f"{found[1]}: var(--f-{name}, {found[2]})" if name else found[0]

    def tag(found: re.Match[str]) -> str:
        return _TEXT.sub(r"<text \1fill: var(--f-ink, #000000); ", _COLOUR.sub(named, found[0]))

    return _TAG.sub(tag, svg)


def values_at_the_cursor(figure: "Figure") -> str:
    """The attribute with a space before it; "" for a drawing without named lines."""
    height = figure.get_figheight() * UNIT
    panels = [panel for axes in figure.axes if (panel := _panel(axes, figure.dpi, height))]
    if not panels:
        return ""
    text = printable(json.dumps(panels, ensure_ascii=False, separators=(",", ":")))
    return f' data-values="{html.escape(text)}"'


def _panel(axes: "Axes", dpi: float, height: float) -> dict[str, Any] | None:
    lines = []
    for line in axes.lines:
        name, xy = str(line.get_label()), np.asarray(line.get_xydata(), float)
        if not name.startswith("_child") and len(xy) > 1 and line.get_transform() == axes.transData:
            lines.append([one_line(name), *(_rounded(values) for values in xy.T)])
    if not lines or axes.get_xscale() != "linear" or axes.get_yscale() != "linear":
        return None
    # A unit along each axis, from values to places.
    (x0, y0), (x1, y1) = axes.transData.transform([(0.0, 0.0), (1.0, 1.0)]) * UNIT / dpi
    box = np.asarray(axes.bbox.extents) * UNIT / dpi
    edges = [box[0], height - box[3], box[2], height - box[1]]
    return {
        "box": [round(float(edge), 2) for edge in edges],
        "x": _rounded([x0, x1 - x0], 9), "y": _rounded([height - y0, y0 - y1], 9),
        "names": [one_line(axes.get_xlabel()), one_line(axes.get_ylabel())], "lines": lines,
    }  # fmt: skip


def _rounded(values: Any, digits: int = DIGITS) -> list[float | int]:
    """To so many significant digits, whole numbers as such."""
    found = [float(f"{value:.{digits}g}") for value in np.asarray(values, float)]
    return [int(value) if value.is_integer() else value for value in found]
