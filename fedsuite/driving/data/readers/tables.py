"""Text tables of drives: rows with their line numbers, and columns found by the names in a header line."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsuite.errors import InputError


@dataclass(frozen=True)
class Row:
    """Stripped fields of one line; place: how errors name it."""

    place: str
    fields: tuple[str, ...]


def read_rows(file: Path) -> list[Row]:
    """All lines that are not blank, split at commas."""
    try:
        # A byte order mark is what spreadsheets leave; it is no part of the first name.
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; check the folder and the kind of drive") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file}: cannot be read as text ({error}); save it as UTF-8 CSV"
        ) from None
    reader = csv.reader(text.splitlines())
    try:
        rows = [Row(f"line {reader.line_num}", tuple(f.strip() for f in line)) for line in reader]
    except csv.Error as error:
        raise InputError(
            f"{file}: line {reader.line_num} is no CSV ({error}); correct it"
        ) from None
    return [row for row in rows if any(row.fields)]


def columns_of(file: Path, rows: Sequence[Row], wanted: Sequence[str]) -> list[int]:
    """Positions of the wanted columns in the header, which is the first row."""
    header = [name.lower() for name in rows[0].fields] if rows else []
    if absent := [name for name in wanted if name not in header]:
        start = ",".join(header[:4]) or "nothing"
        raise InputError(
            f"{file}: header line with {','.join(wanted)} expected, {','.join(absent)} not found (first line starts "
            f"with {start}); put column names in the first line"
        )
    return [header.index(name) for name in wanted]


def column(file: Path, rows: Sequence[Row], number: int) -> list[str]:
    """One column; InputError where a row is too short or its field empty."""
    for row in rows:
        if number >= len(row.fields) or not row.fields[number]:
            raise InputError(
                f"{file}: {row.place} has no column {number + 1}; complete or remove that row"
            )
    return [row.fields[number] for row in rows]
