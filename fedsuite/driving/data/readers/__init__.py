"""Readers of recorded drives; sign and unit of each format are stated at the top of its module.

All give angles that are left positive. Nothing is decoded here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from fedsuite.driving.data.readers import archive, carla, comma2k19, donkeycar, lerobot, nuscenes
from fedsuite.driving.data.readers.drive import Drive, FrameFormat, ReadOptions
from fedsuite.driving.data.readers.pictures import pictures, read_frame, read_picture
from fedsuite.driving.data.readers.raw_exports import UdacityRaw
from fedsuite.driving.data.readers.text_drives import Dronet, ImageCsv, UdacityReal, UdacitySim
from fedsuite.errors import InputError
from fedsuite.settings.values import check_callable, chosen

__all__ = [
    "AUTO",
    "LOOKED_FOR",
    "Drive",
    "Format",
    "FrameFormat",
    "ReadOptions",
    "detect_kind",
    "has_kind",
    "pictures",
    "read_drive",
    "read_frame",
    "read_picture",
]

AUTO = "auto"


class Format(Protocol):
    """What a reader is: a module or object of this folder, or one's own, given as kind = "module:NAME"."""

    KIND: str

    def matches(self, folder: Path, /) -> bool:
        """Whether `folder` looks like this format."""

    def read(self, folder: Path, options: ReadOptions, /) -> Drive:
        """Names and labels of the drive in `folder`."""


FORMATS: Mapping[str, Format] = {
    f.KIND: f
    for f in (
        UdacitySim(), UdacityReal(), UdacityRaw(), Dronet(), donkeycar, ImageCsv(), archive, lerobot, comma2k19, carla,
        nuscenes,
    )
}  # fmt: skip
LOOKED_FOR = (
    "driving_log.csv (udacity_sim), interpolated.csv (udacity_real), sync_steering.txt (dronet), "
    "catalog_*.catalog or record_*.json (donkeycar), another .csv or .tsv with header image,angle (csv), *.npz (npz), "
    "meta/info.json (lerobot), SEGMENT/video.hevc (comma2k19), rgb/ and measurements/ (carla), "
    "camera.csv and steering.csv (udacity_raw), v1.0-*/sample_data.json and can_bus/ (nuscenes)"
)


def format_of(kind: str) -> Format:
    """The format called `kind`, or found at `module:NAME`."""
    found: Format = chosen("data.kind", kind, FORMATS)
    if kind not in FORMATS:
        for name, takes in (("matches", ("folder",)), ("read", ("folder", "options"))):
            check_callable("data.kind", f"{kind}.{name}", getattr(found, name, None), takes)
    return found


def has_kind(folder: Path, kind: str) -> bool:
    """Whether `folder` (or .npz file) has the files of `kind`; with "auto", of any kind."""
    formats = FORMATS.values() if kind == AUTO else (format_of(kind),)
    return any(f.matches(folder) for f in formats)


def detect_kind(folder: Path) -> str:
    """The only kind whose files are in `folder`; InputError lists what was looked for."""
    found = [kind for kind, f in FORMATS.items() if f.matches(folder)]
    if not found:
        raise InputError(f"{folder}: no drive found; looked for {LOOKED_FOR}")
    # A spare table beside the files of a known format says nothing.
    named = [kind for kind in found if kind != ImageCsv.KIND] or found
    if len(named) > 1:
        raise InputError(
            f"{folder}: could be {' or '.join(named)}; set the kind or separate the drives"
        )
    return named[0]


def read_drive(folder: Path, kind: str = AUTO, options: ReadOptions | None = None) -> Drive:
    """Names and labels of one drive, checked; no image is decoded."""
    if not folder.exists():
        raise InputError(f"{folder}: no such folder; give the folder of a recorded drive")
    named = detect_kind(folder) if kind == AUTO else kind
    return format_of(named).read(folder, options or ReadOptions())
