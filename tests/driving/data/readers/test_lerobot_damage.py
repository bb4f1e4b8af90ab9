"""LeRobot folders with a column, a row or a picture that is missing or of another kind: one line, and no traceback."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedsuite.driving.data.readers import pictures, read_drive
from tests.driving.data.readers.test_lerobot import DATA, EPISODES, FORM, TOLD, refusal
from tests.lerobot_folders import CAMERA, edit, png, write_lerobot


def without(file: Path, name: str) -> None:
    pq.write_table(pq.read_table(file).drop_columns([name]), file)


def in_place_of(file: Path, name: str, column: pa.Array) -> None:
    table = pq.read_table(file)
    pq.write_table(table.set_column(table.column_names.index(name), name, column), file)


@pytest.mark.parametrize(
    ("file", "name"),
    [(EPISODES, "length"), (EPISODES, f"videos/{CAMERA}/from_timestamp"), (DATA, "timestamp"), (DATA, "action")],
)  # fmt: skip
def test_a_column_that_is_missing(tmp_path, file, name) -> None:
    folder = write_lerobot(tmp_path / "car")
    without(folder / file, name)
    assert refusal(folder) == f"{folder / file}: no column {name}; fetch the file again"


@pytest.mark.parametrize(
    ("file", "name", "values"),
    [(EPISODES, "length", ["a", "b", "c"]), (DATA, "timestamp", ["now"] * 34), (DATA, "action", ["a"] * 34)],
)  # fmt: skip
def test_a_column_of_texts(tmp_path, file, name, values) -> None:
    folder = write_lerobot(tmp_path / "car")
    in_place_of(folder / file, name, pa.array(values))
    assert refusal(folder).startswith(f"{folder / file}: column {name} holds no numbers (")


def test_more_rows_than_the_description_says(tmp_path) -> None:
    """A small file may say that it holds a billion, so none of them is read."""
    folder = write_lerobot(tmp_path / "car")
    table = pq.read_table(folder / DATA)
    pq.write_table(pa.concat_tables([table, table]), folder / DATA)
    assert f"{DATA}: 68 rows, at most 34 are expected" in refusal(folder)
    lines = pq.read_table(folder / EPISODES)
    pq.write_table(pa.concat_tables([lines, lines]), folder / EPISODES)
    assert f"{EPISODES}: 6 rows, at most 3 are expected" in refusal(folder)


def test_several_numbers_where_one_is_expected(tmp_path) -> None:
    folder = write_lerobot(tmp_path / "car")
    in_place_of(folder / DATA, "timestamp", pa.array([[0.0, 0.1]] * 34))
    assert f"{DATA}: more than 1 numbers a row in timestamp" in refusal(folder)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_no_episodes_or_none_with_rows(tmp_path, version) -> None:
    folder = write_lerobot(tmp_path / "car", version=version)
    lines = folder / "meta" / "episodes.jsonl"
    if version == "v3.0":
        table = pq.read_table(folder / EPISODES)
        pq.write_table(table.set_column(1, "length", pa.array([0, 0, 0])), folder / EPISODES)
        edit(folder / EPISODES, **{f"videos/{CAMERA}/to_timestamp": lambda own: [0.0, 1.2, 0.0]})
    else:
        told = [{"episode_index": e, "length": 0} for e in range(3)]
        lines.write_text("\n".join(map(json.dumps, told)))
    assert "no episodes with rows; fetch the folder again" in refusal(folder)
    if version == "v3.0":
        pq.write_table(table.slice(0, 0), folder / EPISODES)
    else:
        lines.write_text("")
    assert "no episodes with rows; fetch the folder again" in refusal(folder)


@pytest.mark.parametrize(
    "line",
    ["[]", "null", "{", '{"episode_index": 0}', '{"episode_index": "0", "length": 7}', '{"episode_index": -1, "length": 7}',
     '{"episode_index": 0, "length": 1.5}', "[" * 5000],
)  # fmt: skip
def test_a_line_that_is_no_episode(tmp_path, line) -> None:
    folder = write_lerobot(tmp_path / "car", version="v2.1")
    file = folder / "meta" / "episodes.jsonl"
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([first, line, *rest]))
    assert (
        refusal(folder) == f"{file}: line 2 has no episode_index and length; fetch the file again"
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [({"bytes": None, "path": "images/0.png"}, "holds no picture"), (None, "holds no picture"),
     ({"bytes": png(7)[:60], "path": None}, "row 4")],
)  # fmt: skip
def test_a_row_without_its_picture(tmp_path, entry: Any, said: str) -> None:
    folder = write_lerobot(tmp_path / "car", embedded=True)
    own = pq.read_table(folder / DATA).column(CAMERA).to_pylist()
    in_place_of(folder / DATA, CAMERA, pa.array([*own[:4], entry, *own[5:]]))
    message = refusal(folder)
    assert message.startswith(f"{folder / DATA}: row 4") and said in message
    drive = read_drive(folder, "lerobot", TOLD)
    wanted = np.ones(len(drive), bool)
    wanted[4] = False
    assert (
        len(dict(pictures(drive, wanted, FORM))) == 33
    )  # a picture that nobody asks for is not looked at
