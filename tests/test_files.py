"""Names that become paths, folders that several processes want at once, and JSON files that are none."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedsuite.errors import InputError
from fedsuite.storage.files import locked, make_folder, path_name, read_json

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "name", ["17DRP5sb8fy", "ash tree", "São Paulo", "drive (1)", "a.b", "été"]
)
def test_names_that_are_fit_for_a_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / path_name(name, "x")).mkdir()
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../a", "/a", "a/b", "a\\b", ".a", "a\n", "a\0", " a", "a ", "\ud800", "é" * 101, 3, None]
)  # fmt: skip
def test_names_that_may_lead_elsewhere(name: object) -> None:
    with pytest.raises(InputError) as error:
        path_name(name, "here: a name")
    line = str(error.value)
    assert line.startswith("here: a name must be ") and repr(name)[:60] in line and "\n" not in line


def test_a_folder_is_there_in_full_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "a"

    def fail(partial: Path) -> None:
        partial.mkdir()
        (partial / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_folder(folder, fail)
    assert not folder.exists() and not list(tmp_path.rglob("half"))
    (folder.parent / ".a.1.partial").mkdir()
    assert make_folder(folder, lambda partial: partial.mkdir() or (partial / "x").touch())
    assert not make_folder(folder, fail) and [p.name for p in folder.iterdir()] == ["x"]
    assert {p.name for p in folder.parent.iterdir()} == {"a", ".a.lock"}


def test_a_file_is_not_replaced_by_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    assert not make_folder(tmp_path / "a", lambda partial: partial.mkdir())
    assert (tmp_path / "a").read_text() == "mine"


MAKER = """
import sys, time
from pathlib import Path
from fedsuite.storage.files import make_folder

def fill(partial):
    partial.mkdir()
    (partial / "one").touch()
    time.sleep(0.3)
    (partial / "two").touch()
    print("filled")

make_folder(Path(sys.argv[1]), fill, print)
assert {p.name for p in Path(sys.argv[1]).iterdir()} == {"one", "two"}
"""


def test_of_several_processes_one_writes_and_the_others_wait(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKER, str(tmp_path / "a")]
    running = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(4)]
    said = [process.communicate()[0].decode() for process in running]
    assert [process.returncode for process in running] == [0] * 4
    assert sum("filled" in text for text in said) == 1


def test_a_lock_is_waited_for_with_patience(tmp_path: Path) -> None:
    with locked(tmp_path / "l") as ours, locked(tmp_path / "l", 0.15) as theirs:
        assert ours and not theirs
    with locked(tmp_path / "l", 0) as ours:
        assert ours


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "{", "", b"\xff"], ids=["deep", "torn", "empty", "bytes"]
)
def test_files_that_are_no_json(tmp_path: Path, text: str | bytes) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as error:
        read_json(file, "a table", "fetch it again")
    line = str(error.value)
    assert line.startswith(f"{file}: not a table (") and line.endswith("; fetch it again")
    assert "\n" not in line
    for path, problem in ((tmp_path / "b", "no such file"), (tmp_path, "not a table")):
        with pytest.raises(InputError, match=problem):
            read_json(path, "a table", "fetch it again")
