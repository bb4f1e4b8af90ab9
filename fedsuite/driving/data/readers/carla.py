"""Logs of CARLA's leaderboard 1 as agents for it write them (TransFuser, Chitta et al. 2022, 2205.15997, and kin): a route
is rgb/<number>.jpg or .png and measurements/<number>.json.gz (or .json), joined by their numbers.

Angle: the key steer, a fraction of the vehicle's own full lock, [-1, 1], RIGHT POSITIVE; it is negated here. Pictures of
rgb_augmented are taken from another pose than the one that was steered at, so that they have no angle.
"""

import gzip
import json
from pathlib import Path
from typing import Any

from fedsuite.driving.data.readers.angles import FRACTION, law_of
from fedsuite.driving.data.readers.drive import (
    IMAGE_SUFFIXES,
    RIGHT,
    Drive,
    ReadOptions,
    name_of,
    visible,
)
from fedsuite.driving.data.readers.rows import BadRows, kept_frames
from fedsuite.errors import InputError
from fedsuite.storage.files import check_readable

KIND = "carla"
RECORDS, PICTURES, MOVED = "measurements", "rgb", "rgb_augmented"
MOST = 1 << 20  # bytes of one record, unpacked


def matches(folder: Path) -> bool:
    return (folder / RECORDS).is_dir() and any((folder / p).is_dir() for p in (PICTURES, MOVED))


def read(folder: Path, options: ReadOptions) -> Drive:
    """All steps of one route that have a record and a picture."""
    if not (folder / PICTURES).is_dir():
        raise InputError(
            f"{folder / MOVED}: pictures from a moved camera, which have no angle; give a route with {PICTURES}/"
        )
    images = {
        int(p.stem): p
        for p in visible(folder / PICTURES)
        if p.stem.isdecimal() and p.suffix.lower() in IMAGE_SUFFIXES
    }
    records = {
        int(number): p
        for p in visible(folder / RECORDS)
        if (number := p.name.partition(".")[0]).isdecimal()
        and p.name.endswith((".json", ".json.gz"))
    }
    bad = BadRows(options.drop)
    lonely = [images[number].name for number in sorted(images.keys() - records.keys())]
    bad.found(folder, *(f"{PICTURES}/{name} has no record" for name in lonely))
    values: list[Any] = []
    for file in records.values():
        record = _record(file)
        values.append(record.get("steer") if isinstance(record, dict) else None)
    paths = [images.get(number, folder / PICTURES / f"{number:04d}.jpg") for number in records]
    places = [f"{RECORDS}/{file.name}" for file in records.values()]
    law = law_of(FRACTION, RIGHT, options)
    angles, kept = kept_frames(folder, places, values, law, bad, paths)
    return Drive(
        name_of(folder), KIND, angles, law.unit, law.sign, tuple(paths[i] for i in kept.tolist()),
        limit=law.limit, left_out=len(bad.told), notes=bad.notes(folder),
    )  # fmt: skip


def _record(file: Path) -> Any:
    """The content of a record, None where it is no JSON; InputError for one that unpacks to far more than one is."""
    check_readable(file)
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as source:
            data = source.read(MOST + 1)
            if len(data) > MOST:
                raise InputError(
                    f"{file}: more than {MOST} bytes, which is no record of one step; remove it"
                )
            return json.loads(data)
    except InputError:
        raise
    except (OSError, EOFError, ValueError, RecursionError):
        return None
