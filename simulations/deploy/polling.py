"""Flower's SuperNode, asking for messages more often than every 3 seconds while there are some, and more seldom while not.

    python -m simulations.deploy.polling SECONDS PROGRAM ARGUMENT ...

A SuperNode without work sleeps 3 s, and up to 0.5 s where it waits for its own clients' answers; Flower has no setting
for it (1.41, 1.42). Here the loop has a clock of its own. It sleeps SECONDS while messages come, and after the last one a
twentieth of the time that has passed since, up to 10 s: each question costs the SuperLink a signed request over TLS, and no
wait becomes more than a twentieth longer. It looks for its clients' answers, which costs the SuperLink nothing, ten times a
second at first.
Where the loop of another version has no such clock, that is said, and the SuperNode runs as Flower made it. It also has
the patience of `trying_again`.
"""

import importlib
import os
import runpy
import sys
import time
from typing import Any

from simulations.deploy.trying_again import try_again

LOOP = "flwr.supernode.start_client_internal"
DEFAULT_S, FLOWERS_S = 1.0, 3.0
POLL_S = "FEDSUITE_POLL_S"  # in the environment of `supernode`
FIRST_LOOK_S, LONGEST_S, SHARE_OF_ELAPSED = 0.1, 10.0, 0.05


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
            f"this Flower's SuperNode cannot be made to ask every {seconds:g} s; it asks as it does",
            flush=True,
        )
    if not try_again():
        print("this Flower's SuperNode cannot be made to ask again after an error 500", flush=True)
    sys.argv = arguments[1:]
    runpy.run_path(program, run_name="__main__")


def supernode() -> None:
    """In a process forked for a SuperNode, whose program and arguments are sys.argv: as often as the environment says."""
    main([os.environ.get(POLL_S, f"{FLOWERS_S:g}"), *sys.argv])


if __name__ == "__main__":
    main(sys.argv[1:])
