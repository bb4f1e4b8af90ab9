"""Front-camera frames and steering angles of silos, memory-mapped: one folder per silo, one layout for every source.

    <folder>/silos.json                     names in order and what the source says of itself; written last
    <folder>/<silo>/{train,test}_images.npy uint8   [n, C, H, W], C = 1 (grey) or 3 (RGB)
    <folder>/<silo>/{train,test}_angles.npy float32 [n], steering, left positive

Generated roads and every reader of real drives write this layout, and nothing else of them is seen by training.
A silo's training frames never leave its client.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.errors import InputError
from fedsuite.settings.values import shown
from fedsuite.storage.files import read_object, sync, write_json
from fedsuite.storage.mapped import map_array

INDEX = "silos.json"
LEFT_OUT = "left-out"
SPLITS = ("train", "test")
WANTED = "settings.json"  # in an unfinished folder of generated roads: what it is being filled for
FRAMES = tuple(f"{split}_{part}.npy" for split in SPLITS for part in ("images", "angles"))
WRITTEN = (
    INDEX,
    WANTED,
    *(f"*/{name}" for name in FRAMES),
)  # as fedsuite.storage.deleting takes names


@dataclass(frozen=True)
class Frames:
    """images: uint8 [n, C, H, W]; angles: float32 [n], left positive. May be memory-mapped."""

    images: np.ndarray
    angles: np.ndarray

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.dtype != np.uint8:
            raise ValueError(
                f"images: expected uint8 [n, C, H, W], got {self.images.dtype} {self.images.shape}"
            )
        if self.angles.shape != (len(self.images),) or self.angles.dtype != np.float32:
            raise ValueError(
                f"angles: expected float32 [{len(self.images)}], got {self.angles.dtype} {self.angles.shape}"
            )
        if not np.isfinite(self.angles).all():
            raise ValueError("angles: expected finite numbers, got NaN or infinity")

    def __len__(self) -> int:
        return len(self.angles)


@dataclass(frozen=True)
class Silo:
    """One vehicle or driving site: what it trains on and the frames of its own that it holds back."""

    name: str
    train: Frames
    test: Frames


def with_false_angles(silo: Silo) -> Silo:
    """The silo of a saboteur: training angles negated, pictures as they are; it tests honestly."""
    return replace(silo, train=Frames(silo.train.images, -np.asarray(silo.train.angles)))


def finish_silos(
    partial: Path,
    folder: Path,
    names: Sequence[str],
    about: Mapping[str, Any],
    left_out: Mapping[str, int] | None = None,
) -> None:
    """Name the silos in order and put `partial` in the place of `folder`, which is empty or not there.

    about: where they come from (source, unit of the angle, options). left_out: rows that could not be read, by drive.
    """
    index = {"silos": list(names), "about": dict(about), LEFT_OUT: dict(left_out or {})}
    write_json(partial / INDEX, index)
    partial.rename(folder)
    sync(folder.parent)


def silo_names(folder: Path) -> list[str]:
    """Names of the silos in a finished folder, in order."""
    return list(_index(folder)["silos"])


def left_out_of(folder: Path) -> dict[str, int]:
    """Rows of drives that could not be read and are not in a finished folder, by drive."""
    return dict(_index(folder).get(LEFT_OUT, {}))


def is_finished(folder: Path) -> bool:
    """Whether all silos of this folder have been written."""
    return (folder / INDEX).is_file()


def holds(folder: Path, about: Mapping[str, Any]) -> bool:
    """Whether `folder` holds the silos that `about` describes; False if it is new or empty, InputError otherwise."""
    if is_finished(folder):
        if _index(folder).get("about") == about:
            return True
        raise InputError(
            f"{folder}: holds silos of other drives or settings; delete it or give another folder"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder}: exists and holds no prepared silos; give another folder, nothing in it was touched"
        )
    return False


def open_silo(folder: Path, name: str) -> Silo:
    """One silo, memory-mapped."""
    return Silo(name, *(_open(folder / name, split) for split in SPLITS))


def _open(own: Path, split: str) -> Frames:
    cure = f"delete {own.parent} and prepare the data again"
    images, angles = (map_array(own / f"{split}_{part}.npy", cure) for part in ("images", "angles"))
    try:
        return Frames(images, angles)
    except ValueError as error:
        raise InputError(f"{own}: {split} frames cannot be read ({error}); {cure}") from None


def _index(folder: Path) -> dict[str, Any]:
    file, cure = folder / INDEX, f"delete {folder} and prepare the data again"
    found = read_object(file, "an index of silos", cure)
    names, left_out = found.get("silos"), found.get(LEFT_OUT, {})
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{file}: silos must be names, got {shown(names)}; {cure}")
    if not isinstance(left_out, dict) or not all(type(n) is int for n in left_out.values()):
        raise InputError(f"{file}: {LEFT_OUT} must be rows by drive, got {shown(left_out)}; {cure}")
    return found
