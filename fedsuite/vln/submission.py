"""Walks as a file in the format of the R2R leaderboard (Anderson et al. 2018).

A JSON list with one entry per instruction: {"instr_id": "<path_id>_<k>", "trajectory":
[[viewpoint id, heading, elevation], ...]}; k counts the instructions of a path from 0, angles are
the camera's in radians.
"""

import json
import math
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.files import write_atomically

Pose = tuple[str, float, float]  # viewpoint id, heading (rad), elevation (rad)


@dataclass(frozen=True)
class Entry:
    """The walk for one instruction; the first pose is the start."""

    instr_id: str
    trajectory: tuple[Pose, ...]


def write_submission(path: Path, entries: Iterable[Entry]) -> None:
    """Write `path` in one go: an interrupted write leaves an earlier file untouched."""
    rows = [
        {"instr_id": e.instr_id, "trajectory": [list(p) for p in e.trajectory]} for e in entries
    ]
    _parsed(path, rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(rows).encode())


def read_submission(path: Path, expected_ids: Collection[str] | None = None) -> list[Entry]:
    """Entries of `path`; InputError if it is no submission, or not one for exactly expected_ids."""
    try:
        rows = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except ValueError as error:
        raise InputError(
            f"{path}: not valid JSON ({error}); write it with write_submission"
        ) from None
    entries = _parsed(path, rows)
    if expected_ids is not None:
        _check_complete(path, {e.instr_id for e in entries}, set(expected_ids))
    return entries


def _check_complete(path: Path, found: set[str], expected: set[str]) -> None:
    for what, ids in (("lacks", expected - found), ("has unknown", found - expected)):
        if ids:
            raise InputError(
                f"{path}: {what} {len(ids)} of {len(expected)} instr_ids, such as {min(ids)}; "
                "use the file of the same split"
            )


def _parsed(path: Path, rows: Any) -> list[Entry]:
    if not isinstance(rows, list):
        raise InputError(f"{path}: expected a list of entries, got {type(rows).__name__}")
    entries, seen = [], set()
    for number, row in enumerate(rows):
        fault = _fault(row)
        if fault is None and row["instr_id"] in seen:
            fault = "its instr_id came before; each instruction is answered once"
        if fault is not None:
            raise InputError(f"{path}: entry {number} ({_label(row)}): {fault}")
        seen.add(row["instr_id"])
        poses = tuple((v, float(h), float(e)) for v, h, e in row["trajectory"])
        entries.append(Entry(row["instr_id"], poses))
    return entries


def _label(row: Any) -> str:
    return repr(row.get("instr_id")) if isinstance(row, dict) else type(row).__name__


def _fault(row: Any) -> str | None:
    """What is wrong with one entry, None if nothing is."""
    if not isinstance(row, dict) or row.keys() != {"instr_id", "trajectory"}:
        return 'expected an object with "instr_id" and "trajectory"'
    instr_id, trajectory = row["instr_id"], row["trajectory"]
    if not isinstance(instr_id, str) or not re.fullmatch(r"\d+_\d+", instr_id):
        return 'expected an instr_id like "4332_0" (path id, underscore, number of the instruction)'
    if not isinstance(trajectory, list) or not trajectory:
        return "expected a trajectory with at least the start"
    for i, pose in enumerate(trajectory):
        if not _is_pose(pose):
            return f"pose {i}: expected [viewpoint id, heading, elevation] in radians, got {pose!r}"
    return None


def _is_pose(pose: Any) -> bool:
    if not isinstance(pose, list) or len(pose) != 3 or not isinstance(pose[0], str) or not pose[0]:
        return False
    angles = pose[1:]
    numbers = all(isinstance(a, (int, float)) and not isinstance(a, bool) for a in angles)
    return numbers and all(math.isfinite(a) for a in angles)
