"""A report as Markdown: texts and tables, and the figures as links where they lie beside it."""

import re
from collections.abc import Iterator

from fedsuite.errors import one_line
from fedsuite.report.page.formats.html import LONGEST, aligned
from fedsuite.report.page.model import Report, Section, Table

_SPECIAL = re.compile(r"([\\`*\[\]<>|~$&])")
_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")  # others stand inside of words
_BLOCK = re.compile(r"^(\s*)([#+=-]|\d+[.)])")


def as_markdown(report: Report, pictures: str = "") -> str:
    """pictures: ending of the figures' files in the same folder; "": there are none, and their words stand in."""
    return "\n".join(_lines(report, pictures)).rstrip() + "\n"


def escaped(text: str) -> str:
    """Text that is nothing but text in Markdown, in a table or in a paragraph."""
    plain = _SPECIAL.sub(r"\\\1", one_line(text, LONGEST))
    return _UNDERSCORE.sub(r"\\_", plain)


def paragraph(text: str) -> str:
    """The same at the beginning of a line."""
    return _BLOCK.sub(lambda m: f"{m[1]}{m[2][:-1]}\\{m[2][-1]}", escaped(text))


def _lines(report: Report, pictures: str) -> Iterator[str]:
    yield from (f"# {escaped(report.title)}", "")
    for sentence in report.answer:
        yield from (paragraph(sentence), "")
    for part in report.parts:
        several = len(report.parts) > 1
        if several:
            yield from (f"## {escaped(part.title)}", "")
        for section in part.sections:
            yield from (f"##{'#' * several} {escaped(section.title)}", "")
            yield from _section(section, pictures)


def _section(section: Section, pictures: str) -> Iterator[str]:
    for text in section.text:
        yield from (paragraph(text), "")
    yield from (f"- {paragraph(item)}" for item in section.items)
    if section.items:
        yield ""
    for table in section.tables:
        yield from _table(table)
    for figure in section.figures:
        if pictures:
            yield from (f"![{escaped(figure.alternative)}]({figure.name}.{pictures})", "")
            yield from (f"*{escaped(figure.title)}*", "")
        else:
            yield from (f"{paragraph(figure.title)}. {escaped(figure.alternative)}", "")
    if section.code:
        yield from ("    " + one_line(line, LONGEST) for line in section.code.split("\n"))
        yield ""


def _table(table: Table) -> Iterator[str]:
    yield from (f"**{escaped(table.title)}**", "")
    lines = [table.columns, [{"n": "---:", "t": "---"}[kind] for kind in aligned(table)]]
    for number, row in enumerate([*lines, *table.rows]):
        cells = row if number == 1 else map(escaped, row)
        yield f"| {' | '.join(cells)} |"
    yield ""
    if table.note:
        yield from (paragraph(table.note), "")
