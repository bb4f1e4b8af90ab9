"""The folder of one run: where its files lie, who may write to it, and how the run stands.

config.json, metrics.json, history.jsonl, timings.jsonl, run.json, run-key, checkpoints/, model.safetensors,
ledger.jsonl (with differential privacy), clients/<name>/, errors.log; during a round spill/.
run.json: status running | completed | failed | stopped, error (one line), error-kind, versions (made_with.py), started,
ended (UTC), placement (engine, workers, GPUs), nodes (by name, what real nodes run on). One process at a time writes: it
holds a lock that the system releases when the process ends, however it ends. A file .unfinished lies there from before the
training until the last table is written, for a full disk takes no other word of it.
"""

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError, one_line
from fedsuite.runs.made_with import carried_on, versions_here
from fedsuite.settings.config import RunSettings, limits_of, read_config, to_flat
from fedsuite.settings.values import shown
from fedsuite.storage.files import (
    as_typed,
    full_path,
    is_locked,
    locked,
    path_name,
    read_object,
    telling,
    write_atomically,
    write_json,
)

_KEY = re.compile(r"[0-9a-f]{32}")
# All that a run writes but for what its system leaves (System.leaves), as fedsuite.storage.deleting takes names.
WRITTEN = (
    "config.json", "run.json", "run-key", "roster.json", "vocabulary.json", "metrics.json", ".lock", ".unfinished",
    "history.jsonl", "timings.jsonl", "ledger.jsonl", "model.safetensors", "results.md", "audit.csv", "audit.md",
    "errors.log", "flower.log",
    *(f"{place}/round-[0-9]*.safetensors" for place in ("checkpoints", "clients/*", "clients/*/*")),
    *(f"{place}/ledger.jsonl" for place in ("clients/*", "clients/*/*")),
    *(f"{place}/aside-round-[0-9]*.safetensors" for place in ("clients/*", "clients/*/*")),
    "spill/*.numbers",
    *("ray-logs/*", "ray-logs/*/*", "ray-logs/*/*/*"),
)  # fmt: skip
_BEFORE = (".lock", ".unfinished", "run.json", "run-key", "roster.json", ".*.partial")
# Entries of run.json that are objects; those of nodes, too.
_TABLES = ("versions", "placement", "nodes")
_GLANCE_S = 0.5  # longer than another process takes to see whether a lock is free
_BUSY = "another process is writing to this run; stop it first or use another name"


class RunFolder:
    """Paths of a run; nothing is created by making this object."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"  # resolved, flat
        self.status_file = path / "run.json"
        self.checkpoints = path / "checkpoints"
        self.model = path / "model.safetensors"  # the server's arrays at the end of the run
        self.spill = path / "spill"  # replies of the round under way that are not held in memory
        self.results = path / "results.md"  # a table that a system may leave at the end
        self.clients = path / "clients"  # their private folders (in simulation)
        self.errors = path / "errors.log"  # full texts; the history holds their last lines
        self.unfinished = path / ".unfinished"  # the command line has yet to write its tables

    def client(self, name: str) -> Path:
        """Private folder of one client, by its own name (never by node id)."""
        return self.clients / name

    def run_key(self) -> str:
        """What real nodes keep their private state of this run under: drawn once, the same when the run is resumed.

        No other run has it, whatever its name and server, nor can guess it. No result depends on it.
        """
        file = self.path / "run-key"
        if not file.exists():
            write_atomically(file, secrets.token_hex(16).encode(), private=True)
        with telling(file):
            return checked_key(file.read_text(errors="replace").strip(), str(file))

    def status(self) -> dict[str, Any]:
        """Content of run.json; {} before the run has begun."""
        if not self.status_file.exists():
            return {}
        what, cure = "how a run stands", "delete this one file"
        found = read_object(self.status_file, what, cure)
        tables = [(name, found[name]) for name in _TABLES if name in found]
        if isinstance(nodes := found.get("nodes"), dict):
            tables += nodes.items()
        if odd := [name for name, own in tables if not isinstance(own, dict)]:
            raise InputError(f"{self.status_file}: not {what} ({odd[0]} is no object); {cure}")
        return found

    def is_completed(self) -> bool:
        """Whether the run has ended well, its tables with it."""
        return self.status().get("status") == "completed" and not self.unfinished.exists()

    def never_began(self) -> bool:
        """Whether all that is here is what a run leaves that was killed before its settings were written."""
        return ".lock" in (names := self._names()) and _all_before(names)

    def is_beginning(self) -> bool:
        """Whether a process has prepared this folder for a run whose server has yet to take its lock."""
        return ".unfinished" in (names := self._names()) and _all_before(names)

    def _names(self) -> set[str]:
        return {path.name for path in self.path.iterdir()} if self.path.is_dir() else set()

    def begin(self, placement: Mapping[str, Any] | None = None, resumed: bool = False) -> None:
        """Status running, from now; placement: the engine, and the workers and GPUs that it uses, where known."""
        versions = self._carried_on()[0] if resumed else versions_here()
        write_json(
            self.status_file,
            {"status": "running", "error": "", "error-kind": "", "started": _now(), "ended": ""}
            | {"versions": versions}
            | ({"placement": placement} if placement else {}),
        )

    def other_versions(self) -> str:
        """A line where this run, resumed now, goes on with packages of other versions than before; "" if it does not."""
        return self._carried_on()[1]

    def _carried_on(self) -> tuple[dict[str, str], str]:
        before: object = {}
        with suppress(InputError):  # a file that cannot be read is written anew
            before = self.status().get("versions")
        return carried_on(before, versions_here())

    def end(self, status: str, error: str = "", kind: str = "") -> None:
        """Status completed, failed or stopped, with one line of error and its kind (input, run, bug)."""
        line = " ".join(error.split())
        write_json(
            self.status_file,
            {"started": _now(), "versions": versions_here()}
            | self.status()
            | {"status": status, "error": line, "error-kind": kind, "ended": _now()},
        )

    def note(self, **about: Any) -> None:
        """Add to run.json what has become known of the run."""
        write_json(self.status_file, self.status() | about)

    def log_error(self, whose: str, text: str) -> None:
        """Add an error's full text to errors.log: its last 20,000 characters, made fit to be shown."""
        lines = "\n".join(map(one_line, text.rstrip()[-20_000:].splitlines()))
        with telling(self.errors), self.errors.open("a", encoding="utf-8") as file:
            file.write(f"--- {whose}\n{lines}\n")

    def is_being_written(self) -> bool:
        """Whether a process holds the lock right now."""
        return (lock := self.path / ".lock").exists() and is_locked(lock)

    def check_free(self) -> None:
        """InputError if another process holds the lock."""
        if self.is_being_written():
            raise InputError(f"{self.path}: {_BUSY}")

    @contextmanager
    def locked(self, patience_s: float = _GLANCE_S) -> Iterator[None]:
        """Hold the right to write here; InputError if another process still has it after `patience_s`."""
        with telling(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path / ".lock", patience_s) as ours:
            if not ours:
                raise InputError(f"{self.path}: {_BUSY}")
            yield


