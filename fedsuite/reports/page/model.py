"""What a report is, whatever shows it: parts of sections of text, tables and figures.

Every text may hold names that came from clients. Nothing in here is escaped; a format does that for all of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Table:
    """columns: their titles; rows: as many cells each; long: may be shown folded."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    long: bool = False

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.title!r}, row {number}: expected {len(self.columns)} cells, got {len(row)}"
                )


@dataclass(frozen=True)
class Figure:
    """A drawing that is made when a format asks for it.

    name: of its file, once in a report; title: what it shows; alternative: what is to be seen in it, in words; choice:
    figures of a section that show the same over different axes have the name of theirs; on_paper: holds pictures or maps,
    whose colours stay as they are on a dark page.
    """

    name: str
    title: str
    alternative: str
    draw: Callable[[], "Drawing"]
    choice: str = ""
    on_paper: bool = False


@dataclass(frozen=True)
class Section:
    """text: paragraphs; items: a list below them; code: lines to be copied, below all else."""

    title: str
    text: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    code: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.text or self.items or self.tables or self.figures or self.code)


@dataclass(frozen=True)
class Part:
    """The runs of one system."""

    title: str
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Report:
    """answer: the first paragraph, one sentence per part. head: YAML before the title of a card. card: of the one run that
    the report is of, made when a format asks for it.
    """

    title: str
    answer: tuple[str, ...]
    parts: tuple[Part, ...]
    head: str = ""
    card: "Callable[[], Report] | None" = None

    def figures(self) -> list[Figure]:
        """All of them, in order."""
        return [f for part in self.parts for s in part.sections for f in s.figures]


def table_of(
    title: str, rows: Sequence[Mapping[str, object]], note: str = "", long: bool = False
) -> Table:
    """A table of rows that have the same keys, in the same order."""
    columns = tuple(rows[0]) if rows else ()
    cells = tuple(tuple(str(row[name]) for name in columns) for row in rows)
    return Table(title, columns, cells, note, long)
