"""A report as one HTML file that asks nothing of any network: styles, script and drawings are in it.

Jinja escapes every text. The page forbids itself, by its Content-Security-Policy, to load anything and to run any script
but its own, which folds the axes of curves into buttons; without it all axes are shown.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from fedsuite.errors import one_line
from fedsuite.reports.page.formats.drawing import as_svg
from fedsuite.reports.page.model import Figure, Report, Table
from fedsuite.storage.escaping import LONGEST

_NUMBER = re.compile(r"-?[\d,]*\.?\d+(e[+-]?\d+)?( ± [\d.]+)?( of \d+)?( \(.*seeds\))?(/[\d?]+)?")
MOST_COLUMNS = 9  # of a table that a sheet of paper has room for, the first one included
_HERE = Path(__file__).parent


def as_html(report: Report) -> str:
    """The page."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True,
        finalize=_fit,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FileSystemLoader(_HERE),
    )
    numbers = {id(figure): n for n, figure in enumerate(report.figures())}
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    page = environment.get_template("page.html")
    return page.render(
        report=report,
        svg=lambda figure: Markup(as_svg(figure, f"f{numbers[id(figure)]}-")),
        number=lambda figure: numbers[id(figure)],
        choices=choices_of,
        aligned=aligned,
        sheets=sheets,
        code=lambda text: Markup("\n").join(map(_fit, text.split("\n"))),
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        allowed=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _fit(value: Any) -> Any:
    """A text without control characters; markup of our own as it is."""
    return one_line(value, LONGEST) if type(value) is str else value


def choices_of(figures: Sequence[Figure]) -> list[tuple[str, list[Figure]]]:
    """Figures side by side that show one axis, by its name; "" for those that have no other axis."""
    return [(choice, list(own)) for choice, own in groupby(figures, lambda f: f.choice)]


def sheets(table: Table) -> list[list[int]]:
    """Numbers of the columns of the tables that it is printed as: one, or several that all begin with its first column."""
    rest = range(1, len(table.columns))
    if len(table.columns) <= MOST_COLUMNS:
        return [[0, *rest]]
    count = -(-len(rest) // (MOST_COLUMNS - 1))
    each = -(-len(rest) // count)
    return [[0, *rest[start : start + each]] for start in range(0, len(rest), each)]


def aligned(table: Table) -> list[str]:
    """A class for every column: "n" for numbers, which stand to the right."""
    return [
        "n" if _numeric([row[i] for row in table.rows]) else "t" for i in range(len(table.columns))
    ]


def _numeric(cells: Sequence[str]) -> bool:
    found = [c for c in cells if c not in ("", "-")]
    return bool(found) and all(map(_NUMBER.fullmatch, found))
