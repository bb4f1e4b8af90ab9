"""Leaderboard files: what is written is read again, and damaged files are refused by name."""

import json

import pytest

from fedsuite.errors import InputError
from fedsuite.vln.submission import Entry, read_submission, write_submission

ENTRIES = [
    Entry("4332_0", (("a", 4.055, 0.0), ("b", 0.5, -0.5235987755982988))),
    Entry("4332_1", (("a", 0.1, 0.0),)),
]


def test_round_trip_in_the_leaderboard_format(tmp_path):
    file = tmp_path / "new" / "test.json"
    write_submission(file, iter(ENTRIES))
    assert json.loads(file.read_text()) == [
        {"instr_id": "4332_0", "trajectory": [["a", 4.055, 0.0], ["b", 0.5, -0.5235987755982988]]},
        {"instr_id": "4332_1", "trajectory": [["a", 0.1, 0.0]]},
    ]
    assert read_submission(file) == read_submission(file, ["4332_1", "4332_0"]) == ENTRIES
    assert [p.name for p in file.parent.iterdir()] == ["test.json"]


def test_a_bad_entry_leaves_the_old_file_alone(tmp_path):
    file = tmp_path / "test.json"
    write_submission(file, ENTRIES)
    with pytest.raises(InputError, match=r"entry 1 \('7_0'\): expected a trajectory"):
        write_submission(file, [ENTRIES[0], Entry("7_0", ())])
    assert read_submission(file) == ENTRIES


def row(instr_id="1_0", trajectory=None):
    return {"instr_id": instr_id, "trajectory": trajectory or [["a", 0, 0]]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "expected a list of entries, got dict"),
        ([1], r"entry 0 \(int\): expected an object"),
        ([row() | {"score": 1}], 'expected an object with "instr_id" and "trajectory"'),
        ([row(instr_id="1")], r"entry 0 \('1'\): expected an instr_id like \"4332_0\""),
        ([row(instr_id=1)], "expected an instr_id like"),
        ([row(), row()], r"entry 1 \('1_0'\): its instr_id came before"),
        ([row(trajectory="ab")], "expected a trajectory with at least the start"),
        ([row(trajectory=[["a", 0, 0], ["b", 0]])], r"pose 1: expected \[viewpoint id, heading"),
        ([row(trajectory=[["", 0, 0]])], "pose 0"),
        ([row(trajectory=[["a", "0", 0]])], "pose 0"),
        ([row(trajectory=[["a", True, 0]])], "pose 0"),
        ([row(trajectory=[["a", 0, float("nan")]])], "pose 0"),
    ],
)
def test_damaged_files(tmp_path, content, message):
    file = tmp_path / "test.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message) as caught:
        read_submission(file)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_are_absent_or_not_json(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_submission(tmp_path / "none.json")
    (tmp_path / "half.json").write_text("[{")
    with pytest.raises(InputError, match="not valid JSON"):
        read_submission(tmp_path / "half.json")


def test_files_for_other_instructions(tmp_path):
    file = tmp_path / "test.json"
    write_submission(file, ENTRIES)
    with pytest.raises(InputError, match=r"lacks 1 of 3 instr_ids, such as 5_0"):
        read_submission(file, ["4332_0", "4332_1", "5_0"])
    with pytest.raises(InputError, match="has unknown 1 of 1 instr_ids, such as 4332_1"):
        read_submission(file, {"4332_0"})
