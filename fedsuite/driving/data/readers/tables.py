"""Text tables of drives: rows with their line numbers, and columns found by the names in a header line.

Fields are parted by commas, by semicolons or by tabs. Where numbers are written with decimal commas and fields are parted by
commas too, every number that is not whole is two fields: such a row is read if that can be done in one way only.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsuite.driving.data.readers.rows import BadRows
from fedsuite.errors import InputError
from fedsuite.settings.values import is_number
from fedsuite.storage.files import check_readable

NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d*[1-9])?(E[+-]?\d+)?", re.IGNORECASE)  # as short as can be
DECIMAL_COMMA = re.compile(r"^(-?\d+),(\d+(E[+-]?\d+)?)$", re.IGNORECASE)
ANGLES = ("angle", "steering", "steering_angle", "steer")
IMAGES = (
    "image", "center", "centre", "img", "filename", "file_name", "file", "path", "image_path",
    "image_file", "image_name", "center_image", "frame",
)  # fmt: skip
CAMERAS = ("frame_id", "camera", "camera_id")
AT_MOST_ONE = ("steering", "throttle", "brake")  # columns of numbers in [-1, 1]

LONGEST_FIELD = 1 << 17  # characters; more is no table of a drive


@dataclass(frozen=True)
class Row:
    """Stripped fields of one line; place: how errors name it."""

    place: str
    fields: tuple[str, ...]


def lines_of(file: Path) -> list[str]:
    """All lines of a text, without the byte order mark that spreadsheets leave; InputError if it is none."""
    check_readable(file)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; check the folder and the kind of drive") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read as text ({error}); save it as UTF-8") from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise InputError(
            f"{file}: cannot be read as text (line {line} holds a NUL byte); save it as UTF-8 or remove that line"
        )
    return text.splitlines()


def read_rows(file: Path) -> list[Row]:
    """All lines that are not blank, split into fields; a decimal comma inside a field is a point here."""
    lines = lines_of(file)
    first = next(filter(str.strip, lines), "")
    least = max(1, first.count(","))
    mark = next((m for m in "\t;" if first.count(m) >= least), ",")
    csv.field_size_limit(LONGEST_FIELD)
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


def body(
    file: Path, rows: Sequence[Row], wanted: Sequence[str | int], bad: BadRows
) -> tuple[list[Row], list[int]]:
    """Rows below the header, which is the first, all as long as it; positions of the wanted columns, which are given by
    name (any of its synonyms will do) or position. Rows that are too short or too long are `bad`.
    """
    header = header_of(rows)
    columns = [_column(file, rows[0].fields if rows else (), header, name) for name in wanted]
    odd = sum(len(row.fields) > len(header) for row in rows)
    split = odd and odd >= sum(any("." in f and is_number(f) for f in r.fields) for r in rows)
    fitted = []
    for row in rows[1:]:
        fields = _fitted(row, header, columns, bool(split))
        if fields is not None:
            fitted.append(Row(row.place, fields))
            continue
        bad.found(
            file,
            f"{row.place} has {len(row.fields)} fields, expected {len(header)} ({','.join(header)})",
            cure="if a decimal comma has split its numbers, write points in that row or part all fields by ';', else "
            "complete or correct that row",
        )
    return fitted, columns


def header_of(rows: Sequence[Row]) -> list[str]:
    """The names in the first row as they are compared."""
    return [re.sub(r"[\s.-]+", "_", name.lower()) for name in rows[0].fields] if rows else []


def _column(file: Path, first: Sequence[str], header: Sequence[str], name: str | int) -> int:
    """The position of a column: by its own name, or by the only synonym that is there; first: the header as written."""
    if isinstance(name, int):
        return name
    kin = next((names for names in (ANGLES, IMAGES, CAMERAS) if name in names), ())
    found = [name] if name in header else [n for n in header if n in kin]
    if len(found) == 1:
        return header.index(found[0])
    if found:
        raise InputError(
            f"{file}: columns {' and '.join(found)} could both be {name}; name one of them {name}"
        )
    start = ",".join(first[:4]) or "nothing"
    raise InputError(
        f"{file}: header line with a column {name} expected, none found (first line starts with {start}); put "
        "column names in the first line"
    )


def _fitted(
    row: Row, header: Sequence[str], wanted: Sequence[int], split: bool
) -> tuple[str, ...] | None:
    """The fields, one a column; None if that cannot be. split: numbers may have been split at decimal commas."""
    fields, width = row.fields, len(header)
    if len(fields) >= width and not any(fields[width:]):
        return fields[:width]
    readings = _readings(fields, header) if split else ()
    found = {tuple(reading[i] for i in wanted): reading for reading in readings}
    return next(iter(found.values())) if len(found) == 1 else None


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
