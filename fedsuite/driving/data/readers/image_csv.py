"""Any other recording: one CSV file with a header that names the columns image and angle, paths relative to it.

Rows are in time order. Neither sign nor unit is fixed by the format: ReadOptions.positive (default left) and
ReadOptions.unit (default radians) say them.
"""

from pathlib import Path

from fedsuite.driving.data.readers.drive import (
    Drive,
    ReadOptions,
    checked_angles,
    checked_images,
    first_of,
)
from fedsuite.driving.data.readers.tables import columns_of, field_of, read_rows

KIND = "csv"
OTHERS = ("driving_log.csv", "interpolated.csv")


def matches(folder: Path) -> bool:
    """Whether `folder` looks like this format."""
    return any(path.name not in OTHERS for path in folder.glob("*.csv"))


def read(folder: Path, options: ReadOptions) -> Drive:
    """All rows."""
    file = first_of(
        (p for p in folder.glob("*.csv") if p.name not in OTHERS), "CSV file of image,angle", folder
    )
    rows = read_rows(file)
    image, angle = columns_of(file, rows, ("image", "angle"))
    places = [row.place for row in rows[1:]]
    texts = [field_of(file, row, angle) for row in rows[1:]]
    angles = checked_angles(file, texts, places, options.positive, options)
    names = [field_of(file, row, image).replace("\\", "/") for row in rows[1:]]
    paths = checked_images(file, [folder / name for name in names], places)
    sign = f"{options.positive} positive in the source"
    return Drive(folder.resolve().name, KIND, angles, options.unit, sign, paths)
