"""The folder of one run: where its files lie, who may write to it, and how the run stands.

config.json, history.jsonl, timings.jsonl, run.json, checkpoints/, model.safetensors, clients/<name>/, errors.log.
run.json: status running | completed | failed | stopped, error (one line), error-kind, versions, started, ended (UTC). One
process at a time writes: it holds a lock that the system releases when the process ends, however it ends.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedsuite.config import RunSettings, check_resumable, read_config
from fedsuite.errors import InputError
from fedsuite.files import take_lock, write_json

_VERSIONED = ("fedsuite", "flwr", "ray", "torch", "numpy")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class RunFolder:
    """Paths of a run; nothing is created by making this object."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"  # resolved, flat
        self.status_file = path / "run.json"
        self.checkpoints = path / "checkpoints"
        self.model = path / "model.safetensors"  # the server's arrays at the end of the run
        self.results = path / "results.md"  # a table that a system may leave at the end
        self.clients = path / "clients"  # their private folders (in simulation)
        self.errors = path / "errors.log"  # full texts; the history holds their last lines

    def client(self, name: str) -> Path:
        """Private folder of one client, by its own name (never by node id)."""
        return self.clients / name

    def status(self) -> dict[str, Any]:
        """Content of run.json; {} before the run has begun."""
        try:
            return dict(json.loads(self.status_file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}
        except ValueError:
            raise InputError(f"{self.status_file}: no valid JSON; delete this one file") from None

    def begin(self) -> None:
        """Status running, from now."""
        write_json(
            self.status_file,
            {"status": "running", "error": "", "error-kind": "", "started": _now(), "ended": ""}
            | {"versions": _versions()},
        )

    def end(self, status: str, error: str = "", kind: str = "") -> None:
        """Status completed, failed or stopped, with one line of error and its kind (input, run, bug)."""
        line = " ".join(error.split())
        write_json(
            self.status_file,
            {"started": _now(), "versions": _versions()}
            | self.status()
            | {"status": status, "error": line, "error-kind": kind, "ended": _now()},
        )

    def is_being_written(self) -> bool:
        """Whether a process holds the lock right now."""
        try:
            with (self.path / ".lock").open("rb+") as file:
                return not take_lock(file.fileno())
        except FileNotFoundError:
            return False

    @contextmanager
    def locked(self, patience_s: float = 0.0) -> Iterator[None]:
        """Hold the right to write here; InputError if another process still has it after `patience_s`."""
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        give_up = time.monotonic() + patience_s
        try:
            while not take_lock(descriptor):
                if time.monotonic() >= give_up:
                    raise InputError(
                        f"{self.path}: another process is writing to this run; stop it first or use another name"
                    )
                time.sleep(0.1)
            yield
        finally:
            os.close(descriptor)


def folder_of(settings: RunSettings) -> RunFolder:
    """Where the run of these settings writes: the folder to resume, else results-dir/name."""
    if settings.resume:
        return RunFolder(Path(settings.resume).expanduser().absolute())
    name = settings.name or settings.system.replace(":", ".")
    if not _NAME.fullmatch(name):
        raise InputError(
            f"name must be letters, digits, '.', '_' and '-', starting with a letter or digit, got {name!r}"
        )
    return RunFolder(Path(settings.results_dir).expanduser().absolute() / name)


def read_stored_config(folder: RunFolder) -> Mapping[str, Any]:
    """The flat configuration that a run was made with."""
    try:
        stored = json.loads(folder.config.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{folder.path}: no run to resume here (no config.json); `fedsuite runs` lists the runs"
        ) from None
    except ValueError:
        raise InputError(f"{folder.config}: no valid JSON; start the run again") from None
    return dict(stored)


def check_folder(folder: RunFolder, settings: RunSettings) -> None:
    """Refuse to write over a run, and to resume one with settings that would change its results."""
    if not settings.resume:
        if folder.status() or folder.config.exists():
            raise InputError(
                f"{folder.path}: a run of this name is there already; continue it with --resume "
                f"{folder.path}, choose another name, or replace it with --overwrite"
            )
        return
    stored = read_config(type(settings), read_stored_config(folder), str(folder.config))
    check_resumable(stored, settings, str(folder.path))


def variant_of(label: str) -> str:
    """The variant that a run of an experiment belongs to; "" where only seeds differ."""
    variant, _, last = label.rpartition("/")
    return variant or ("" if re.fullmatch(r"seed-\d+", last) else last)


def _versions() -> dict[str, str]:
    found = {}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
