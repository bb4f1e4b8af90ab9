"""Reading all drives of a run: what the run says of them, and what drives.toml says of single ones.

drives.toml lies in data.dir and has one table a drive, by its folder's (or archive's) name:

    [monday]
    angle-unit = "degrees"     # of the numbers in its files: radians, degrees (made radians), normalised (full lock = 1),
                               # pwm (0 to 1, 0.5 is straight ahead; made normalised)
    positive = "right"         # the side that positive numbers in its files turn to
    angle-scale = 0.0625       # instead of data.angle-scale; the drive's angles are radians then
    angle-limit = 1.0          # instead of data.angle-limit
    flip-sign = true           # the sign of all angles turned round, where positive does not say it
    order = "rows"             # of its frames in time: as its rows stand, or by the names of its pictures
    steering = "action[steer]" # of a LeRobot folder: FEATURE[AXIS], or a difference of two
    camera = "observation.images.front"     # of a LeRobot folder

The table ["*"] is that of all drives without one of their own.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedsuite.driving.config import DataSettings
from fedsuite.driving.data.doubts import assumptions, doubts
from fedsuite.driving.data.finding import find_drives, find_release
from fedsuite.driving.data.readers import Drive, ReadOptions, read_drive
from fedsuite.driving.data.readers.angles import NAMED, lock_of
from fedsuite.driving.data.readers.drive import LEFT, RIGHT, name_of
from fedsuite.driving.data.row_order import NAMES, ROWS, in_time
from fedsuite.errors import InputError, suggestion
from fedsuite.settings.config import read_config, setting
from fedsuite.storage.files import check_readable
from fedsuite.storage.progress import Progress, silent

FLEET, OTHERS = "drives.toml", "*"


@dataclass(frozen=True)
class DriveSettings:
    """One table of drives.toml; empty or 0: as the run or the format has it."""

    angle_unit: str = setting("", "unit of the numbers", choices=("", *NAMED))
    angle_scale: float = setting(0.0, "factor on every angle", ge=0)
    angle_limit: float = setting(0.0, "largest angle that is believed, after scaling", ge=0)
    flip_sign: bool = setting(False, "whether the sign is turned round")
    positive: str = setting("", "the side that positive numbers turn to", choices=("", LEFT, RIGHT))
    order: str = setting("", "what tells the order of frames", choices=("", ROWS, NAMES))
    steering: str = setting("", "feature and axis of the angle")
    camera: str = setting("", "feature of the pictures")


def read_drives(data: DataSettings, progress: Progress = silent) -> list[Drive]:
    """Names and labels of all drives under `data.dir` (none if it is empty), those held out for testing at the end;
    InputError where they do not go together.
    """
    official = data.test_split == "official"
    if not data.dir:
        if official:
            raise InputError("data.test-split: official needs a release of drives; give data.dir")
        return []
    root = Path(data.dir)
    train, test = find_release(root) if official else (find_drives(root, data.kind, progress), [])
    if official:
        progress(f"test frames: those of {test[0].parent}; data.test-share is not used")
    names = [name_of(path) for path in (*train, *test)]
    fleet = read_fleet(root / FLEET, names)
    drives: list[Drive] = []
    for number, (path, name) in enumerate(zip((*train, *test), names, strict=True), 1):
        table = next((known for known in (name, OTHERS) if known in fleet), "")
        own = fleet.get(table, DriveSettings())
        options = _options(data, own, f"[{table}] of {root / FLEET}" if table else "")
        drive, note = in_time(path, read_drive(path, data.kind, options), own.order)
        if table == name and (own.steering or own.camera) and not drive.footage:
            raise InputError(
                f"{options.place}: steering and camera are for LeRobot folders, {name} is of kind {drive.kind}; remove them"
            )
        drive = _thinned(drive, data)
        progress("drives read", number, len(names))
        _check_fellow(path, drive, drives, root / FLEET)
        for line in filter(None, (*doubts(path, drive, options), *drive.notes, note)):
            progress(line)
        drives.append(replace(drive, held_out=path in test))
    for line in assumptions(drives):
        progress(line)
    return drives


def read_fleet(file: Path, names: Sequence[str]) -> Mapping[str, DriveSettings]:
    """The tables of drives.toml by drive, none if there is no such file; InputError for what is no drive or key."""
    if not (file.exists() or file.is_symlink()):
        return {}
    check_readable(file)
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: cannot be read as TOML ({error}); correct it") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise InputError(f"{file}: {name} stands in no table; write [DRIVE] above it")
        if name not in (*names, OTHERS):
            hint = suggestion(name, names)
            raise InputError(f"{file}: [{name}] is no drive of {file.parent}; {hint}")
    own = {n: read_config(DriveSettings, t, f"{file}: [{n}]") for n, t in tables.items()}
    for name in (n for n, t in own.items() if t.positive and t.flip_sign):
        raise InputError(f"{file}: [{name}]: positive says the sign already; remove flip-sign")
    return own


def _options(data: DataSettings, own: DriveSettings, place: str) -> ReadOptions:
    """What is asked of the reader of a drive."""
    return ReadOptions(
        angle_scale=own.angle_scale or data.angle_scale,
        angle_limit=own.angle_limit or data.angle_limit,
        positive=data.angle_positive,
        drop=data.bad_rows == "drop",
        unit=own.angle_unit,
        own_positive=own.positive,
        flip_sign=own.flip_sign,
        own_scale=own.angle_scale > 0,
        steering=own.steering,
        camera=own.camera,
        place=place,
    )


def _thinned(drive: Drive, data: DataSettings) -> Drive:
    """Every n-th frame of each run, and of these the first so many."""
    if data.every_nth == 1 and not data.max_frames:
        return drive
    runs = np.zeros(len(drive)) if drive.runs is None else drive.runs
    starts = np.flatnonzero(np.diff(runs, prepend=-1))
    since = np.arange(len(drive)) - np.repeat(starts, np.diff([*starts, len(drive)]))
    kept = since % data.every_nth == 0
    return drive.only(kept & (np.cumsum(kept) <= (data.max_frames or len(drive))))


def _check_fellow(path: Path, drive: Drive, others: Sequence[Drive], fleet: Path) -> None:
    if drive.name in {d.name for d in others}:
        raise InputError(
            f"{path}: a second drive with the name {drive.name}; give drives different names"
        )
    if others and drive.unit != others[0].unit:
        raise InputError(
            f"{path}: angles in {drive.unit}, but {others[0].name} has {others[0].unit}; bring them to one unit by "
            f"angle-unit and angle-scale in {fleet}, or take drives of one unit"
        )
    if others and lock_of(drive.kind, drive.unit) != lock_of(others[0].kind, others[0].unit):
        raise InputError(
            f"{path}: angles are shares of full lock {lock_of(drive.kind, drive.unit)}, those of {others[0].name} "
            f"{lock_of(others[0].kind, others[0].unit)}, which are two units; give every drive angle-scale, the radians at "
            f"its full lock, in {fleet}, or take drives of one kind of car"
        )
