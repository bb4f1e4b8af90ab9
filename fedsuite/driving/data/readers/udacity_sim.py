"""Udacity self-driving-car simulator: driving_log.csv and IMG/.

Columns center,left,right,steering,throttle,brake,speed, usually without a header; some recordings keep fewer. The
centre camera is read, side cameras are not (their angle is not recorded). Image paths are those of the recording
machine, often absolute Windows paths; the last part counts.

Steering is a fraction of full lock (25 degrees), [-1, 1], RIGHT POSITIVE; it is negated here.
"""

from collections.abc import Sequence
from pathlib import Path

from fedsuite.driving.data.readers.drive import (
    IMAGE_SUFFIXES,
    RIGHT,
    Drive,
    ReadOptions,
    base_name,
    checked_angles,
    checked_images,
)
from fedsuite.driving.data.readers.tables import Row, columns_of, field_of, read_rows
from fedsuite.errors import InputError

KIND = "udacity_sim"
LOG = "driving_log.csv"


def matches(folder: Path) -> bool:
    """Whether `folder` looks like this format."""
    return (folder / LOG).is_file()


def read(folder: Path, options: ReadOptions) -> Drive:
    """The centre camera's frames."""
    file = folder / LOG
    rows = read_rows(file)
    if not rows:
        raise InputError(f"{file}: no frames; record again or remove this drive")
    center, steering, frames = _columns(file, rows)
    places = [row.place for row in frames]
    texts = [field_of(file, row, steering) for row in frames]
    angles = checked_angles(file, texts, places, RIGHT, options)
    names = [base_name(field_of(file, row, center)) for row in frames]
    paths = checked_images(file, [folder / "IMG" / name for name in names], places)
    unit, sign = "fraction of full lock", "right positive in the source, negated"
    return Drive(folder.resolve().name, KIND, angles, unit, sign, paths)


def _columns(file: Path, rows: Sequence[Row]) -> tuple[int, int, Sequence[Row]]:
    """Columns of image and steering, and the rows without the header.

    Without a header the steering angle follows the leading image columns, however many cameras were kept.
    """
    first = rows[0].fields
    if not first[0].lower().endswith(IMAGE_SUFFIXES):
        center, steering = columns_of(file, rows, ("center", "steering"))
        return center, steering, rows[1:]
    cameras = next((i for i, f in enumerate(first) if not f.lower().endswith(IMAGE_SUFFIXES)), 0)
    if not cameras:
        raise InputError(f"{file}: {rows[0].place} has no steering column; add the angles")
    return 0, cameras, rows
