"""Names that become paths, folders that several processes want at once, and JSON files that are none."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

from fedsuite.errors import InputError
from fedsuite.storage.files import (
    as_typed,
    check_readable,
    full_path,
    lock_of,
    locked,
    make_folder,
    make_new_folder,
    parsed_json,
    path_name,
    read_json,
    read_object,
)

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "name", ["17DRP5sb8fy", "ash tree", "São Paulo", "drive (1)", "a.b", "été", "é" * 100]
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


def test_names_that_are_fit_for_a_command_line() -> None:
    assert path_name("a-B_1.x", "x", plain=True) == "a-B_1.x"
    for name in ("ash tree", "été", "a(1)", "a'b", "a$b", "~a"):
        with pytest.raises(InputError, match=r"letters, digits, '.', '_' and '-', starting with"):
            path_name(name, "x", plain=True)


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


HOLDING = "import fcntl, sys, time; f = open(sys.argv[1], 'ab'); fcntl.flock(f, 2); print(flush=True); time.sleep(60)"

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
    command = [sys.executable, "-c", HOLDING, str(tmp_path / "l")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        Timer(0.3, other.kill).start()
        with locked(tmp_path / "l", 60) as ours:
            assert ours
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
    file.write_text("[1]")
    assert read_json(file, "a table", "fetch it again") == [1]
    with pytest.raises(InputError, match=r"not a table \(no JSON object\); fetch it again"):
        read_object(file, "a table", "fetch it again")


def test_half_a_character_is_no_text() -> None:
    """JSON can say a surrogate by itself, and no file can hold it; a pair is a character, and a backslash is one too."""
    assert parsed_json(r'{"a": "\ud83d\ude00"}') == {"a": "\U0001f600"}
    assert parsed_json(r'"\\ud800"') == r"\ud800"
    for text in (r'"\ud800"', r'["\uDFFF"]', r'{"\ude00\ud83d": 1}'):
        with pytest.raises(ValueError, match="surrogates not allowed"):
            parsed_json(text)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    found = {
        "pipe": "a pipe or a device, not a file",
        "": "a folder, not a file",
        "loop": "Too many levels",
    }
    for name, complaint in found.items():
        with pytest.raises(InputError, match=complaint) as error:
            check_readable(tmp_path / name)
        assert str(error.value).startswith(f"{tmp_path / name}: ")
    for name in ("nothing", "a\0b"):  # readers say that there is none
        check_readable(tmp_path / name)
    (tmp_path / "file").touch()
    check_readable(tmp_path / "file")


def test_a_folder_that_is_there_is_said_before_anything_is_filled(tmp_path: Path) -> None:
    folder, filled = tmp_path / "new", list[Path]()

    def fill(partial: Path) -> None:
        filled.append(partial)
        partial.mkdir()
        (partial / "x").touch()

    make_new_folder(folder, fill)
    with pytest.raises(InputError, match=f"{folder}: is there already, nothing in it was touched"):
        make_new_folder(folder, fill)
    assert len(filled) == 1 and [p.name for p in folder.iterdir()] == ["x"]
    (tmp_path / "empty").mkdir()
    make_new_folder(tmp_path / "empty", fill)


def test_whoever_waits_for_another_process_says_so(tmp_path: Path) -> None:
    said: list[str] = []

    def progress(what: str, done: int = 0, total: int = 0) -> None:
        said.append(what)
        other.kill()

    assert make_folder(tmp_path / "a", Path.mkdir, progress) and not said
    command = [sys.executable, "-c", HOLDING, str(lock_of(tmp_path / "b"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        assert make_folder(tmp_path / "b", Path.mkdir, progress)
    assert said == [f"waiting for another process that writes {tmp_path / 'b'}"]


def test_paths_as_they_are_typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("runs/a", "a b", "it's", "$HOME", "a;b", "ü"):
        assert shlex.split(as_typed(name)) == [name]
    assert as_typed("runs/a-1.toml") == "runs/a-1.toml"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert full_path("~/runs", "x") == full_path("runs", "x") == tmp_path / "runs"
    with pytest.raises(InputError, match=r"^results-dir: '~nobody-here/a' starts at a home folder"):
        full_path("~nobody-here/a", "results-dir")
