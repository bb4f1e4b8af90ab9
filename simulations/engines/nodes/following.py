"""How a run goes that is carried out by another process, from the files of its folder."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError, RunFailed
from fedsuite.history import TIMINGS, OnEvent
from fedsuite.runs.folder import RunFolder


class Follower:
    """To be made before the run is started: what is there then is of an earlier one. begun: it is the run's own."""

    def __init__(self, folder: RunFolder, begun: bool = False) -> None:
        self.folder = folder
        self._before = None if begun else _stamp(folder.status_file)
        self._tail = Tail(folder.path / TIMINGS)

    @property
    def has_begun(self) -> bool:
        return _stamp(self.folder.status_file) != self._before

    def state(self, on_event: OnEvent) -> Mapping[str, Any]:
        """Content of run.json, {} before the run has begun; all that was written before it ended is passed on."""
        if not self.has_begun:
            return {}
        state = self.folder.status()
        for row in self._tail.rows():
            on_event(row)
        return state


def raise_failure(folder: RunFolder, state: Mapping[str, Any]) -> None:
    """The error that a run has failed with, as its server wrote it down; nothing if it has not."""
    if state.get("status") != "failed":
        return
    error = str(state.get("error", ""))
    known = {"input": InputError(error), "run": RunFailed(error)}
    bug = RunFailed(f"{error} (traceback: {folder.errors})")
    raise known.get(str(state.get("error-kind")), bug)


class Tail:
    """A growing JSONL file: `rows()` gives what is new since the last call, all of it if the file was replaced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode, self._offset = 0, 0

    def rows(self) -> list[dict[str, Any]]:
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())  # of what was opened, which may be replaced by now
                if found.st_ino != self._inode or found.st_size < self._offset:
                    self._inode, self._offset = found.st_ino, 0
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        end = data.rfind(b"\n") + 1
        self._offset += end
        return [json.loads(line) for line in data[:end].splitlines()]


def _stamp(path: Path) -> tuple[int, int] | None:
    """Tells one writing of a file from another; None if it is not there."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns
