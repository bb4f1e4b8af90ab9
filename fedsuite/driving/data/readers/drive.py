"""What a reader of recorded drives returns and what may be asked of it; finding files, and names of pictures.

A reader looks at names and labels only; images are decoded later, one by one (pictures.py).

    angles  float32 [n]  steering, LEFT POSITIVE, in `unit` (angles.py)
    images  one file per angle, or footage: files that hold many (videos, tables, archives)
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from fedsuite.errors import InputError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")
LEFT, RIGHT = "left", "right"
CROP_PX = 200  # of a picture's 320 x 240 pixels, in both directions (pictures.py)


@dataclass(frozen=True)
class FrameFormat:
    """size_px: height and width of a frame; channels: 1 grey, 3 RGB."""

    size_px: int = CROP_PX
    channels: int = 1


class Footage(Protocol):
    """Frames in files that hold many; their places are 0, 1, ... in the order in which the files are read."""

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that frames are taken from."""

    @property
    def about(self) -> str:
        """What else says which picture is at which place; part of the name that converted frames are kept under."""

    def stream(self, places: Sequence[int], form: FrameFormat) -> Iterator[tuple[int, np.ndarray]]:
        """(place, uint8 [C, H, W]) of `places`, which ascend; InputError at one that cannot be decoded."""


@dataclass(frozen=True)
class ReadOptions:
    """angle_scale: factor on every angle (e.g. 0.4363 makes radians of the simulator's fraction of 25 degrees).

    angle_limit: largest |angle| believed, after scaling; 0: what the format's unit allows. positive: sign of formats that
    do not fix it (csv, npz). drop: leave out rows that cannot be read, and count them. The rest is what a fleet's
    drives.toml says of this drive alone: `unit` of the numbers in its files and own_positive, their sign ("" = the
    format's), whether that is turned round, whether the scale is its own, which feature is steering and which the camera
    ("" = as the format finds them), and `place`, the table that says so.
    """

    angle_scale: float = 1.0
    angle_limit: float = 0.0
    positive: str = LEFT
    drop: bool = False
    unit: str = ""
    own_positive: str = ""
    flip_sign: bool = False
    own_scale: bool = False
    steering: str = ""
    camera: str = ""
    place: str = ""


@dataclass(frozen=True)
class Drive:
    """One recording, in time order.

    footage: set where the images lie in files of many, at its places `rows`. runs: int [n], which run (episode, segment)
    each frame belongs to, where frames of different runs are no neighbours in time. limit: largest |angle| believed.
    left_out: rows that could not be read. notes: what people should know of how it was read. held_out: whether all of it
    is for testing. assumed: keys of drives.toml that would say what its files do not.
    """

    name: str
    kind: str
    angles: np.ndarray
    unit: str
    sign: str
    image_paths: tuple[Path, ...] = field(default=(), repr=False)
    footage: Footage | None = field(default=None, repr=False)
    rows: np.ndarray | None = field(default=None, repr=False)
    runs: np.ndarray | None = field(default=None, repr=False)
    limit: float = 1.0
    left_out: int = 0
    notes: tuple[str, ...] = ()
    held_out: bool = False
    assumed: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.angles)

    def only(self, kept: np.ndarray) -> "Drive":
        """The frames where `kept` [n] holds."""
        paths = tuple(self.image_paths[i] for i in np.flatnonzero(kept) if self.image_paths)
        rows, runs = (None if own is None else own[kept] for own in (self.rows, self.runs))
        return replace(self, angles=self.angles[kept], image_paths=paths, rows=rows, runs=runs)


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sorting key with numbers in numeric order: 2 before 10."""
    parts = re.findall(r"\d+|\D+", name)
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts)


def visible(folder: Path, pattern: str = "*") -> list[Path]:
    """What lies in a folder, in natural order, without dot files and macOS's __MACOSX."""
    found = (p for p in folder.glob(pattern) if not p.name.startswith((".", "__MACOSX")))
    return sorted(found, key=lambda path: natural(path.name))


def name_of(place: Path) -> str:
    """What the drive in a folder or archive is called; for a sign that no name may have here stands "_"."""
    return (place.stem if place.is_file() else place.resolve().name).replace("|", "_")


def base_name(path: str) -> str:
    """Last part of a Windows or POSIX path; recorders write the paths of their own machine."""
    return re.split(r"[\\/]", path.strip())[-1]


def first_of(paths: Iterable[Path], what: str, folder: Path) -> Path:
    """The only path; InputError if there is none or more than one."""
    found = sorted(paths)
    if len(found) != 1:
        raise InputError(f"{folder}: expected one {what}, found {len(found)}; keep exactly one")
    return found[0]
