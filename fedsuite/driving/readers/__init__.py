"""Readers of recorded drives, one module per format; sign and unit of each are stated at its top.

    udacity_sim   driving_log.csv, IMG/              udacity_real  interpolated.csv, center/
    dronet        sync_steering.txt, images/         donkeycar     catalog_*.catalog, images/
    csv           one CSV with header image,angle    npz           archives of the CDL release

All give angles that are left positive. Nothing is decoded here.
"""

from collections.abc import Callable
from pathlib import Path

from fedsuite.driving.readers import (
    archive,
    donkeycar,
    dronet,
    image_csv,
    udacity_real,
    udacity_sim,
)
from fedsuite.driving.readers.drive import Drive, ReadOptions
from fedsuite.driving.readers.pictures import FrameFormat, pictures, read_picture
from fedsuite.errors import InputError

__all__ = [
    "AUTO",
    "KINDS",
    "Drive",
    "FrameFormat",
    "ReadOptions",
    "detect_kind",
    "has_kind",
    "pictures",
    "read_drive",
    "read_picture",
]

AUTO = "auto"
_FORMATS = (udacity_sim, udacity_real, dronet, donkeycar, image_csv, archive)
_READ: dict[str, Callable[[Path, ReadOptions], Drive]] = {f.KIND: f.read for f in _FORMATS}
_MATCHES: dict[str, Callable[[Path], bool]] = {f.KIND: f.matches for f in _FORMATS}
KINDS = tuple(_READ)
LOOKED_FOR = (
    "driving_log.csv (udacity_sim), interpolated.csv (udacity_real), sync_steering.txt (dronet), "
    "catalog_*.catalog (donkeycar), another .csv with header image,angle (csv), *.npz (npz)"
)


def has_kind(folder: Path, kind: str) -> bool:
    """Whether `folder` (or .npz file) has the files of `kind`; with "auto", of any kind."""
    if kind != AUTO and kind not in KINDS:
        raise InputError(f"kind: expected auto or one of {', '.join(KINDS)}, got {kind!r}")
    return any(_MATCHES[k](folder) for k in (KINDS if kind == AUTO else (kind,)))


def detect_kind(folder: Path) -> str:
    """The only kind whose files are in `folder`; InputError lists what was looked for."""
    found = [kind for kind in KINDS if _MATCHES[kind](folder)]
    if not found:
        raise InputError(f"{folder}: no drive found; looked for {LOOKED_FOR}")
    # A spare table beside the files of a known format says nothing.
    named = [kind for kind in found if kind != image_csv.KIND] or found
    if len(named) > 1:
        raise InputError(
            f"{folder}: could be {' or '.join(named)}; set the kind or separate the drives"
        )
    return named[0]


def read_drive(folder: Path, kind: str = AUTO, options: ReadOptions | None = None) -> Drive:
    """Names and labels of one drive, checked; no image is decoded."""
    if not folder.exists():
        raise InputError(f"{folder}: no such folder; give the folder of a recorded drive")
    if kind == AUTO:
        kind = detect_kind(folder)
    if kind not in KINDS:
        raise InputError(f"kind: expected auto or one of {', '.join(KINDS)}, got {kind!r}")
    return _READ[kind](folder, options or ReadOptions())
