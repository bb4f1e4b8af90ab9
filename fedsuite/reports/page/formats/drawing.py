"""Figures of a report as files and as SVG that stands in a page."""

import re
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from fedsuite.errors import one_line
from fedsuite.reports.page.formats.on_screen import themed, values_at_the_cursor
from fedsuite.reports.page.model import Figure, Report
from fedsuite.storage.escaping import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_DOTS_PER_INCH = 150
_NOWHERE = {"Date": None, "Creator": None, "Format": None, "Type": None}
_REFERS = re.compile(r"""(href="#|url\(#)""")
_TAG = re.compile(r"<[^<>]*>")
_REFERRED = re.compile(r"""(?:href="#|url\(#)([^")]+)""")
_ID = re.compile(r""" id="([^"]*)\"""")


def drawn(figure: Figure, name: str = "") -> "Drawing":
    """The drawing; no text in it is read as a formula."""
    import matplotlib

    with matplotlib.rc_context({"text.parse_math": False}):
        return figure.draw()


def as_svg(figure: Figure, prefix: str) -> str:
    """An SVG element without addresses, its texts as text; ids, which a page has once, begin with `prefix`.

    Colours but those of a figure on paper are names that the page gives a meaning; values of lines stand in an attribute.
    """
    import matplotlib

    out = StringIO()
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": prefix, "text.parse_math": False}
    ):
        drawing = figure.draw()
        drawing.savefig(out, format="svg", metadata=_NOWHERE)
        values = values_at_the_cursor(drawing)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)
    text = _named(text if figure.on_paper else themed(text), prefix).strip()
    return printable(text.replace("<svg", f"<svg{values}", 1))


def _named(svg: str, prefix: str) -> str:
    """Ids that something refers to, with the prefix; the others go. Texts between tags stay as they are."""
    known = set(_REFERRED.findall(svg))

    def renamed(found: re.Match[str]) -> str:
        return f' id="{prefix}{found[1]}"' if found[1] in known else ""

    def tag(found: re.Match[str]) -> str:
        return _REFERS.sub(rf"\g<1>{prefix}", _ID.sub(renamed, found[0]))

    return _TAG.sub(tag, svg)


def write_figures(report: Report, folder: Path, kinds: tuple[str, ...]) -> None:
    """<folder>/<name>.<kind> of every figure."""
    for figure in report.figures():
        for kind in kinds:
            drawn(figure).savefig(folder / f"{figure.name}.{kind}", dpi=_DOTS_PER_INCH)


def as_pdf(report: Report) -> bytes:
    """A page per figure, its title on it."""
    import matplotlib
    from matplotlib.backends.backend_pdf import PdfPages

    out = BytesIO()
    with PdfPages(out, metadata={"CreationDate": None, "Title": one_line(report.title)}) as pages:
        for figure in report.figures():
            with matplotlib.rc_context({"text.parse_math": False}):
                drawing = figure.draw()
                drawing.suptitle(one_line(figure.title), fontsize=9, wrap=True)
                pages.savefig(drawing)
    return out.getvalue()
