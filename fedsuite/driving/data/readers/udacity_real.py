"""Udacity's real road recordings as exported frame by frame: interpolated.csv and center/.

Header index,timestamp,width,height,frame_id,filename,angle,torque,speed,lat,long,alt; one row per frame of every camera,
of which the centre one is kept. Angle: radians of the steering wheel, LEFT POSITIVE; kept as it is. A wheel turns
further than pi in tight bends: set angle_limit, or angle_scale to the steering ratio's inverse.
"""

from pathlib import Path

from fedsuite.driving.data.readers.drive import (
    LEFT,
    Drive,
    ReadOptions,
    base_name,
    checked_angles,
    checked_images,
)
from fedsuite.driving.data.readers.tables import columns_of, field_of, read_rows
from fedsuite.errors import InputError

KIND = "udacity_real"
LOG = "interpolated.csv"
CENTER = ("center_camera", "center")


def matches(folder: Path) -> bool:
    """Whether `folder` looks like this format."""
    return (folder / LOG).is_file()


def read(folder: Path, options: ReadOptions) -> Drive:
    """The centre camera's frames, in the file's order."""
    file = folder / LOG
    rows = read_rows(file)
    camera, image, angle = columns_of(file, rows, ("frame_id", "filename", "angle"))
    cameras = [field_of(file, row, camera) for row in rows[1:]]
    kept = [row for row, name in zip(rows[1:], cameras, strict=True) if name in CENTER]
    if cameras and not kept:
        raise InputError(
            f"{file}: no row has frame_id {CENTER[0]} (first: {cameras[0]}); export the centre camera"
        )
    places = [row.place for row in kept]
    texts = [field_of(file, row, angle) for row in kept]
    angles = checked_angles(file, texts, places, LEFT, options)
    names = [base_name(field_of(file, row, image)) for row in kept]
    paths = checked_images(file, [folder / "center" / name for name in names], places)
    unit, sign = "radians of the steering wheel", "left positive in the source"
    return Drive(folder.resolve().name, KIND, angles, unit, sign, paths)
