"""Recorded drives to silos of frames: find, check, split into time blocks, decode, write.

Labels and names of all drives are checked before the first image is decoded. Frames go to a temporary folder beside the
output, which takes its final name when all is written: an interrupt leaves nothing that looks finished. One frame is in
memory at a time.
"""

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from fedsuite.driving.config import DataSettings
from fedsuite.driving.data.drive_blocks import TEST, TRAIN, Plan, SplitOptions, plan_split
from fedsuite.driving.data.frames import SPLITS, finish_silos, holds
from fedsuite.driving.data.readers import (
    AUTO,
    LOOKED_FOR,
    Drive,
    FrameFormat,
    ReadOptions,
    detect_kind,
    has_kind,
    pictures,
    read_drive,
)
from fedsuite.driving.data.readers.drive import visible
from fedsuite.errors import InputError
from fedsuite.progress import Progress, silent

ROLES = (TRAIN, TEST)
LEVELS = 2


def find_drives(data_dir: Path, kind: str = AUTO, progress: Progress = silent) -> list[Path]:
    """`data_dir` itself, or the folders that hold a drive at most two levels below, in natural order of their names.

    In place of a folder with archives come the archives. Those of the CDL release are taken from train/ only: train.npz
    there is the union of the others, and every silo holds frames of its own back for testing. Folders that are passed
    over are told to `progress`.
    """
    if not data_dir.is_dir():
        raise InputError(
            f"data.dir: {data_dir} is not a folder; give one that holds recorded drives"
        )
    found, passed = _search(data_dir, kind, LEVELS)
    if not found:
        looked_for = LOOKED_FOR if kind == AUTO else f"those of kind {kind}"
        raise InputError(
            f"{data_dir}: no drive found in it or {LEVELS} levels below; looked for {looked_for}"
        )
    if passed:
        names = ", ".join(str(path.relative_to(data_dir)) for path in passed)
        progress(f"{data_dir}: passed over {names}")
    return [path for folder in found for path in _expanded(folder, kind)]


def about_drives(drives: Sequence[Drive], data: DataSettings) -> dict[str, object]:
    """All that the silos of these drives depend on, JSON values: settings, labels, and the files that hold the pictures."""
    return {
        "source": "drives",
        "unit": drives[0].unit,
        "frames": [data.image_size, data.channels, data.angle_scale],
        "split": [data.num_silos, data.dirichlet, data.test_share, data.generated_seed],
        "drives": [
            {"name": d.name, "kind": d.kind, "frames": len(d), "sign": d.sign} for d in drives
        ],
        "sha256": _fingerprint(drives),
    }


def prepare_drives(
    folder: Path, drives: Sequence[Drive], data: DataSettings, progress: Progress = silent
) -> None:
    """Write the silos of the drives to `folder` (layout of frames.py); nothing to do if they are there.

    With num_silos the drives in order are cut into that many silos of equal length; without, each is one. Raises InputError.
    """
    about = about_drives(drives, data)
    if holds(folder, about):
        return
    form = FrameFormat(data.image_size, data.channels)
    split = SplitOptions(data.num_silos, data.dirichlet, data.test_share, data.generated_seed)
    plan = plan_split(drives, split)
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        _write(partial, drives, plan, form, progress)
        finish_silos(partial, folder, plan.names, about)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _search(folder: Path, kind: str, levels: int) -> tuple[list[Path], list[Path]]:
    """Folders with drives, and those that hold none at any level."""
    if has_kind(folder, kind):
        return [folder], []
    found: list[Path] = []
    passed: list[Path] = []
    for below in filter(Path.is_dir, visible(folder) if levels else []):
        for known, more in zip((found, passed), _search(below, kind, levels - 1), strict=True):
            known += more
    if [p.name for p in found] == ["test", "train"] and all(has_kind(p, "npz") for p in found):
        passed.append(found.pop(0))
    return found, passed if found else [folder]


def _expanded(folder: Path, kind: str) -> list[Path]:
    """The folder, or its archives: numbered ones without their union."""
    if (detect_kind(folder) if kind == AUTO else kind) != "npz":
        return [folder]
    files = visible(folder, "*.npz")
    return [p for p in files if p.stem.isdecimal()] or files


def read_drives(data: DataSettings, progress: Progress = silent) -> list[Drive]:
    """Names and labels of all drives under `data.dir` (none if it is empty); InputError where they do not go together."""
    options = ReadOptions(data.angle_scale, data.angle_limit, data.angle_positive)
    drives: list[Drive] = []
    paths = find_drives(Path(data.dir), data.kind, progress) if data.dir else []
    for number, path in enumerate(paths, 1):
        drive = read_drive(path, data.kind, options)
        progress("drives read", number, len(paths))
        if drive.name in {d.name for d in drives}:
            raise InputError(
                f"{path}: a second drive with the name {drive.name}; give drives different names"
            )
        if drives and drive.unit != drives[0].unit:
            raise InputError(
                f"{path}: angles in {drive.unit}, but {drives[0].name} has {drives[0].unit}; prepare drives of one unit"
            )
        if doubt := _doubt(drive.angles / data.angle_scale):
            progress(f"{path}: all {len(drive)} angles are {doubt}; were their decimals lost?")
        drives.append(drive)
    return drives


def _doubt(angles: np.ndarray) -> str:
    """What hardly any recording is."""
    if np.ptp(angles) == 0:
        return "equal"
    off = np.abs(angles - np.rint(angles)).max()
    return "whole numbers" if off <= 1e-6 * np.abs(angles).max() else ""


def _fingerprint(drives: Sequence[Drive]) -> str:
    """Digest of all angles, and of place (links followed), size and time of every file of pictures."""
    digest = hashlib.sha256()
    for drive in drives:
        digest.update(drive.angles.tobytes())
        files = (drive.archive,) if drive.archive else drive.image_paths
        folders = {path.parent: path.parent.resolve() for path in files}
        for path in files:
            place = path.resolve() if path.is_symlink() else folders[path.parent] / path.name
            status = path.stat()
            digest.update(f"{place}\n{status.st_size}\n{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _write(
    partial: Path, drives: Sequence[Drive], plan: Plan, form: FrameFormat, progress: Progress
) -> None:
    """Angles at once, images frame by frame into their files: no silo is ever held in memory."""
    free: dict[tuple[int, int], Iterator[np.ndarray]] = {}  # places for frames, by silo and role
    for number, name in enumerate(plan.names):
        (partial / name).mkdir(parents=True)
        for split, role in zip(SPLITS, ROLES, strict=True):
            angles = [
                d.angles[(s == number) & (r == role)]
                for d, s, r in zip(drives, plan.silo, plan.role, strict=True)
            ]
            np.save(partial / name / f"{split}_angles.npy", np.concatenate(angles))
            shape = (plan.count(number, role), form.channels, form.size_px, form.size_px)
            file = partial / name / f"{split}_images.npy"
            free[number, role] = iter(open_memmap(file, "w+", np.uint8, shape))
    done, total = 0, sum(int((r > 0).sum()) for r in plan.role)
    for drive, silo_of, role_of in zip(drives, plan.silo, plan.role, strict=True):
        for row, frame in pictures(drive, role_of > 0, form):
            next(free[silo_of[row], role_of[row]])[:] = frame
            done += 1
            progress("frames of drives", done, total)
