"""Exports runs once, or again and again until they have ended."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fedsuite.export.formats import Format, Output
from fedsuite.history import Run, Runs, load_runs
from fedsuite.history.quiet import Changes
from fedsuite.runs.folder import RunFolder

EVERY_S = 5.0
PATIENCE_S = 600.0
"""A followed run counts as dead when it has written nothing for so long, and no process here holds its lock."""


def export(
    folders: Sequence[Path],
    begin: Format,
    output: Output,
    say: Callable[[str], None] | None = None,
    every_s: float = EVERY_S,
    patience_s: float = PATIENCE_S,
) -> Runs:
    """Export what is there; the runs. say: follow them until all have ended, or say that nothing has come for too long."""
    runs = load_runs(folders).look()
    changes = Changes(run.folder for run in runs.runs)
    changes.came()
    running = begin(runs, output)
    try:
        running.update(runs)
        while say and _go_on(runs, changes, say, every_s, patience_s):
            runs = runs.again().look()
            running.update(runs)
    finally:
        running.close(runs)
    return runs


def _go_on(
    runs: Runs, changes: Changes, say: Callable[[str], None], every_s: float, patience_s: float
) -> bool:
    """Wait until there is something new; False if nothing more is to be expected."""
    begun = [run for run in runs.runs if not run.has_ended]
    while begun and not changes.came():
        if changes.quiet_s > patience_s and not _at_work(begun):
            names = ", ".join(run.name for run in begun)
            say(f"{names}: nothing new for {patience_s:.0f} s; what was there is exported")
            return False
        time.sleep(every_s)
    return bool(begun)


def _at_work(runs: Sequence[Run]) -> bool:
    """Whether a process of this machine writes to any of them."""
    return any(RunFolder(run.folder).is_being_written() for run in runs)
