"""Pictures that somebody hands to a trained network: files, folders of pictures, recorded drives, a silo's test frames.

Everything is read and decoded here, as training does it, before anything is steered; what cannot be read is one InputError.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedsuite.driving.config import CDLConfig, DataSettings
from fedsuite.driving.data.finding import find_drives
from fedsuite.driving.data.fleet import FLEET, read_drives
from fedsuite.driving.data.frames import SPLITS, is_finished
from fedsuite.driving.data.readers import (
    Drive,
    FrameFormat,
    has_kind,
    pictures,
    read_frame,
    read_picture,
)
from fedsuite.driving.data.readers.drive import IMAGE_SUFFIXES, name_of, visible
from fedsuite.driving.data.readers.rows import few
from fedsuite.driving.data.roads import poses_of
from fedsuite.driving.data.sources import open_own, road_settings, roster_folder
from fedsuite.errors import InputError
from fedsuite.roster.members import Roster


@dataclass(frozen=True)
class Given:
    """n frames. groups: drive or silo that each belongs to, "" for single pictures; images: uint8 [n, C, H, W].

    truth: float32 [n], recorded angles, left positive, NaN where there is none; poses: float32 [n, 4], where on a generated
    road a frame was taken (rendering/laws.py), NaN elsewhere.
    """

    names: tuple[str, ...]
    groups: tuple[str, ...]
    images: np.ndarray
    truth: np.ndarray
    poses: np.ndarray

    def __len__(self) -> int:
        return len(self.names)


def joined(parts: Sequence[Given]) -> Given:
    """All frames, in order."""
    arrays = (np.concatenate([getattr(p, f) for p in parts]) for f in ("images", "truth", "poses"))
    return Given(
        tuple(name for p in parts for name in p.names),
        tuple(group for p in parts for group in p.groups),
        *arrays,
    )


def read_given(paths: Sequence[Path], data: DataSettings, unit: str) -> Given:
    """Frames of picture files, folders of pictures, and drives, whose angles must be in `unit`; in the order given."""
    form = FrameFormat(data.image_size, data.channels)
    found: list[Drive | list[Path]] = []
    for path in paths:
        found += _listed(path, data)
    for drive in found:
        if isinstance(drive, Drive) and drive.unit != unit:
            raise InputError(
                f"{drive.name}: its angles are in {drive.unit}, the run's in {unit}; give angle-unit and angle-scale in "
                f"{FLEET} beside it, or its folder of pictures alone"
            )
    images = _decoded([p for files in found if isinstance(files, list) for p in files], data)
    parts = []
    for entry in found:
        if isinstance(entry, Drive):
            wanted = np.ones(len(entry), bool)
            frames = np.stack([frame for _, frame in pictures(entry, wanted, form)])
            places = [path.name for path in entry.image_paths] or [*map(str, range(len(entry)))]
            names = tuple(f"{entry.name}/{place}" for place in places)
            parts.append(_part(names, entry.name, frames, entry.angles))
        else:
            frames = np.stack([images[path] for path in entry])
            parts.append(_part(tuple(map(str, entry)), "", frames))
    return joined(parts)


def held_out_frames(config: CDLConfig, roster: Roster, silo: str) -> Given:
    """The frames that a silo of the run holds back; InputError if they do not lie on this machine any more."""
    folder = roster_folder(config.drawn_data, roster)
    if not is_finished(folder):
        raise InputError(
            f"{folder}: the run's frames are not here any more; give pictures, or run it again"
        )
    frames = open_own(folder, silo).test
    names = tuple(f"{silo}/{SPLITS[1]}/{i}" for i in range(len(frames)))
    poses = None
    if roster.facts.get("source") != "drives" and not config.federation.pooled:
        settings = road_settings(config.drawn_data, roster.fact("silos", int))
        number = [n for m in roster.members for n in m.names("names")].index(silo)
        poses = poses_of(settings, number, SPLITS[1]).values
    return _part(names, silo, np.asarray(frames.images), np.asarray(frames.angles), poses)


def _part(
    names: tuple[str, ...],
    group: str,
    images: np.ndarray,
    truth: np.ndarray | None = None,
    poses: np.ndarray | None = None,
) -> Given:
    n = len(names)
    known = np.full(n, np.nan, np.float32) if truth is None else truth
    where = np.full((n, 4), np.nan, np.float32) if poses is None else poses
    return Given(names, (group,) * n, images, known, where)


def _listed(path: Path, data: DataSettings) -> list[Drive | list[Path]]:
    """Drives, or picture files."""
    if not path.exists():
        raise InputError(f"{path}: no such picture, folder or drive; correct the name")
    if path.suffix == ".npz" or (path.is_dir() and has_kind(path, data.kind)):
        return [_drive(path, data)]
    if path.is_file():
        return [[path]]
    files = [p for p in visible(path) if p.suffix.lower() in IMAGE_SUFFIXES]
    if files:
        return [files]
    find_drives(path, data.kind)  # or the complaint that there are none
    return list(read_drives(_at(path, data)))


def _drive(path: Path, data: DataSettings) -> Drive:
    """One drive; its fleet's drives.toml holds where there is one."""
    root = path.parent if path.is_file() or (path.parent / FLEET).is_file() else path
    for drive in read_drives(_at(root, data)):
        if drive.name == name_of(path):
            return drive
    raise InputError(f"{path}: not among the drives of {root}; give {root} instead")


def _at(folder: Path, data: DataSettings) -> DataSettings:
    return replace(data, dir=str(folder), test_split="blocks")


def _decoded(paths: Sequence[Path], data: DataSettings) -> dict[Path, np.ndarray]:
    """uint8 [C, H, W] by file; all that cannot be read are named at once."""
    form = FrameFormat(data.image_size, data.channels)
    read = read_picture if data.dir else read_frame  # as the run's own frames were made
    found: dict[Path, np.ndarray] = {}
    bad: list[str] = []
    for path in dict.fromkeys(paths):
        try:
            found[path] = read(path, form)
        except InputError as error:
            bad.append(str(error).rpartition(";")[0] or str(error))
    if bad:
        raise InputError(
            f"{few(bad).replace(' rows:', ' pictures:')}; give pictures that can be read"
        )
    return found
