"""A report as Markdown: texts and tables, and the figures as links where they lie beside it."""

from collections.abc import Iterator

from fedsuite.reports.page.formats.html import aligned
from fedsuite.reports.page.model import Report, Section, Table
from fedsuite.storage.escaping import in_markdown, markdown_code, markdown_paragraph


def as_markdown(report: Report, pictures: str = "") -> str:
    """pictures: ending of the figures' files in the same folder; "": there are none, and their words stand in."""
    return "\n".join(_lines(report, pictures)).rstrip() + "\n"


def _lines(report: Report, pictures: str) -> Iterator[str]:
    if report.head:
        yield from ("---", report.head, "---", "")
    yield from (f"# {in_markdown(report.title)}", "")
    for sentence in report.answer:
        yield from (markdown_paragraph(sentence), "")
    for part in report.parts:
        several = len(report.parts) > 1
        if several:
            yield from (f"## {in_markdown(part.title)}", "")
        for section in part.sections:
            yield from (f"##{'#' * several} {in_markdown(section.title)}", "")
            yield from _section(section, pictures)


def _section(section: Section, pictures: str) -> Iterator[str]:
    for text in section.text:
        yield from (markdown_paragraph(text), "")
    yield from (f"- {markdown_paragraph(item)}" for item in section.items)
    if section.items:
        yield ""
    for table in section.tables:
        yield from _table(table)
    for figure in section.figures:
        if pictures:
            yield from (f"![{in_markdown(figure.alternative)}]({figure.name}.{pictures})", "")
            yield from (f"*{in_markdown(figure.title)}*", "")
        else:
            yield from (
                f"{markdown_paragraph(figure.title)}. {in_markdown(figure.alternative)}",
                "",
            )
    if section.code:
        yield from (markdown_code(section.code), "")


def _table(table: Table) -> Iterator[str]:
    yield from (f"**{in_markdown(table.title)}**", "")
    lines = [table.columns, [{"n": "---:", "t": "---"}[kind] for kind in aligned(table)]]
    for number, row in enumerate([*lines, *table.rows]):
        cells = row if number == 1 else map(in_markdown, row)
        yield f"| {' | '.join(cells)} |"
    yield ""
    if table.note:
        yield from (markdown_paragraph(table.note), "")
