"""A disk that is full, a folder that may not be written, a terminal that is closed: one line, and nothing is lost."""

import errno
import os
import pty
import shutil
import signal
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError
from safetensors.numpy import save_file

from fedsuite.runs import array_files
from fedsuite.runs.folder import RunFolder
from simulations.commands.cli import main
from simulations.engines.processes import living_processes, wait_until
from tests.harness import (
    WAIT_S,
    exit_code_of,
    results_of,
    run_toy,
    start_cli,
    wait_for_checkpoint,
    write_toml,
)
from tests.mistakes.refusing import Call, said

ROUNDS = 1
WRITES = 60  # more than such a run makes


class Disk:
    """Counts what is written below a folder; the n-th time it refuses, having taken half of what was to be written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder, self.seen, self.fails_at, self.code = folder, 0, -1, errno.ENOSPC
        self.refused = False
        open_file, open_raw = Path.open, os.open
        self.replace, self.fsync = os.replace, os.fsync
        disk = self

        def opened(path: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
            if not set(mode) & set("wax+") or path.name == ".lock" or not disk.due(path):
                return open_file(path, mode, *given, **named)
            if mode != "r+b":
                with open_file(path, "ab") as torn:
                    torn.write(b'{"torn')
            raise OSError(disk.code, os.strerror(disk.code), str(path))

        def opened_raw(path: Any, flags: int, *given: Any, **named: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR) and disk.due(Path(path)):
                raise OSError(disk.code, os.strerror(disk.code), str(path))
            return open_raw(path, flags, *given, **named)

        def replaced(source: Any, target: Any) -> None:
            if disk.due(Path(target)):
                raise OSError(disk.code, os.strerror(disk.code), str(source))
            self.replace(source, target)

        def saved(arrays: Any, file: Path, metadata: Any = None) -> None:
            if disk.due(file):
                raise SafetensorError(f"Error while serializing: (os error {disk.code})")
            save_file(arrays, file, metadata)

        def synced(descriptor: int) -> None:
            if disk.due(disk.folder):
                raise OSError(disk.code, os.strerror(disk.code))
            self.fsync(descriptor)

        monkeypatch.setattr(array_files, "save_file", saved)
        monkeypatch.setattr(Path, "open", opened)
        monkeypatch.setattr(os, "open", opened_raw)
        monkeypatch.setattr(os, "replace", replaced)
        monkeypatch.setattr(os, "fsync", synced)

    def due(self, path: Path) -> bool:
        """Whether this is the one to refuse; a full disk stays full until it is emptied."""
        if not path.is_relative_to(self.folder):
            return False
        self.seen += 1
        self.refused |= self.seen == self.fails_at
        return self.refused

    def fill(self, at: int, code: int) -> None:
        self.seen, self.fails_at, self.code, self.refused = 0, at, code, False


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return results_of(run_toy(tmp_path_factory.mktemp("whole"), num_rounds=ROUNDS))


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_disk_that_refuses_at_every_write_in_turn(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, str], code: int, part: int
) -> None:  # fmt: skip
    """One line each time; afterwards the run goes on, or begins, and ends with the bytes of an undisturbed one."""
    write_toml(tmp_path, name="run", num_rounds=ROUNDS)
    run, tried = RunFolder(tmp_path / "runs" / "run"), 0
    step = 4 if code == errno.ENOSPC else 12
    for at in range(1 + part, WRITES, step):
        with monkeypatch.context() as patch:
            if at % 2:  # as large states are written
                patch.setattr(array_files, "COPIED", 0)
            disk = Disk(patch, tmp_path)
            disk.fill(at, code)
            answer = call("run", "toy.toml")
        if not disk.refused:
            break
        tried += 1
        line = said(answer, answer[0])
        assert answer[0] == (1 if code == errno.ENOSPC else answer[0]) and answer[0] in (1, 2)
        assert os.strerror(code) in line and str(tmp_path) in line
        status = run.status().get("status")  # what it said before, or how it ended
        assert status in (None, "running", "failed") or run.model.is_file(), status
        begun = run.path.exists() and any(run.path.iterdir())
        again = call("run", "toy.toml", *(["--resume", "run"] if begun else []))
        assert (again[0], again[2]) == (0, ""), (at, again)
        assert results_of(run) == whole, at
        assert not list(run.path.rglob("*.partial"))
        shutil.rmtree(tmp_path / "runs")
    assert tried >= (8 if code == errno.ENOSPC else 2)


def test_a_stop_of_the_disk_while_tables_are_written_is_made_good(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run had ended, its table had not: resuming writes it."""
    write_toml(tmp_path, name="run", num_rounds=ROUNDS)
    write = Path.write_text

    def refuse(path: Path, *given: Any, **named: Any) -> int:
        if path.name == "closing.txt":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", refuse)
        assert "closing.txt: No space left" in said(call("run", "toy.toml"), 1)
    file = tmp_path / "runs" / "run" / "closing.txt"
    assert not file.exists()
    assert call("run", "--resume", "run")[0] == 0
    assert file.is_file()