def _all_before(names: set[str]) -> bool:
    """Whether these are names of files that a run has before its settings are written."""
    return all(any(fnmatch(name, mask) for mask in _BEFORE) for name in names)


def checked_key(key: object, where: str) -> str:
    """`key` if it may be a run's; InputError, which starts with `where`, if not."""
    if isinstance(key, str) and _KEY.fullmatch(key):
        return key
    said = one_line(repr(key), 60)
    raise InputError(
        f"{where}: expected a run's key, 32 digits from 0 to f, got {said}; put it back from a copy"
    )


def folder_of(settings: RunSettings) -> RunFolder:
    """Where the run of these settings writes: the folder to resume, else results-dir/name."""
    if settings.resume:
        return RunFolder(full_path(settings.resume, "resume"))
    name = path_name(settings.name or settings.system.replace(":", "."), "name", plain=True)
    return RunFolder(full_path(settings.results_dir, "results-dir") / name)


def read_stored_config(folder: RunFolder) -> Mapping[str, Any]:
    """The flat configuration that a run was made with."""
    cure = "there is no run to resume here; `fedsuite runs` lists the runs"
    if folder.config.exists():
        cure = "put it back from a copy, or move this folder away"
    return read_object(folder.config, "the settings of a run", cure)


def check_folder(folder: RunFolder, settings: RunSettings) -> None:
    """Refuse to write over a run, and to resume one with settings that would change its results."""
    if not settings.resume:
        if (folder.status() and not folder.never_began()) or folder.config.exists():
            raise InputError(
                f"{folder.path}: a run of this name is there already; continue it with --resume "
                f"{as_typed(folder.path)}, choose another name, or replace it with --overwrite"
            )
        return
    stored = read_config(type(settings), read_stored_config(folder), str(folder.config))
    check_resumable(stored, settings, str(folder.path))


def variant_of(label: str) -> str:
    """The variant that a run of an experiment belongs to; "" where only seeds differ."""
    variant, _, last = label.rpartition("/")
    return variant or ("" if re.fullmatch(r"seed-\d+", last) else last)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def check_resumable(stored: object, wanted: object, source: str) -> None:
    """Refuse to resume a run (`stored`, named by `source`) with settings that would change its results."""
    limits = limits_of(type(wanted))
    before, now = to_flat(stored), to_flat(wanted)
    for key, value in now.items():
        if not limits[key].may_change and before[key] != value:
            raise InputError(
                f"{source}: cannot resume with {key} = {shown(value)}, the run was made with "
                f"{shown(before[key])}; put the old value back or start a new run"
            )
    paced = wanted.paced_by if isinstance(wanted, RunSettings) else ""
    if paced and before["num-rounds"] != now["num-rounds"]:
        raise InputError(
            f"{source}: cannot resume with num-rounds = {now['num-rounds']}, the run was made with {before['num-rounds']}, "
            f"over which {paced} = {shown(now[paced])} is spread; put the old value back or start a new run"
        )
