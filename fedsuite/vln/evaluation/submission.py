"""Walks as a file in the format of the R2R leaderboard (Anderson et al. 2018).

A JSON list with one entry per instruction: {"instr_id": "<path_id>_<k>", "trajectory":
[[viewpoint id, heading, elevation], ...]}; k counts the instructions of a path from 0, angles are
the camera's in radians.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedsuite.files import write_atomically

Pose = tuple[str, float, float]  # viewpoint id, heading (rad), elevation (rad)


def write_submission(path: Path, walks: Mapping[str, Sequence[Pose]]) -> None:
    """instr_id -> walk from the start, in one go: an interrupted write leaves an earlier file untouched."""
    rows = [{"instr_id": name, "trajectory": poses} for name, poses in walks.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(rows).encode())