@pytest.mark.parametrize("again", [("--resume", "run"), ("toy.toml", "--resume", "run")])
def test_a_run_that_trained_but_could_write_no_tables_says_so_and_is_finished(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, str], again: tuple[str, ...]
) -> None:  # fmt: skip
    """Where the disk is full for the tables, and for what run.json should say of them."""
    write_toml(tmp_path, name="run", num_rounds=ROUNDS)
    run, write = RunFolder(tmp_path / "runs" / "run"), Path.write_text
    with monkeypatch.context() as patch:
        disk = Disk(patch, tmp_path)

        def refuse(path: Path, *given: Any, **named: Any) -> int:
            if path.name == "closing.txt":
                disk.fill(1, errno.ENOSPC)
            return write(path, *given, **named)

        patch.setattr(Path, "write_text", refuse)
        assert "closing.txt: No space left" in said(call("run", "toy.toml"), 1)
    assert run.status()["status"] == "completed" and run.model.is_file()  # nothing else went in
    assert (run.path / "closing.txt").read_text() != "done\n"
    assert "unfinished" in call("runs", "runs", engine=False)[1]
    shown = " ".join(call("show", "run", engine=False)[1].split())
    assert "no tables yet; write them with: fedsuite run --resume" in shown
    code, _, err = call("run", *again)
    assert (code, err) == (0, "")
    assert results_of(run) == whole
    assert (run.path / "closing.txt").read_text() == "done\n"
    assert "completed" in call("runs", "runs", engine=False)[1] and not run.unfinished.exists()


@pytest.mark.parametrize("how", ["signal", "terminal"])
def test_a_closed_terminal_stops_a_run_without_loss(tmp_path: Path, how: str) -> None:
    """SIGHUP ends it as Ctrl-C does, also where nothing can be printed any more."""
    write_toml(tmp_path, name="run", num_rounds=300, round_time_s=0.02)
    keys: dict[str, Any] = {"preexec_fn": _heard}
    screen, terminal = pty.openpty()
    if how == "terminal":
        keys = {"stdin": terminal, "start_new_session": True, "preexec_fn": _own_terminal}
    process = start_cli(tmp_path, "run", "toy.toml", "--engine", "inprocess", **keys)
    os.close(terminal)
    run = RunFolder(tmp_path / "runs" / "run")
    wait_for_checkpoint(process, run, 3)
    if how == "signal":
        process.send_signal(signal.SIGHUP)
    os.close(screen)
    _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130, err
    assert "stopped; round" in err and "Traceback" not in err
    assert run.status()["status"] == "stopped"
    assert wait_until(lambda: _gone(process.pid), 15)


def _gone(pid: int) -> bool:
    """Itself and all that it has started."""
    return all(pid not in (process.pid, process.parent) for process in living_processes())


def _heard() -> None:
    """SIGHUP counts, also where these tests run under nohup, whose children ignore it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _own_terminal() -> None:
    """Standard input becomes the terminal of the session."""
    _heard()
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_folder_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Deleted, or unmounted, under a terminal that is still in it."""
    (folder := tmp_path / "gone").mkdir()
    with chdir(folder):
        folder.rmdir()
        monkeypatch.setattr(sys, "argv", ["fedsuite", "run", "fedvln/quickstart"])
        assert exit_code_of(main) == 2
    line = "error: the folder that this was started in is gone; change to another one\n"
    assert capsys.readouterr().err == line


def test_what_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """As under nohup."""
    write_toml(tmp_path, name="run", num_rounds=40, round_time_s=0.01)
    ignore = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    process = start_cli(tmp_path, "run", "toy.toml", "--engine", "inprocess", **ignore)
    wait_for_checkpoint(process, RunFolder(tmp_path / "runs" / "run"), 1)
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (0, "")
