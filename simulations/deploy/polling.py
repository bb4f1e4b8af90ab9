"""Flower's SuperNode, asking for messages more often than every 3 seconds.

    python -m simulations.deploy.polling SECONDS PROGRAM ARGUMENT ...

A SuperNode without work sleeps 3 s, and up to 0.5 s where it waits for its own clients' answers; Flower has no setting
for it (1.41, 1.42). Here the loop's own clock never sleeps longer than SECONDS; nothing else in the process has that clock.
Where the loop of another version has no such clock, that is said, and the SuperNode runs as Flower made it.
"""

import importlib
import os
import runpy
import sys
import time
from typing import Any

LOOP = "flwr.supernode.start_client_internal"
DEFAULT_S, FLOWERS_S = 1.0, 3.0
POLL_S = "FEDSUITE_POLL_S"  # in the environment of `supernode`


class Clock:
    """The module `time`, whose sleep ends after `longest_s` seconds at most."""

    def __init__(self, longest_s: float) -> None:
        self.longest_s = longest_s

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, self.longest_s))


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
    sys.argv = arguments[1:]
    runpy.run_path(program, run_name="__main__")


def supernode() -> None:
    """In a process forked for a SuperNode, whose program and arguments are sys.argv: as often as the environment says."""
    main([os.environ.get(POLL_S, f"{FLOWERS_S:g}"), *sys.argv])


if __name__ == "__main__":
    main(sys.argv[1:])
