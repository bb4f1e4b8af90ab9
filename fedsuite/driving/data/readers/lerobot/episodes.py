"""Episodes and rows of a LeRobot folder: parquet and JSON lines, read column by column, a group of rows at a time.

A small file can say that it holds a billion numbers, so counts are compared with those of info.json before anything is
read. Angles, times and places are read, and no picture.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.driving.data.readers.drive import visible
from fedsuite.driving.data.readers.lerobot.schema import V3, Feature, Schema, Term
from fedsuite.driving.data.readers.tables import lines_of
from fedsuite.errors import InputError, check_installed, one_line
from fedsuite.storage.files import check_readable

NUMBERS = ("episode_index", "frame_index", "timestamp")


@dataclass(frozen=True)
class Episode:
    """rows: the parquet file of its rows; video: the mp4 of the camera, if there is one, and start_s, its time in there."""

    number: int
    length: int
    rows: Path
    video: Path | None
    start_s: float


@dataclass(frozen=True)
class Rows:
    """One episode's rows. first: of all rows of its file; values: float64 [n], as they stand, NaN where there is none;
    times: float64 [n], seconds from its start; beside: float64 [k, n], other numbers that were asked for."""

    first: int
    values: np.ndarray
    times: np.ndarray
    beside: np.ndarray


@contextmanager
def opened(file: Path) -> Iterator[Any]:
    """A parquet file; InputError for one that is missing or damaged."""
    check_installed(["pyarrow"])
    import pyarrow.parquet as pq  # slow to import

    check_readable(file)
    if not file.exists():
        raise InputError(f"{file}: no such file; fetch the folder again")
    try:
        # Opened here: pyarrow takes names of files for UTF-8, whatever the machine's encoding of them.
        with file.open("rb") as source, pq.ParquetFile(source) as table:
            yield table
    except InputError:
        raise
    except Exception as error:  # pyarrow's own, and whatever damaged text makes of them
        reason = one_line(str(error), 200)
        if "footer" in reason or "magic bytes" in reason:
            reason = "the recording was cut off; nothing can be read without its footer"
        raise InputError(f"{file}: cannot be read as parquet ({reason}); fetch it again") from None


def read_columns(file: Path, widths: Mapping[str, int], most: int) -> Iterator[Any]:
    """Tables of the columns that `widths` names, one a group of rows; InputError where there are more than `most` rows, or
    more numbers a row in a column than `widths` says.
    """
    names = [*widths]
    with opened(file) as table:
        known, meta = set(table.schema_arrow.names), table.metadata
        if absent := [name for name in names if name not in known]:
            raise InputError(f"{file}: no column {absent[0]}; fetch the file again")
        if meta.num_rows > most:
            raise InputError(
                f"{file}: {meta.num_rows} rows, at most {most} are expected; fetch the folder again"
            )
        for group in range(table.num_row_groups):
            own = meta.row_group(group)
            parts = [own.column(i) for i in range(own.num_columns)]
            for name, width in widths.items():
                held = [p.num_values for p in parts if _is_of(p.path_in_schema, name, known)]
                if any(count > own.num_rows * width for count in held):
                    raise InputError(
                        f"{file}: more than {width} numbers a row in {name}; fetch it again"
                    )
            yield table.read_row_group(group, columns=names).select(names)


def _is_of(path: str, name: str, known: set[str]) -> bool:
    """Whether a leaf of the file belongs to the column; names have points of their own."""
    return path == name or (path.startswith(f"{name}.") and path not in known)


def read_episodes(schema: Schema, camera: Feature) -> list[Episode]:
    """All episodes, in the order in which their pictures lie in their files."""
    video = camera.key if camera.dtype == "video" else ""
    found = _of_v3(schema, video) if schema.layout == V3 else _of_v2(schema, video)
    numbers = [episode.number for episode in found]
    lengths = sum(episode.length for episode in found)
    if len(set(numbers)) != len(numbers) or lengths > schema.frames:
        raise InputError(
            f"{schema.file}: {len(found)} episodes of {lengths} rows, or one of them twice, expected {schema.frames} rows; "
            "fetch the folder again"
        )
    if not lengths:
        raise InputError(f"{schema.file}: no episodes with rows; fetch the folder again")
    return sorted(found, key=lambda e: (str(e.video or e.rows), e.start_s, e.number))


def _of_v2(schema: Schema, video: str) -> list[Episode]:
    file = schema.folder / "meta" / "episodes.jsonl"
    found = []
    for line, text in enumerate(lines_of(file), 1):
        if not text.strip():
            continue
        try:
            told = json.loads(text)
            number, length = told["episode_index"], told["length"]
            if type(number) is not int or type(length) is not int or number < 0 or length < 0:
                raise TypeError
        except (ValueError, TypeError, KeyError, RecursionError):
            raise InputError(
                f"{file}: line {line} has no episode_index and length; fetch the file again"
            ) from None
        at = {"episode_chunk": number // schema.chunk, "episode_index": number}
        rows, clip = (schema.folder / p.format(**at, video_key=video) for p in schema.layout)
        found.append(Episode(number, length, rows, clip if video else None, 0.0))
    return found


def _of_v3(schema: Schema, video: str) -> list[Episode]:
    own = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")
    names = ["episode_index", "length", "data/chunk_index", "data/file_index"]
    names += [f"videos/{video}/{key}" for key in own] if video else []
    found: list[Episode] = []
    for file in visible(schema.folder / "meta" / "episodes", "*/*.parquet"):
        for table in read_columns(file, dict.fromkeys(names, 1), schema.episodes):
            columns = (_numbers(file, name, table.column(name)) for name in names)
            for row in zip(*(column.tolist() for column in columns), strict=True):
                found.append(_episode(schema, file, video, row))
    return found


def _episode(schema: Schema, file: Path, video: str, row: tuple[float, ...]) -> Episode:
    number, length, *places = row
    if not all(float(n).is_integer() and n >= 0 for n in (number, length, *places[:4])):
        raise InputError(f"{file}: episode {number}: its place is no whole number; fetch it again")
    at = [
        {"chunk_index": int(a), "file_index": int(b)}
        for a, b in zip(*[iter(places[:4])] * 2, strict=True)
    ]
    rows = schema.folder / schema.layout[0].format(**at[0])
    if not video:
        return Episode(int(number), int(length), rows, None, 0.0)
    start_s, end_s = places[4:]
    if not abs(end_s - start_s - length / schema.fps) <= 0.5 / schema.fps:
        raise InputError(
            f"{file}: episode {int(number)} of {int(length)} rows is said to lie from {start_s} to {end_s} s of its video, "
            f"which has {schema.fps:g} frames a second; fetch the folder again"
        )
    clip = schema.folder / schema.layout[1].format(**at[1], video_key=video)
    return Episode(int(number), int(length), rows, clip, start_s)


def read_rows(
    schema: Schema, episodes: Sequence[Episode], terms: Sequence[Term], beside: Sequence[Term] = ()
) -> dict[int, Rows]:
    """The rows of every episode, by its number, and what is asked for beside the terms of the angle; each file is read
    once.
    """
    found: dict[int, Rows] = {}
    for file in dict.fromkeys(episode.rows for episode in episodes):
        own = [episode for episode in episodes if episode.rows == file]
        found |= _of_file(schema, file, own, terms, beside)
    return found


def _of_file(
    schema: Schema,
    file: Path,
    episodes: Sequence[Episode],
    terms: Sequence[Term],
    beside: Sequence[Term],
) -> dict[int, Rows]:
    widths = dict.fromkeys(NUMBERS, 1) | {term.key: term.size for term in (*terms, *beside)}
    tables = []
    for table in read_columns(file, widths, schema.frames):
        columns = [_numbers(file, name, table.column(name)) for name in NUMBERS]
        axes = [t.factor * _numbers(file, t.key, table.column(t.key), t) for t in (*terms, *beside)]
        values = np.sum(axes[: len(terms)], axis=0)
        tables.append(np.stack([*columns, values, *axes[len(terms) :]]))
    number, frame, times, values, *more = (
        np.concatenate(tables, axis=1) if tables else np.zeros((4 + len(beside), 0))
    )
    cuts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
    spans = {int(number[a]): (a, b) for a, b in pairwise(cuts) if a < b}
    found = {}
    for episode in episodes:
        start, stop = spans.get(episode.number, (0, 0))
        count = np.arange(stop - start)
        if stop - start != episode.length or (frame[start:stop] != count).any():
            raise InputError(
                f"{file}: episode {episode.number} has {stop - start} rows in a line, expected {episode.length} with "
                f"frame_index 0 to {episode.length - 1}; fetch the folder again"
            )
        off = np.abs(times[start:stop] - count / schema.fps)
        if not (off <= 0.5 / schema.fps).all():
            row = int(np.argmax(~(off <= 0.5 / schema.fps)))
            raise InputError(
                f"{file}: episode {episode.number} frame {row} is at {times[start + row]:.4f} s, expected "
                f"{row / schema.fps:.4f} s at {schema.fps:g} frames a second; correct fps in info.json, or the times"
            )
        found[episode.number] = Rows(
            start, values[start:stop], times[start:stop], np.array([m[start:stop] for m in more])
        )
    return found


def _numbers(file: Path, name: str, column: Any, term: Term | None = None) -> np.ndarray:
    """float64 [n] of a column, or of one axis of its lists; NaN where nothing is."""
    import pyarrow.compute as pc

    try:
        if term and "list" in str(column.type):
            column = pc.list_element(column, term.axis)
        return np.asarray(column.cast("float64").to_numpy(), np.float64)
    except Exception as error:  # pyarrow's own
        raise InputError(
            f"{file}: column {name} holds no numbers ({one_line(str(error), 100)}); fetch the file again"
        ) from None
