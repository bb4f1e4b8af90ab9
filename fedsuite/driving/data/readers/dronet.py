"""DroNet's steering experiments (Loquercio et al. 2018): images/ and sync_steering.txt.

One header line, then comma-separated rows whose column 0 is the angle. Row n belongs to the n-th image once images are
sorted by the first integer in their names. Angle: radians of the steering wheel (Udacity's bags), LEFT POSITIVE; kept.
"""

import re
from pathlib import Path

from fedsuite.driving.data.readers.drive import (
    IMAGE_SUFFIXES,
    LEFT,
    Drive,
    ReadOptions,
    checked_angles,
    is_number,
)
from fedsuite.driving.data.readers.tables import field_of, read_rows
from fedsuite.errors import InputError

KIND = "dronet"
LABELS = "sync_steering.txt"


def matches(folder: Path) -> bool:
    """Whether `folder` looks like this format."""
    return (folder / LABELS).is_file()


def read(folder: Path, options: ReadOptions) -> Drive:
    """All frames in the order of their numbers."""
    file = folder / LABELS
    rows = read_rows(file)
    if rows and is_number(rows[0].fields[0]):
        raise InputError(
            f"{file}: line 1 holds numbers where a header line is expected; add one, or the first angle would be lost"
        )
    places = [row.place for row in rows[1:]]
    texts = [field_of(file, row, 0) for row in rows[1:]]
    angles = checked_angles(file, texts, places, LEFT, options)
    paths = _numbered(folder / "images")
    if len(paths) != len(angles):
        raise InputError(
            f"{file}: {len(angles)} angles but {len(paths)} images in images/; rows and images go by order, so add or "
            "remove what is missing"
        )
    unit, sign = "radians of the steering wheel", "left positive in the source"
    return Drive(folder.resolve().name, KIND, angles, unit, sign, paths)


def _numbered(folder: Path) -> tuple[Path, ...]:
    """Images by the first integer in their names."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; DroNet's format keeps images there")
    by_number: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in IMAGE_SUFFIXES or path.name.startswith("."):
            continue
        number = re.search(r"\d+", path.name)
        if number is None:
            raise InputError(
                f"{path}: no number in its name, so its row is unknown; rename or remove it"
            )
        other = by_number.setdefault(int(number.group()), path)
        if other != path:
            raise InputError(
                f"{path}: same number as {other.name}, so its row is unknown; rename or remove one"
            )
    return tuple(by_number[number] for number in sorted(by_number))
