"""Text tables of drives: rows with their line numbers, and columns found by the names in a header line.

Fields are parted by commas, or by semicolons. Where numbers are written with decimal commas and fields are parted by
commas too, every number that is not whole is two fields: such a row is read if that can be done in one way only.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsuite.errors import InputError
from fedsuite.values import is_number

NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d*[1-9])?(E[+-]?\d+)?", re.IGNORECASE)  # as short as can be
DECIMAL_COMMA = re.compile(r"^(-?\d+),(\d+(E[+-]?\d+)?)$", re.IGNORECASE)
AT_MOST_ONE = ("steering", "throttle", "brake")  # columns of numbers in [-1, 1]


@dataclass(frozen=True)
class Row:
    """Stripped fields of one line; place: how errors name it."""

    place: str
    fields: tuple[str, ...]


def lines_of(file: Path) -> list[str]:
    """All lines of a text, without the byte order mark that spreadsheets leave; InputError if it is none."""
    try:
        return file.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; check the folder and the kind of drive") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read as text ({error}); save it as UTF-8") from None


def read_rows(file: Path) -> list[Row]:
    """All lines that are not blank, split into fields; a decimal comma inside a field is a point here."""
    lines = lines_of(file)
    first = next(filter(str.strip, lines), "")
    mark = ";" if first.count(";") >= max(1, first.count(",")) else ","
    reader = csv.reader(lines, delimiter=mark)
    try:
        rows = [
            Row(
                f"line {reader.line_num}",
                tuple(DECIMAL_COMMA.sub(r"\1.\2", f.strip()) for f in line),
            )
            for line in reader
        ]
    except csv.Error as error:
        raise InputError(
            f"{file}: line {reader.line_num} is no CSV ({error}); correct it"
        ) from None
    return [row for row in rows if any(row.fields)]


def body(file: Path, rows: Sequence[Row], wanted: Sequence[str]) -> tuple[list[Row], list[int]]:
    """Rows below the header, which is the first, all as long as it; positions of the wanted columns. InputError names a
    column that is missing, or the first row that is too short or too long.
    """
    header = [name.lower() for name in rows[0].fields] if rows else []
    if absent := [name for name in wanted if name not in header]:
        start = ",".join(header[:4]) or "nothing"
        raise InputError(
            f"{file}: header line with {','.join(wanted)} expected, {','.join(absent)} not found (first line starts "
            f"with {start}); put column names in the first line"
        )
    columns = [header.index(name) for name in wanted]
    odd = sum(len(row.fields) > len(header) for row in rows)
    split = odd and odd >= sum(any("." in f and is_number(f) for f in r.fields) for r in rows)
    return [_fitted(file, row, header, columns, bool(split)) for row in rows[1:]], columns


def column(file: Path, rows: Sequence[Row], number: int) -> list[str]:
    """One column of rows of equal length; InputError where a field is empty."""
    for row in rows:
        if not row.fields[number]:
            raise InputError(f"{file}: {row.place} has no column {number + 1}; complete that row")
    return [row.fields[number] for row in rows]


def _fitted(file: Path, row: Row, header: Sequence[str], wanted: Sequence[int], split: bool) -> Row:
    """The row with one field a column. split: numbers may have been split at decimal commas."""
    fields, width = row.fields, len(header)
    if len(fields) >= width and not any(fields[width:]):
        return Row(row.place, fields[:width])
    readings = _readings(fields, header) if split else ()
    found = {tuple(reading[i] for i in wanted): reading for reading in readings}
    if len(found) == 1:
        return Row(row.place, *found.values())
    raise InputError(
        f"{file}: {row.place} has {len(fields)} fields, expected {width} ({','.join(header)}); if a decimal comma has split "
        "its numbers, write points in that row or part all fields by ';', else complete or correct that row"
    )


def _readings(fields: Sequence[str], header: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Every way to make one field a column by joining halves of numbers."""
    if not fields and not header:
        yield ()
    if not header or not len(header) <= len(fields) <= 2 * len(header):
        return
    for size in (1, 2):
        text = ".".join(fields[:size])
        if NUMBER.fullmatch(text):
            fits = header[0] not in AT_MOST_ONE or abs(float(text)) <= 1
        else:
            fits = size == 1 and not is_number(text)
        if fits:
            yield from ((text, *rest) for rest in _readings(fields[size:], header[1:]))
