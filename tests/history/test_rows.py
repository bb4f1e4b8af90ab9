from pathlib import Path

import pytest

from fedsuite.errors import InputError
from fedsuite.history import HISTORY, HistoryWriter, finite_metrics, load_runs, read_rows
from fedsuite.history.rows import FIELDS
from fedsuite.settings.metrics import COLUMNS

CLIENT = {"partition": 0, "name": "oak", "task": "train", "status": "ok"}


def rows_of(round: int) -> list[dict]:
    return [
        {"round": round, "kind": "client", **CLIENT, "metrics": {"loss": 0.1 * round}},
        {"round": round, "kind": "round", "metrics": {"loss": 0.1 * round, "a": 1.0}},
    ]


def write(path: Path, rounds: range, closing: int | None = None) -> HistoryWriter:
    writer = HistoryWriter(path)
    for number in rounds:
        writer.append(rows_of(number))
    if closing is not None:
        last = {"round": closing, "kind": "closing-client", **CLIENT, "metrics": {"sr": 0.5}}
        writer.append([last])
        writer.append([{"round": closing, "kind": "closing", "metrics": {"sr": 0.5}}])
    return writer


def test_cut_back_and_go_on_gives_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "whole", range(6), closing=5)
    writer = write(tmp_path / "cut", range(4), closing=3)
    with writer.path.open("a") as file:
        file.write('{"round": 4, "kind": "cli')  # died while writing
    writer.truncate(2)
    writer.append(row for number in range(3, 6) for row in rows_of(number))
    writer.append([{"round": 5, "kind": "closing-client", **CLIENT, "metrics": {"sr": 0.5}}])
    writer.append([{"round": 5, "kind": "closing", "metrics": {"sr": 0.5}}])
    assert (tmp_path / "cut").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_somebody_took_away_is_begun_again(tmp_path: Path, replaced: bool) -> None:
    """The writer keeps its file open, and writes to what is at its path all the same."""
    writer = write(tmp_path / "h", range(2))
    writer.path.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").unlink()
    if replaced:
        (tmp_path / "h").write_text("{}\n")
    writer.append(rows_of(2))
    assert len((tmp_path / "h").read_text().splitlines()) == 2 + replaced


def test_truncating_to_nothing_leaves_an_empty_file(tmp_path: Path) -> None:
    writer = write(tmp_path / "h", range(1, 3))
    writer.truncate(0)
    assert writer.path.read_bytes() == b""


def test_truncating_a_file_that_is_not_there_is_fine(tmp_path: Path) -> None:
    HistoryWriter(tmp_path / "none").truncate(3)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("line", ["garbage", "[1]", '{"kind": "round"}', '{"round": 1}'])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text('{"round": 0, "kind": "round", "metrics": {}}\n' + line + "\n")
    with pytest.raises(InputError, match=r"h\.jsonl: line 2 is damaged"):
        read_rows(path, torn_end=True)


def test_a_torn_end_is_an_error_unless_expected(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text('{"round": 0, "kind": "round", "metrics": {}}\n{"round"')
    assert len(read_rows(path, torn_end=True)) == 1
    with pytest.raises(InputError, match="line 2"):
        read_rows(path)


def test_not_finite_never_enters(tmp_path: Path) -> None:
    assert finite_metrics({"a": 1}) == {"a": 1.0}
    with pytest.raises(ValueError, match="metric b is inf"):
        finite_metrics({"a": 1.0, "b": float("inf")})
    assert {"run", *FIELDS} == COLUMNS
    with pytest.raises(ValueError, match="metric run is called as a column of the history"):
        finite_metrics({"a": 1.0, "run": 2.0})
    with pytest.raises(ValueError, match="JSON"):
        HistoryWriter(tmp_path / "h").append([{"round": 1, "kind": "round", "x": float("nan")}])


def test_frames(tmp_path: Path) -> None:
    for name, rounds in (("b", 3), ("a", 2)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / HISTORY, range(rounds), closing=rounds - 1)
    frames = load_runs(tmp_path)
    assert list(frames.rounds["run"]) == ["a"] * 2 + ["b"] * 3
    assert list(frames.rounds.columns) == ["run", "round", "loss", "a"]
    assert list(frames.clients["partition"]) == [0] * 5
    assert list(frames.closing["sr"]) == [0.5, 0.5]
    assert len(frames.closing_clients) == 2
    assert len(load_runs([tmp_path / "b"]).rounds) == 3
    assert len(load_runs(str(tmp_path / "a")).rounds) == 2


def test_folders_without_runs_are_complained_about(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no runs in this folder"):
        load_runs(tmp_path)
    with pytest.raises(InputError, match="no such run folder"):
        load_runs(tmp_path / "none")
