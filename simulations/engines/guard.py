"""Clears a launch away when whoever launched it has gone, even by `kill -9`.

What a program of Flower's or Ray has started may outlive it, and nobody else would remove the temporary folder. The guard
is a small process beside the launch: it reads from a pipe whose other end the launching process holds, and which the system
closes when that process ends in whatever way. Then it ends the launch's family and removes its temporary folder.
"""

import os
import select
import subprocess
import sys
from pathlib import Path

from fedsuite.storage.deleting import delete_made
from simulations.engines.processes import Family

LOOK_EVERY_S = 1.0


class Guard:
    """The launching process's side."""

    def __init__(self, family: Family, home: Path) -> None:
        root = str(Path(__file__).resolve().parents[2])
        paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "simulations.engines.guard", family.mark, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # Ctrl-C in the terminal is not for the guard
        )

    def dismiss(self) -> None:
        """Let it clear away what is left and wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main(mark: str, home: str) -> None:
    """The guard's side: look after the family until the pipe closes."""
    family = Family(mark)
    while not select.select([0], [], [], LOOK_EVERY_S)[0]:
        family.update()
    family.end()
    delete_made(Path(home))


if __name__ == "__main__":
    main(*sys.argv[1:])
