"""Recorded drives, once they are read, to silos of frames: split, decode, write.

Labels and names of all drives are checked before the first image is decoded. Frames go to a temporary folder beside the
output, which takes its final name when all is written: an interrupt leaves nothing that looks finished. One frame is in
memory at a time.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from fedsuite.driving.config import DataSettings
from fedsuite.driving.data.drive_blocks import TEST, TRAIN, Plan, SplitOptions, plan_split
from fedsuite.driving.data.frames import SPLITS, WRITTEN, finish_silos, holds
from fedsuite.driving.data.readers import Drive, FrameFormat, pictures, read_picture
from fedsuite.driving.data.readers.rows import BadRows
from fedsuite.errors import InputError
from fedsuite.storage.deleting import delete
from fedsuite.storage.progress import Progress, silent

ROLES = (TRAIN, TEST)


def about_drives(drives: Sequence[Drive], data: DataSettings) -> dict[str, object]:
    """All that the silos of these drives depend on, JSON values: settings, labels, and the files that hold the pictures."""
    return {
        "source": "drives",
        "frames": [data.image_size, data.channels, data.angle_scale],
        "split": [data.num_silos, data.dirichlet, data.test_share, data.generated_seed, *([data.fold] if data.fold else [])],
        "bad-rows": data.bad_rows,
        "drives": [
            {
                "name": d.name, "kind": d.kind, "frames": len(d), "unit": d.unit, "sign": d.sign,
                "left out": d.left_out, "held out": d.held_out,
            }
            for d in drives
        ],
        "sha256": _fingerprint(drives),
    }  # fmt: skip


def prepare_drives(
    folder: Path, drives: Sequence[Drive], data: DataSettings, progress: Progress = silent
) -> None:
    """Write the silos of the drives to `folder` (layout of frames.py); nothing to do if they are there.

    With num_silos the drives in order are cut into that many silos of equal length; without, each is one. Where rows that
    cannot be read are dropped, pictures that do not decode are, too. Raises InputError.
    """
    about = about_drives(drives, data)
    if holds(folder, about):
        return
    form = FrameFormat(data.image_size, data.channels)
    if data.bad_rows == "drop":
        drives = [_decoding(drive, form, progress) for drive in drives]
    split = SplitOptions(
        data.num_silos, data.dirichlet, data.test_share, data.generated_seed, data.fold
    )
    plan = plan_split(drives, split)
    partial = folder.with_name(f".{folder.name}.partial")
    delete(partial, WRITTEN)
    try:
        _write(partial, drives, plan, form, progress)
        left_out = {drive.name: drive.left_out for drive in drives if drive.left_out}
        finish_silos(partial, folder, plan.names, about, left_out)
    finally:
        delete(partial, WRITTEN)


def _decoding(drive: Drive, form: FrameFormat, progress: Progress) -> Drive:
    """The frames whose pictures can be decoded; how many cannot is told."""
    told: list[str] = []
    good = np.ones(len(drive), bool)
    for row, path in enumerate(drive.image_paths):
        try:
            read_picture(path, form)
        except InputError as error:
            good[row] = False
            told.append(str(error).rpartition(";")[0].removeprefix(f"{path.parent}/"))
        progress(f"pictures of {drive.name} looked at", row + 1, len(drive))
    for note in BadRows(True, told).notes(Path(drive.name)):
        progress(note)
    return replace(drive.only(good), left_out=drive.left_out + len(told)) if told else drive


def _fingerprint(drives: Sequence[Drive]) -> str:
    """Digest of all angles, and of place (links followed), size and time of every file of pictures."""
    digest = hashlib.sha256()
    for drive in drives:
        digest.update(drive.angles.tobytes())
        files = drive.image_paths
        if drive.footage:
            files = drive.footage.files
            digest.update(drive.footage.about.encode())
            digest.update(b"" if drive.runs is None or drive.rows is None else drive.rows.tobytes())
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
