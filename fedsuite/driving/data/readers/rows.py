"""The rows of a drive: which of them are frames, and what becomes of the others.

A row cannot be read if its angle is no number, its picture is missing, or an earlier row has the same picture. The run says
(data.bad-rows) whether such a row is refused, with the file and the line, or left out and counted.
"""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedsuite.driving.data.readers.angles import Law
from fedsuite.driving.data.readers.drive import base_name
from fedsuite.errors import InputError

FEW = 3  # of many rows, so many are named
FOLDERS = ("IMG", "img", "images", "center", ".")  # where people keep pictures, beside the table


@dataclass
class BadRows:
    """drop: rows that cannot be read are left out, and `told` has what is wrong with each; else the first is refused."""

    drop: bool = False
    told: list[str] = field(default_factory=list)

    def found(self, file: Path, *complaints: str, cure: str = "correct or remove that row") -> None:
        """One complaint a row."""
        if not complaints:
            return
        if not self.drop:
            raise InputError(
                f"{file}: {few(complaints)}; {cure}, or set data.bad-rows=drop to leave such rows out"
            )
        self.told += complaints

    def notes(self, file: Path) -> tuple[str, ...]:
        """What people are told of the rows that were left out."""
        if not self.told:
            return ()
        rows = "1 row is" if len(self.told) == 1 else f"{len(self.told)} rows are"
        return (f"{file}: {rows} left out ({few(self.told)})",)


def few(complaints: Sequence[str]) -> str:
    """Some of many complaints, and how many there are."""
    shown = "; ".join(complaints[:FEW])
    more = len(complaints) - FEW
    return f"{len(complaints)} rows: {shown}; and {more} more" if more > 0 else shown


def kept_frames(
    file: Path,
    places: Sequence[str],
    values: Sequence[object],
    law: Law,
    bad: BadRows,
    images: Sequence[Path | None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """float32 [k] angles, left positive, and int [k], their rows among those given; `places` is how errors name rows.

    Angles first, then pictures (None in `images`: the row names none). An angle beyond the limit is always refused: it
    tells of a wrong unit.
    """
    angles = np.array([_angle(file, *row, law, bad) for row in zip(places, values, strict=True)])
    good = np.isfinite(angles)
    if images is not None and good.any():
        good &= _pictured(file, images, places, good, bad)
    if not good.any():
        why = f"no row of {len(places)} can be read ({few(bad.told)})" if bad.told else "no frames"
        raise InputError(f"{file}: {why}; record again or remove this drive")
    return angles[good].astype(np.float32), np.flatnonzero(good)


def _angle(file: Path, place: str, value: object, law: Law, bad: BadRows) -> float:
    """The angle; NaN if its row is left out."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        bad.found(file, f"{place}: the steering angle {value!r} is no number")
        return math.nan
    if not math.isfinite(number):
        bad.found(file, f"{place}: the steering angle is {number}")
        return math.nan
    angle = (number - law.centre) * law.factor + 0.0  # no negative zeros
    if abs(angle) > law.limit * (1 + 1e-6):
        raise InputError(
            f"{file}: {place}: steering angle {angle:.6g} is beyond the limit {law.limit:.6g}; correct that row, or "
            f"{law.cure} to suit the unit of these labels"
        )
    return angle


def _pictured(
    file: Path,
    images: Sequence[Path | None],
    places: Sequence[str],
    asked: np.ndarray,
    bad: BadRows,
) -> np.ndarray:
    """bool [n]: whether a row has a picture that exists and no earlier row has; of rows where `asked` [n] holds."""
    there = _present(path for path in images if path is not None)
    first: dict[Path, str] = {}
    good, nameless, missing, again = np.zeros(len(images), bool), [], [], []
    for row in np.flatnonzero(asked).tolist():
        path, place = images[row], places[row]
        if path is None:
            nameless.append(f"{place} names no picture")
        elif path in first:
            again.append(f"{place}: {path.name} was named before ({first[path]})")
        else:
            first[path] = place
            good[row] = path in there
            if not good[row]:
                missing.append((place, path))
    bad.found(file, *nameless)
    bad.found(file, *again, cure="a frame has one angle, keep one row of each")
    if missing and not bad.drop:
        raise InputError(
            f"{file}: {len(missing)} of {len(images)} images are missing (first: {missing[0][1]}); add them, or remove "
            "their rows, or set data.bad-rows=drop to leave such rows out"
        )
    bad.found(file, *(f"{place}: {path.name} is missing" for place, path in missing))
    return good


def located(
    table: Path, names: Sequence[str], folders: Sequence[str], written_first: bool = False
) -> list[Path | None]:
    """Paths of the pictures that a table names; None for an empty name.

    Recorders write paths of their own machine, and people move pictures: of the `folders` beside the table (known by
    the last part of a name), the usual ones, and the path as it is written, that one counts which has most of the pictures;
    of equals, the first.
    """
    written = tuple(n.strip().replace("\\", "/") for n in names)
    bases = tuple(map(base_name, names))
    beside = [(table.parent / folder, bases) for folder in (*folders, *FOLDERS)]
    ways = [*beside, (table.parent, written)]
    best: list[Path] = []
    most = -1
    for folder, parts in [ways[-1], *beside] if written_first else ways:
        way = [folder / part for part in parts]
        there = _present(way)
        count = sum(path in there for path in way)
        if count > most:
            best, most = way, count
        if count == len(names):
            break
    return [path if name.strip() else None for path, name in zip(best, names, strict=True)]


def _present(paths: Iterable[Path]) -> set[Path]:
    """All files beside these; one listing of a folder is far quicker than asking for every image."""
    there: set[Path] = set()
    for folder in {path.parent for path in paths}:
        try:
            with os.scandir(folder) as entries:
                there.update(folder / entry.name for entry in entries if _is_file(entry))
        except (OSError, ValueError):  # a name that no folder can have
            continue
    return there


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return not entry.is_dir()
    except OSError:  # a link to itself
        return False
