"""What clients keep, for workers on hosts that do not have the run's folder: it comes back with every reply.

The run's folder is at the head alone. A worker elsewhere has a folder of its own, into which go, before a visit, the files
that the client keeps (clients/NAME/...) and the descriptions of the run (roster.json and the like), as far as it does not
have them already; what the visit changed there comes back with the reply and is written at the head. So the loss of a host
costs the tasks that it had, and a resume needs the head alone.
"""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message

from fedsuite.averaging.several_clients import MEMBERS
from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.runs.folder import folder_of
from fedsuite.settings.config import Value
from fedsuite.storage.deleting import TEMPORARY, delete_file
from fedsuite.storage.files import make_private, write_atomically

Stamp = tuple[int, int]  # time of the last change (ns) and size
Files = dict[str, bytes | None]  # by path inside the run's folder; None: gone
CLIENTS = "clients"
_NOT_SENT = {"run.json"}  # it changes all the time, and no client reads it


def stamps_of(folder: Path, clients: Iterable[str] = ("",)) -> dict[str, Stamp]:
    """What travels of a run's folder, with what these clients keep; by default all of them."""
    files = [*folder.glob("*.json")]
    for name in clients:
        files += (folder / CLIENTS / name).rglob("*")
    found = {}
    for file in sorted(files):
        half = any(part.endswith(".partial") for part in file.relative_to(folder).parts)
        if file.name not in _NOT_SENT and not half and file.is_file():
            stat = file.stat()
            found[file.relative_to(folder).as_posix()] = (stat.st_mtime_ns, stat.st_size)
    return found


def names_in(message: Message, context: Context, roster: Path) -> list[str]:
    """The clients that a message is for, by name: those that it sums up, the one that it names, or the node's own."""
    said = message.content.get("config")
    told: Mapping[str, object] = dict(said) if isinstance(said, ConfigRecord) else {}
    own = told.get("as-partition", context.node_config["partition-id"])
    members = read_roster(roster).members
    return [members[int(number)].name for number in str(told.get(MEMBERS, own)).split(",")]


class Kept:
    """The head's side. folder: of the run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._there: dict[int, dict[str, Stamp]] = {}  # by worker, what it has

    def anew(self, worker: int) -> None:
        """A new worker has nothing."""
        self._there[worker] = {}

    def sent(self, worker: int, message: Message, context: Context) -> Files:
        """What this worker lacks to answer a message, and what it has that is gone."""
        names = names_in(message, context, self.folder / ROSTER)
        there, here = self._there.setdefault(worker, {}), stamps_of(self.folder, names)
        files: Files = {
            name: (self.folder / name).read_bytes()
            for name, stamp in here.items()
            if there.get(name) != stamp
        }
        own = tuple(f"{CLIENTS}/{name}/" for name in names)
        gone = [name for name in there if name.startswith(own) and name not in here]
        self._there[worker] = {n: s for n, s in there.items() if n not in gone} | here
        return files | dict.fromkeys(gone)

    def received(self, worker: int, files: Mapping[str, bytes | None]) -> None:
        """Write what a visit changed. Only files of clients can: a worker describes no run."""
        there = self._there.setdefault(worker, {})
        for name, data in files.items():
            path = self.folder / name
            if not name.startswith(f"{CLIENTS}/") or ".." in Path(name).parts:
                continue
            if data is None:
                delete_file(path)
                there.pop(name, None)
                continue
            make_private(path.parent)
            write_atomically(path, bytes(data), durable=False, private=True)
            stat = path.stat()
            there[name] = (stat.st_mtime_ns, stat.st_size)


class Elsewhere:
    """A worker's side: a folder of its own, which ends with the process, and the settings that lead there."""

    def __init__(self) -> None:
        self._place = tempfile.TemporaryDirectory("", TEMPORARY, ignore_cleanup_errors=True)

    def settings(self, run_config: Mapping[str, Value]) -> tuple[dict[str, Value], Path]:
        """The run's, with this folder in the place of the head's, and where the run's is in it."""
        there = _folder(run_config)
        own = {**run_config, "results-dir": self._place.name, "resume": ""}
        here = _folder(own)
        for key, value in own.items():
            if isinstance(value, str) and value.startswith(f"{there}/"):
                own[key] = str(here / Path(value).relative_to(there))
        return own, here

    def put(self, folder: Path, files: Mapping[str, bytes | None]) -> dict[str, Stamp]:
        """Write what came; what is there then."""
        for name, data in files.items():
            path = folder / name
            if data is None:
                delete_file(path)
            else:
                make_private(path.parent)
                write_atomically(path, bytes(data), durable=False, private=True)
        return stamps_of(folder)

    def changed(self, folder: Path, before: Mapping[str, Stamp]) -> Files:
        """What a visit wrote and deleted."""
        after = stamps_of(folder)
        files: Files = {
            name: (folder / name).read_bytes() for name, s in after.items() if before.get(name) != s
        }
        return files | dict.fromkeys(name for name in before if name not in after)


def _folder(run_config: Mapping[str, Value]) -> Path:
    from simulations.systems import settings_of

    return folder_of(settings_of(run_config)[1]).path
