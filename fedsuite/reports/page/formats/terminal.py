"""A report in a terminal: its sentences and its tables; of figures their titles are left out."""

from typing import Literal

from fedsuite.errors import one_line
from fedsuite.reports.page.formats.html import aligned
from fedsuite.reports.page.model import Report, Table
from fedsuite.storage.escaping import LONGEST, PlainConsole

MOST_ROWS = 12  # of a long table


def print_report(report: Report) -> None:
    """No text is read as markup, and none moves the cursor."""
    from rich.rule import Rule
    from rich.text import Text

    console = PlainConsole()

    def say(text: str, style: str = "") -> None:
        console.print(Text(one_line(text, LONGEST), style))

    for sentence in report.answer:
        say(sentence, "bold")
    for part in report.parts:
        if len(report.parts) > 1:
            console.print(Rule(Text(one_line(part.title), "bold")))
        for section in part.sections:
            if section.figures and not section.tables:
                continue
            console.print()
            say(section.title, "bold underline")
            for text in section.text:
                say(text)
            for item in section.items:
                say(f"- {item}")
            for table in section.tables:
                console.print(_shown(table, console.width))
            for line in section.code.split("\n") if section.code else ():
                say(f"    {line}")


def _shown(table: Table, width: int) -> object:
    from rich.console import Group
    from rich.table import Table as Grid
    from rich.text import Text

    shown = table.rows[:MOST_ROWS] if table.long else table.rows
    columns, rows, kinds = table.columns, list(shown), aligned(table)
    if (
        _width(table) > width and len(shown) < len(columns) - 1
    ):  # few rows stand better side by side
        columns, *rows = zip(columns, *shown, strict=True)
        kinds = ["t"] * len(columns)
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for title, kind in zip(columns, kinds, strict=True):
        justify: Literal["left", "right"] = "right" if kind == "n" else "left"
        grid.add_column(Text(one_line(title)), justify=justify, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(one_line(cell, LONGEST)) for cell in row))
    left = len(table.rows) - len(shown)
    notes = [Text(one_line(table.note, LONGEST), "dim")] if table.note else []
    notes += [Text(f"and {left} more; -o FILE writes all", "dim")] if left else []
    return Group(Text(f"\n{one_line(table.title)}", "italic"), grid, *notes)


def _width(table: Table) -> int:
    """Characters of a line that nothing is folded in."""
    columns = zip(table.columns, *table.rows, strict=True)
    return sum(2 + max(map(len, cells)) for cells in columns)
