"""Donkeycar v4 tubs: catalog_*.catalog (one JSON object a line) and images/.

Reads cam/image_array and user/angle of every record, in the order of _index; records that manifest.json lists as
deleted are left out. Angle: fraction of full lock, [-1, 1], -1 is full left, so RIGHT POSITIVE; it is negated here.
"""

import json
from pathlib import Path
from typing import Any

from fedsuite.driving.data.readers.drive import (
    RIGHT,
    Drive,
    ReadOptions,
    base_name,
    checked_angles,
    checked_images,
    visible,
)
from fedsuite.driving.data.readers.tables import lines_of
from fedsuite.errors import InputError

KIND = "donkeycar"
PATTERN = "catalog_*.catalog"
KEYS = ("_index", "cam/image_array", "user/angle")


def matches(folder: Path) -> bool:
    return any(folder.glob(PATTERN))


def read(folder: Path, options: ReadOptions) -> Drive:
    """All records that were not deleted."""
    files = visible(folder, PATTERN)
    if not files:
        raise InputError(f"{folder}: no {PATTERN} file; give the folder of a Donkeycar v4 tub")
    deleted = _deleted(folder / "manifest.json")
    records = {
        place: record
        for file in files
        for place, record in _records(file).items()
        if record["_index"] not in deleted
    }
    places, texts = list(records), [r["user/angle"] for r in records.values()]
    angles = checked_angles(folder, texts, places, RIGHT, options)
    images = [folder / "images" / base_name(r["cam/image_array"]) for r in records.values()]
    paths = checked_images(folder, images, places)
    unit, sign = "fraction of full lock", "right positive in the source, negated"
    return Drive(folder.resolve().name, KIND, angles, unit, sign, paths)


def _records(file: Path) -> dict[str, dict[str, Any]]:
    """Records of a catalog by what errors call their place."""
    records = {}
    for number, line in enumerate(lines_of(file), 1):
        if not line.strip():
            continue
        entry = _json(line)
        if not isinstance(entry, dict):
            raise InputError(f"{file}: line {number} is no JSON object; remove that line")
        if absent := [key for key in KEYS if key not in entry]:
            raise InputError(f"{file}: line {number} has no {absent[0]}; remove that line")
        if not isinstance(entry["_index"], int) or not isinstance(entry["cam/image_array"], str):
            raise InputError(
                f"{file}: line {number}: _index must be a whole number and cam/image_array a file name; correct it"
            )
        records[f"{file.name} line {number}"] = entry
    return records


def _deleted(manifest: Path) -> frozenset[int]:
    """Indexes of deleted records; the manifest is a few JSON values, one a line, of which the last knows them."""
    if not manifest.is_file():
        return frozenset()
    for line in reversed(lines_of(manifest)):
        entry = _json(line)
        if isinstance(entry, dict) and "deleted_indexes" in entry:
            indexes = entry["deleted_indexes"]
            if isinstance(indexes, list) and all(isinstance(i, int) for i in indexes):
                return frozenset(indexes)
            break
    raise InputError(
        f"{manifest}: no list deleted_indexes in any line; restore the tub's manifest or remove it to keep all records"
    )


def _json(line: str) -> Any:
    """The value, or None where the line is no JSON."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None
