"""Formats by the ending of what is to be written, each a function that makes it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from fedsuite.errors import InputError
from fedsuite.reports.page.model import Report
from fedsuite.storage.files import telling, write_atomically

Writer = Callable[[Report, Path], None]


def _html(report: Report, file: Path) -> None:
    from fedsuite.reports.page.formats.html import as_html

    write_atomically(file, as_html(report).encode())


def _markdown(report: Report, file: Path) -> None:
    from fedsuite.reports.page.formats.markdown import as_markdown

    write_atomically(file, as_markdown(report).encode())


def _card(report: Report, file: Path) -> None:
    """A model card, of one run."""
    from fedsuite.reports.page.formats.markdown import as_markdown

    if report.card is None:
        raise InputError(f"{file}: a model card is of one run, these are several; name one run")
    write_atomically(file, as_markdown(report.card()).encode())


def _latex(report: Report, file: Path) -> None:
    from fedsuite.reports.page.formats.latex import as_latex

    write_atomically(file, as_latex(report).encode())


def _pdf(report: Report, file: Path) -> None:
    from fedsuite.reports.page.formats.drawing import as_pdf

    if not report.figures():
        raise InputError(f"{file}: these runs have no figures; write .html, .md or .tex")
    write_atomically(file, as_pdf(report))


def _folder(report: Report, folder: Path) -> None:
    """report.md with its figures as PNG, the tables as LaTeX, and every figure as PDF too."""
    from fedsuite.reports.page.formats.drawing import write_figures
    from fedsuite.reports.page.formats.latex import as_latex
    from fedsuite.reports.page.formats.markdown import as_markdown

    with telling(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_figures(report, folder, ("png", "pdf"))
    write_atomically(folder / "report.md", as_markdown(report, "png").encode())
    write_atomically(folder / "report.tex", as_latex(report).encode())


FOLDER, CARD = "/", "card.md"  # one a name's end, the other a whole name
FORMATS: Mapping[str, Writer] = {
    ".html": _html,
    ".md": _markdown,
    ".tex": _latex,
    ".pdf": _pdf,
    FOLDER: _folder,
}


def format_of(out: str) -> Writer:
    """By the ending; a name that ends in "/", or a folder that is there, is a folder; card.md is a model card."""
    if out.endswith(FOLDER) or Path(out).is_dir():
        return FORMATS[FOLDER]
    if Path(out).name.lower() == CARD:
        return _card
    if (ending := Path(out).suffix.lower()) in FORMATS:
        return FORMATS[ending]
    known = ", ".join(FORMATS)
    raise InputError(f"-o {out}: expected a name that ends in one of {known} (a folder)")


def check_free(out: str, overwrite: bool) -> None:
    """InputError where something is there already that would be written over."""
    path = Path(out)
    taken = any(path.iterdir()) if path.is_dir() else path.exists()
    if taken and not overwrite:
        raise InputError(f"-o {out}: is there already; choose another name, or --overwrite")
