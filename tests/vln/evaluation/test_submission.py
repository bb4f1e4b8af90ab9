"""Leaderboard files: what is written has the leaderboard's form and replaces a whole file."""

import json

from fedsuite.vln.evaluation.houses import write_submission

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
