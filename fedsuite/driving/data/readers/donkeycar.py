"""Donkeycar's tubs: records of one JSON object, and pictures.

    version 2 (Donkeycar 4)  catalog_*.catalog, one record a line, and images/; records that manifest.json lists as deleted
                             are left out; in the order of the catalogs
    version 1 (before that)  record_*.json, one record each, beside their pictures; in the order of their numbers

Reads cam/image_array and user/angle, or pilot/angle where a pilot steered (user/mode is not "user"; user/angle is 0
then), which is told. Angle: fraction of full lock, [-1, 1], -1 is full left, so RIGHT POSITIVE; it is negated here.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsuite.driving.data.readers.angles import FRACTION, law_of
from fedsuite.driving.data.readers.drive import (
    RIGHT,
    Drive,
    ReadOptions,
    base_name,
    name_of,
    visible,
)
from fedsuite.driving.data.readers.rows import BadRows, kept_frames
from fedsuite.driving.data.readers.tables import lines_of
from fedsuite.errors import InputError
from fedsuite.storage.files import check_readable

KIND = "donkeycar"
CATALOGS, RECORDS = "catalog_*.catalog", "record_*.json"
KEYS = {"cam/image_array": "a file name", "user/angle": "a number"}
NUMBERED = {"_index": "a whole number", **KEYS}
TYPES = {"_index": int, "cam/image_array": str}
PILOT = "pilot/angle"


def matches(folder: Path) -> bool:
    return any(any(folder.glob(pattern)) for pattern in (CATALOGS, RECORDS))


def read(folder: Path, options: ReadOptions) -> Drive:
    """All records that were not deleted."""
    catalogs, files = visible(folder, CATALOGS), visible(folder, RECORDS)
    if not catalogs and not files:
        raise InputError(f"{folder}: no {CATALOGS} or {RECORDS}; give the folder of a tub")
    bad = BadRows(options.drop)
    if catalogs:
        images, deleted = folder / "images", _deleted(folder / "manifest.json")
        texts = {
            f"{file.name} line {number}": line
            for file in catalogs
            for number, line in enumerate(lines_of(file), 1)
            if line.strip()
        }
        found = _records(folder, texts, NUMBERED, bad)
        records = {k: r for k, r in found.items() if r["_index"] not in deleted}
    else:
        images, texts = folder, {file.name: _text(file) for file in files}
        records = _records(folder, texts, KEYS, bad)
    places, piloted = list(records), sum(map(_is_piloted, records.values()))
    values = [r[PILOT if _is_piloted(r) else "user/angle"] for r in records.values()]
    paths = [images / base_name(r["cam/image_array"]) for r in records.values()]
    law = law_of(FRACTION, RIGHT, options)
    angles, kept = kept_frames(folder, places, values, law, bad, paths)
    note = (
        f"{folder}: a pilot steered in {piloted} of {len(places)} records (user/mode), so {PILOT} is read there; remove "
        "these records to learn from people alone"
    )
    return Drive(
        name_of(folder), KIND, angles, law.unit, law.sign, tuple(paths[i] for i in kept.tolist()),
        limit=law.limit, left_out=len(bad.told), notes=(*bad.notes(folder), *[note][: min(piloted, 1)]),
    )  # fmt: skip


def _text(file: Path) -> str:
    """What a record's file holds; bytes that are no text, as a lost power supply leaves them, make it no JSON."""
    check_readable(file)
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error}); remove that record") from None


def _records(
    folder: Path, texts: Mapping[str, str], keys: Mapping[str, str], bad: BadRows
) -> dict[str, dict[str, Any]]:
    """Records that have all of `keys`, by what errors call their place."""
    records = {}
    for place, text in texts.items():
        entry = _json(text)
        if complaint := _complaint(entry, keys):
            bad.found(folder, f"{place} {complaint}", cure="correct or remove that record")
        else:
            records[place] = dict(entry)
    return records


def _complaint(entry: Any, keys: Mapping[str, str]) -> str:
    """What is wrong with a record; empty if nothing is."""
    if not isinstance(entry, dict):
        return "is no JSON object"
    if absent := [key for key in keys if key not in entry]:
        return f"has no {absent[0]}"
    if _is_piloted(entry) and PILOT not in entry:
        return f"was steered by a pilot (user/mode {entry['user/mode']!r}) and has no {PILOT}"
    wrong = [k for k in keys if k in TYPES and not isinstance(entry[k], TYPES[k])]
    return f"has {wrong[0]} {entry[wrong[0]]!r}, expected {keys[wrong[0]]}" if wrong else ""


def _is_piloted(entry: Mapping[str, Any]) -> bool:
    """Whether a pilot steered: in the modes local_angle and local, in any but user."""
    return str(entry.get("user/mode") or "user") != "user"


def _deleted(manifest: Path) -> frozenset[int]:
    """Indexes of deleted records; the manifest is a few JSON values, one a line, of which the last knows them."""
    if not (manifest.exists() or manifest.is_symlink()):
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
    """The value, or None where the text is no JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
