"""Flower's SuperNode, asking for messages more often than every 3 seconds while there are some, and more seldom while not.

    python -m simulations.deploy.polling SECONDS PROGRAM ARGUMENT ...

A SuperNode without work sleeps 3 s, and up to 0.5 s where it waits for its own clients' answers; Flower has no setting
for it (1.41, 1.42). Here the loop has a clock of its own. It sleeps SECONDS while messages come, and after the last one a
twentieth of the time that has passed since, up to 10 s: each question costs the SuperLink a signed request over TLS, and no
wait becomes more than a twentieth longer. It looks for its clients' answers, which costs the SuperLink nothing, ten times a
second at first.
The node's SuperExec, which asks the SuperNode for work five times a second, asks as often after a piece of work, and
every 2 s at last. Where the loop of another version has no such clock, that is said, and the SuperNode runs as Flower made
it. It also has the patience of `trying_again`, and the connection of `lines`, and ends where its loop has ended.
"""

import importlib
import os
import runpy
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from simulations.deploy.trying_again import EXEC_LOOP, try_again

LOOP = "flwr.supernode.start_client_internal"
GIVEN_WORK = "_handle_launch_result"  # of EXEC_LOOP
DEFAULT_S, FLOWERS_S = 1.0, 3.0
ANOTHER = "this Flower's "  # how lines begin that say what another version does not let us do
POLL_S = "FEDSUITE_POLL_S"  # in the environment of `supernode`
FIRST_LOOK_S, LONGEST_S, LONGEST_EXEC_S, SHARE_OF_ELAPSED = 0.1, 10.0, 2.0, 0.05


class Clock:
    """The module `time` for the SuperNode's loop, which sleeps `FLOWERS_S` where no message has come, and less where it
    waits for the answer to one. own_s: between two questions while messages come.
    """

    def __init__(self, own_s: float) -> None:
        self.own_s = own_s
        self._idle_since = self._busy_since = time.monotonic()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        now, idle = time.monotonic(), seconds >= FLOWERS_S
        if idle:
            self._busy_since = now
            pause = min(LONGEST_S, max(self.own_s, SHARE_OF_ELAPSED * (now - self._idle_since)))
        else:
            self._idle_since = now
            waited = SHARE_OF_ELAPSED * (now - self._busy_since)
            pause = min(seconds, self.own_s, max(FIRST_LOOK_S, waited))
        time.sleep(pause)


class ExecClock:
    """The module `time` for a SuperExec's loop: its sleeps become a twentieth of the time since the last piece of work."""

    def __init__(self) -> None:
        self._idle_since = time.monotonic()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        waited = SHARE_OF_ELAPSED * (time.monotonic() - self._idle_since)
        time.sleep(min(max(seconds, LONGEST_EXEC_S), max(seconds, waited)))

    def told_of(self, given: Callable[..., None]) -> Callable[..., None]:
        """The function that the loop calls with each piece of work, which sets the clock back."""

        def gave(*work: Any) -> None:
            self._idle_since = time.monotonic()
            given(*work)

        return gave


def ask_seldom_when_idle() -> bool:
    """Give the SuperExec's loop the clock; whether there was one to replace."""
    loop = importlib.import_module(EXEC_LOOP)
    given = getattr(loop, GIVEN_WORK, None)
    if getattr(loop, "time", None) is not time or given is None:
        return False
    loop.time = clock = ExecClock()  # type: ignore[attr-defined]
    setattr(loop, GIVEN_WORK, clock.told_of(given))
    return True


def ask_every(seconds: float) -> bool:
    """Give the SuperNode's loop the clock; whether there was one to replace."""
    loop = importlib.import_module(LOOP)
    if getattr(loop, "time", None) is not time:
        return False
    loop.time = Clock(seconds)  # type: ignore[attr-defined]
    return True


def main(arguments: list[str]) -> None:
    """Run a program of Python in this process, as if it had been started by itself."""
    seconds, program = float(arguments[0]), arguments[1]
    if not ask_every(seconds):
        print(
            f"{ANOTHER}SuperNode cannot be made to ask every {seconds:g} s; it asks as it does",
            flush=True,
        )
    if not try_again():
        print(f"{ANOTHER}SuperNode cannot be made to ask again after an error 500", flush=True)
    if not _over_any_line():
        print(f"{ANOTHER}SuperNode cannot be made fit for lines that are slow or break", flush=True)
    sys.argv = arguments[1:]
    runpy.run_path(program, run_name="__main__")
    _leave()


def _leave() -> None:
    """End a SuperNode whose loop has ended by an error, which it has printed: Flower's lives on, by the threads of its own
    API, and does nothing."""
    main = threading.main_thread()
    if any(t is not main and not t.daemon for t in threading.enumerate()):
        print("the SuperNode has stopped asking for messages; why stands above", flush=True)
        sys.stderr.flush()
        os._exit(1)


def _over_any_line() -> bool:
    """What `lines` does to this process; whether this Flower has all that it needs."""
    try:
        from simulations.deploy.lines import over_any_line
    except ImportError:
        return False
    return over_any_line()


def supernode() -> None:
    """In a process forked for a SuperNode, whose program and arguments are sys.argv: as often as the environment says."""
    main([os.environ.get(POLL_S, f"{FLOWERS_S:g}"), *sys.argv])


def superexec() -> None:
    """In a process forked for the node's SuperExec."""
    if not ask_seldom_when_idle():
        print(f"{ANOTHER}SuperExec cannot be made to ask more seldom when idle", flush=True)
    from flwr.supercore.cli import flower_superexec

    flower_superexec()


if __name__ == "__main__":
    main(sys.argv[1:])
