"""The processes that one launch started, found again wherever they went.

Flower and Ray start grandchildren in sessions of their own, some of which outlive their parents and rewrite their command
lines. A family is followed by descent from the first process, and by a random mark that children inherit in their
environment. A process counts as the same only with the same start time, so that a pid that is given out again is never
signalled. (Linux; elsewhere only the first process itself is known.)
"""

import os
import signal
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MARK = "FEDSUITE_LAUNCH"
# A process has its parent's environment until it has begun its own program: that of a young one is read again.
SETTLED_S = 10.0
_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A living process; started: clock ticks since boot."""

    pid: int
    started: int
    parent: int = field(compare=False)  # changes when the parent ends

    @property
    def age_s(self) -> float:
        """Seconds since it was forked."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.started / os.sysconf("SC_CLK_TCK")


class Family:
    """All processes of one launch. Call `update` now and then, so that orphans stay known."""

    def __init__(self, mark: str = "") -> None:
        self.mark = mark or uuid.uuid4().hex
        self._known: set[Process] = set()
        self._strangers: set[Process] = set()

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """This process's environment with the mark and `extra`, for the first process."""
        return {**os.environ, **extra, MARK: self.mark}

    def update(self) -> list[int]:
        """Pids of all living members."""
        living = living_processes()
        members = {p.pid for p in living if self._is_member(p)}
        while more := {p.pid for p in living if p.parent in members} - members:
            members |= more
        self._known |= {p for p in living if p.pid in members}
        return sorted(members)

    def find(self, word: str) -> int | None:
        """Pid of a member with `word` in its command line."""
        for pid in self.update():
            if word in _read(pid, "cmdline"):
                return pid
        return None

    def running(self, program: str) -> Process | None:
        """A member that runs a program of this name, by itself or by its interpreter."""
        for pid in self.update():
            words = _read(pid, "cmdline").split("\0")
            if program in map(os.path.basename, words):
                return _living(pid)
        return None

    def end(self) -> None:
        """Terminate all members, then kill those that are left."""
        for number, wait_s in ((signal.SIGTERM, 1.5), (signal.SIGKILL, 5.0)):
            for pid in self.update():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            if wait_until(lambda: not self.update(), wait_s):
                return

    def _is_member(self, process: Process) -> bool:
        if process in self._known:
            return True
        if process in self._strangers:
            return False
        marked = f"{MARK}={self.mark}" in _read(process.pid, "environ").split("\0")
        if not marked and process.age_s > SETTLED_S:
            self._strangers.add(process)
        return marked


def can_follow() -> bool:
    """Whether this system lets us see processes."""
    return _PROC.is_dir()


def living_processes() -> list[Process]:
    """All processes of the machine that have not ended."""
    found = (_living(int(entry.name)) for entry in _PROC.glob("[0-9]*"))
    return [process for process in found if process]


def _living(pid: int) -> Process | None:
    fields = _read(pid, "stat").rpartition(")")[2].split()
    ended = len(fields) <= 19 or fields[0] in "ZX"
    return None if ended else Process(pid, int(fields[19]), int(fields[1]))


def is_alive(process: Process) -> bool:
    """Whether it has not ended."""
    return _living(process.pid) == process


def wait_until(condition: Callable[[], bool], limit_s: float, pause_s: float = 0.05) -> bool:
    """Whether `condition` came true within the limit."""
    give_up = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() >= give_up:
            return False
        time.sleep(pause_s)
    return True


def _read(pid: int, name: str) -> str:
    try:
        return (_PROC / str(pid) / name).read_bytes().decode(errors="replace")
    except OSError:
        return ""  # it ended meanwhile, or belongs to someone else
