"""Leaderboard files: what is written has the leaderboard's form and replaces a whole file."""

import json
from math import pi

import pytest

from fedsuite.vln.evaluation.houses import poses_of, write_submission

WALKS = {
    "4332_0": [("a", 4.055, 0.0), ("b", 0.5, -0.5235987755982988)],
    "4332_1": [("a", 0.1, 0.0)],
}


def test_the_leaderboard_format(tmp_path):
    file = tmp_path / "new" / "test.json"
    for walks in ({}, WALKS):
        write_submission(file, walks)
    assert json.loads(file.read_text()) == [
        {"instr_id": "4332_0", "trajectory": [["a", 4.055, 0.0], ["b", 0.5, -0.5235987755982988]]},
        {"instr_id": "4332_1", "trajectory": [["a", 0.1, 0.0]]},
    ]
    assert [p.name for p in file.parent.iterdir()] == ["test.json"]


def test_poses_are_those_of_the_views() -> None:
    """View 12 e + h looks h twelfths of a turn to the right, and up by e - 1 of the same."""
    poses = poses_of(["a", "b", "c", "d"], [0, 11, 15, 35])
    assert [p[0] for p in poses] == ["a", "b", "c", "d"]
    want = [(0, -pi / 6), (11 * pi / 6, -pi / 6), (3 * pi / 6, 0), (11 * pi / 6, pi / 6)]
    for pose, angles in zip(poses, want, strict=True):
        assert pose[1:] == pytest.approx(angles)
    with pytest.raises(ValueError, match="shorter"):
        poses_of(["a", "b"], [0])
