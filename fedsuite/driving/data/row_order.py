"""The order of a drive's frames in time, where the names of its pictures tell another one than its rows.

Blocks of neighbouring rows are held out for testing (drive_blocks.py). In a table that somebody has shuffled, neighbours in
a row are not neighbours in time, and nearly every test frame has its twin among the training frames.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedsuite.driving.data.readers import Drive

ROWS, NAMES = "rows", "names"
SHARED_FORM = (
    20  # pictures that must be called alike, on average, for their numbers to be counts or times
)
SMOOTHER = 0.8  # of what angles change from frame to frame; rows that are so much smoother are in order themselves

Key = tuple[int, tuple[int, ...]]


def in_time(path: Path, drive: Drive, order: str = "") -> tuple[Drive, str]:
    """The drive with its frames in order of time, and what is to be told ("" where rows and names agree).

    Names that differ in their numbers alone are in order of these numbers. Where rows are not, `order` says which of the
    two counts; "": the names, unless angles change much less from row to row than from name to name.
    """
    keys = _keys(drive.image_paths)
    late = _first_late(keys)
    if not late or order == ROWS:
        return drive, ""
    by_name = np.array(sorted(range(len(keys)), key=keys.__getitem__))
    rows_change, names_change = _change(drive.angles), _change(drive.angles[by_name])
    names = f"{drive.image_paths[late].name} comes after {drive.image_paths[late - 1].name}"
    if not order and rows_change < SMOOTHER * names_change:
        return drive, (
            f"{path}: {names}, but angles change less from row to row ({rows_change:.3g}) than by name "
            f'({names_change:.3g}), so rows stay as they are; order = "names" in drives.toml sorts them'
        )
    paths = tuple(drive.image_paths[i] for i in by_name.tolist())
    told = "" if order else f"{path}: rows are not in the order of their pictures ({names})"
    cure = 'are sorted by picture name; order = "rows" in drives.toml keeps them as they are'
    moved = replace(drive, angles=drive.angles[by_name], image_paths=paths)
    return moved, f"{told}: they {cure}" if told else ""


def _keys(paths: tuple[Path, ...]) -> list[Key]:
    """For every picture the form of its path, by first appearance, and the numbers in it; empty if names tell nothing."""
    forms: dict[str, int] = {}
    keys = []
    for path in map(str, paths):
        form = forms.setdefault(re.sub(r"\d+", "0", path), len(forms))
        keys.append((form, tuple(map(int, re.findall(r"\d+", path)))))
    return keys if len(forms) == 1 or len(forms) * SHARED_FORM <= len(keys) else []


def _first_late(keys: list[Key]) -> int:
    """The first row whose picture comes before an earlier one of the same form; 0 if there is none."""
    latest: dict[int, tuple[int, ...]] = {}
    for row, (form, numbers) in enumerate(keys):
        if numbers < latest.get(form, ()):
            return row
        latest[form] = numbers
    return 0


def _change(angles: np.ndarray) -> float:
    """Mean change of the angle between neighbours."""
    return float(np.abs(np.diff(angles)).mean())
