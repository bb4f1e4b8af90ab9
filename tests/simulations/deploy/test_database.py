"""A SuperLink's database becomes smaller, and says what it said before."""

import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fedsuite.storage.files import locked
from tests.deployment import new_kit

Call = Callable[..., tuple[int, str, str]]
MB, MESSAGES = 1_000_000, 12


def opened(file: Path) -> sqlite3.Connection:
    """As Flower does it."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Nodes, and the emptied place of a run's messages."""
    file = new_kit(tmp_path / "kit") / "server" / "superlink.db"
    file.touch(0o600)
    with closing(opened(file)) as connection:
        connection.execute("CREATE TABLE node (name TEXT)")
        connection.execute("CREATE TABLE objects (content BLOB)")
        connection.executemany("INSERT INTO node VALUES (?)", [("oak",), ("elm",)])
        for _ in range(MESSAGES):
            connection.execute("INSERT INTO objects VALUES (zeroblob(?))", (MB,))
        connection.execute("DELETE FROM objects")
    return file


def rows(file: Path) -> list[tuple[str]]:
    with closing(opened(file)) as connection:
        return connection.execute("SELECT name FROM node").fetchall()


def test_what_is_empty_is_given_back(database: Path, call: Call) -> None:
    before = database.read_bytes()
    assert len(before) > MESSAGES * MB
    code, out, err = call("deploy", "prune", "kit/server", "--dry-run", engine=False)
    assert (code, err) == (0, "") and "12.0 MB of it empty: would be given back" in out
    assert database.read_bytes() == before
    code, out, err = call("deploy", "prune", "kit/server", engine=False)
    assert (code, err) == (0, "") and "MB before, 0.0 MB now" in out
    assert database.stat().st_size < MB / 10 and rows(database) == [("oak",), ("elm",)]
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    names = {path.name for path in database.parent.glob("superlink.db*")}
    assert names == {"superlink.db"}


def test_what_a_killed_superlink_had_not_written_into_it_yet_is_kept(
    database: Path, tmp_path: Path, call: Call
) -> None:
    """It lies in the log beside the database, which a process that is killed leaves there."""
    with closing(opened(database)) as connection:
        connection.execute("INSERT INTO node VALUES ('ash')")
        left = {p: p.read_bytes() for p in database.parent.glob("superlink.db*")}
    for path, data in left.items():
        path.write_bytes(data)
    assert database.with_name("superlink.db-wal").stat().st_size
    assert call("deploy", "prune", "kit/server", engine=False)[0] == 0
    assert not database.with_name("superlink.db-wal").exists()
    assert rows(database) == [("oak",), ("elm",), ("ash",)]


def test_a_database_in_use_stays(database: Path, call: Call) -> None:
    before = database.read_bytes()
    with locked(database.with_name(".lock")) as ours:  # as `fedsuite deploy server` does
        assert ours
        code, _, err = call("deploy", "prune", "kit/server", engine=False)
        assert code == 2 and "stop it between two runs" in err and err.count("\n") == 1
        assert call("deploy", "prune", "kit/server", "--dry-run", engine=False)[0] == 0
    with closing(opened(database)) as connection:  # as a SuperLink that was started without us
        connection.execute("BEGIN IMMEDIATE")
        code, _, err = call("deploy", "prune", "kit/server", engine=False)
        assert code == 2 and "end whatever else reads it" in err and err.count("\n") == 1
    assert database.read_bytes() == before


def test_what_is_no_database_stays(database: Path, call: Call) -> None:
    database.write_text("three years" * 1000, encoding="utf-8")
    code, _, err = call("deploy", "prune", "kit/server", engine=False)
    assert code == 2 and "superlink.db: SQLite cannot rewrite it" in err and err.count("\n") == 1
    assert database.read_text(encoding="utf-8") == "three years" * 1000
    database.unlink()
    code, out, _ = call("deploy", "prune", "kit/server", engine=False)
    assert code == 0 and "superlink.db: no such file" in out and not database.exists()


def test_options_for_a_nodes_state_are_not_for_a_database(database: Path, call: Call) -> None:
    for options in (("--idle-days", "1"), ("--run", "0" * 32)):
        code, _, err = call("deploy", "prune", "kit/server", *options, engine=False)
        assert code == 2 and "are for a node's state" in err and err.count("\n") == 1
