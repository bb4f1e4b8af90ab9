"""The processes that one launch started, found again wherever they went.

Flower and Ray start grandchildren in sessions of their own, some of which outlive their parents for a while. Every one of
them inherits the environment of the first, so a random mark in it tells ours from all others: only marked processes are ever
signalled, by pid. (Linux; on other systems only the first process itself is known.)
"""

import ctypes
import os
import signal
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

MARK = "FEDSUITE_LAUNCH"
_PR_SET_PDEATHSIG = 1
_PROC = Path("/proc")


def new_mark() -> str:
    """A mark that no other launch has."""
    return uuid.uuid4().hex


def marked_processes(mark: str) -> dict[int, str]:
    """Pid -> command line of all living processes that carry the mark."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for entry in _PROC.glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                if command:  # a zombie has none
                    found[int(entry.name)] = command
        except (OSError, ValueError):
            continue  # it ended meanwhile, or belongs to someone else
    return found


def end_marked(mark: str, patience_s: float = 6.0) -> None:
    """Wait for marked processes to end by themselves, then terminate, then kill what is left."""
    for number, wait_s in ((None, patience_s), (signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        for pid in marked_processes(mark):
            if number is not None:
                _signal(pid, number)
        if wait_until(lambda: not marked_processes(mark), wait_s):
            return


def wait_until(condition: Callable[[], bool], limit_s: float, pause_s: float = 0.05) -> bool:
    """Whether `condition` came true within the limit."""
    give_up = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() >= give_up:
            return False
        time.sleep(pause_s)
    return True


def is_alive(pid: int) -> bool:
    """Whether a process with this pid runs; one that has ended but was not waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    stat = _PROC / str(pid) / "stat"
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return not _PROC.is_dir()


def marked_environment(mark: str, extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with the mark and `extra`."""
    return {**os.environ, **extra, MARK: mark}


def end_with_parent() -> Callable[[], None] | None:
    """What a child must call first so that it is terminated when its parent is killed; None where that is impossible."""
    if not _PROC.is_dir():
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def ask_kernel() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we could ask
            os._exit(1)

    return ask_kernel


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
