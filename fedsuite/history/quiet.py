"""Whether something new has been written into the folders of runs, from sizes and times of files alone.

That works on a copy and on a folder of another machine as well, where locks tell nothing and clocks may differ: what
counts is how long this process has seen no change.
"""

import time
from collections.abc import Iterable
from pathlib import Path

from fedsuite.history.rows import HISTORY, TIMINGS
from fedsuite.runs.folder import RunFolder

_Stamp = tuple[tuple[int, int, int] | None, ...]


class Changes:
    """`came` tells of changes since it was last asked; quiet_s: seconds since the last one was seen."""

    def __init__(self, folders: Iterable[Path]) -> None:
        runs = [RunFolder(folder) for folder in folders]
        self._files = [
            file
            for run in runs
            for file in (run.path / HISTORY, run.path / TIMINGS, run.status_file)
        ]
        self._seen: _Stamp | None = None
        self._since = time.monotonic()

    def came(self) -> bool:
        """Whether a file has changed since the last call; the first one says yes."""
        if (now := tuple(map(_stamp, self._files))) == self._seen:
            return False
        self._seen, self._since = now, time.monotonic()
        return True

    @property
    def quiet_s(self) -> float:
        return time.monotonic() - self._since


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """Tells one state of a file from another; None if it is not there."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
