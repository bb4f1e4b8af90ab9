"""What a reader of recorded drives returns, what may be asked of it, and the checks that all of them share.

A reader looks at names and labels only; images are decoded later, one by one (pictures.py).

    angles  float32 [n]  steering, LEFT POSITIVE, in the unit of the source times `angle_scale`
    images  one file per angle, or one array `imgs` inside an .npz archive
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedsuite.errors import InputError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")
LEFT, RIGHT = "left", "right"


@dataclass(frozen=True)
class ReadOptions:
    """angle_scale: factor on every angle (e.g. 0.4363 makes radians of the simulator's fraction of 25 degrees).

    angle_limit: largest |angle| believed, after scaling. positive: sign of formats that do not fix it (csv, npz).
    """

    angle_scale: float = 1.0
    angle_limit: float = math.pi
    positive: str = LEFT


@dataclass(frozen=True)
class Drive:
    """One recording, in time order. `archive` is set where the images lie in an .npz instead of files."""

    name: str
    kind: str
    angles: np.ndarray
    unit: str
    sign: str
    image_paths: tuple[Path, ...] = field(default=(), repr=False)
    archive: Path | None = None

    def __len__(self) -> int:
        return len(self.angles)


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sorting key with numbers in numeric order: 2 before 10."""
    parts = re.findall(r"\d+|\D+", name)
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts)


def visible(folder: Path, pattern: str = "*") -> list[Path]:
    """What lies in a folder, in natural order, without dot files and macOS's __MACOSX."""
    found = (p for p in folder.glob(pattern) if not p.name.startswith((".", "__MACOSX")))
    return sorted(found, key=lambda path: natural(path.name))


def base_name(path: str) -> str:
    """Last part of a Windows or POSIX path; recorders write the paths of their own machine."""
    return re.split(r"[\\/]", path.strip())[-1]


def checked_angles(
    file: Path,
    values: Sequence[object],
    places: Sequence[str],
    source_positive: str,
    options: ReadOptions,
) -> np.ndarray:
    """float32 [n], left positive, scaled; InputError names `file` and the place of the first bad value."""
    sign = 1.0 if source_positive == LEFT else -1.0
    angles = np.empty(len(values), np.float32)
    for number, (value, place) in enumerate(zip(values, places, strict=True)):
        try:
            if isinstance(value, bool):
                raise TypeError
            angle = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise InputError(
                f"{file}: {place}: the steering angle {value!r} is no number; correct or remove that row"
            ) from None
        if not math.isfinite(angle):
            raise InputError(
                f"{file}: {place}: the steering angle is {angle}; correct or remove that row"
            )
        angle *= sign * options.angle_scale
        if abs(angle) > options.angle_limit * (1 + 1e-6):
            raise InputError(
                f"{file}: {place}: steering angle {angle:.6g} is beyond the limit {options.angle_limit:.6g}; correct "
                "that row, or set data.angle-scale or data.angle-limit to suit the unit of these labels"
            )
        angles[number] = angle + 0.0  # no negative zeros
    if not len(angles):
        raise InputError(f"{file}: no frames; record again or remove this drive")
    return angles


def checked_images(file: Path, paths: Sequence[Path], places: Sequence[str]) -> tuple[Path, ...]:
    """The same paths once none is named twice and all exist."""
    seen: dict[Path, str] = {}
    again = [
        f"{place}: {path.name} was named before ({seen[path]})"
        for path, place in zip(paths, places, strict=True)
        if seen.setdefault(path, place) != place
    ]
    if again:
        raise InputError(f"{file}: {'; '.join(again)}; a frame has one angle, keep one row of each")
    # One listing of a folder is far quicker than asking for every image.
    present = {path for folder in {p.parent for p in paths} for path in folder.glob("*")}
    missing = [path for path in paths if path not in present]
    if missing:
        raise InputError(
            f"{file}: {len(missing)} of {len(paths)} images are missing (first: {missing[0]}); add them or remove "
            "their rows"
        )
    return tuple(paths)


def first_of(paths: Iterable[Path], what: str, folder: Path) -> Path:
    """The only path; InputError if there is none or more than one."""
    found = sorted(paths)
    if len(found) != 1:
        raise InputError(f"{folder}: expected one {what}, found {len(found)}; keep exactly one")
    return found[0]
