"""Looks at a run again and again until it has ended."""

import time
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.live import Live

from fedsuite.history import TIMINGS, line_about
from fedsuite.history.quiet import Changes
from fedsuite.storage.escaping import redraws
from simulations.engines.nodes.following import Tail
from simulations.results.watching.screen import line, screen, status_text
from simulations.results.watching.state import Standing, standing

PATIENCE_S = 600.0
"""Lines end when a run has written nothing for so long, and no process of this machine holds its lock."""


def watch_run(folder: Path, every_s: float, console: Console) -> None:
    """A live screen on a terminal, a line per round elsewhere; a run that has ended is shown once. Ctrl-C ends it."""
    with suppress(KeyboardInterrupt):
        changes = Changes([folder])
        changes.came()
        now = standing(folder)
        if now.has_ended:
            console.print(screen(now, 0.0))
        elif redraws(console):
            _live(folder, every_s, console, now, changes)
        else:
            _lines(folder, every_s, console, now, changes)


def _live(folder: Path, every_s: float, console: Console, now: Standing, changes: Changes) -> None:
    with Live(screen(now, 0.0), console=console, auto_refresh=False) as live:
        while not now.has_ended:
            time.sleep(every_s)
            now = standing(folder) if changes.came() else now
            live.update(screen(now, changes.quiet_s), refresh=True)


def _lines(folder: Path, every_s: float, console: Console, now: Standing, changes: Changes) -> None:
    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    events = Tail(folder / TIMINGS)
    events.rows()  # what has been is not told again
    say(f"{now.name}: {now.status}, round {now.done}/{now.planned}")
    while not now.has_ended:
        if changes.quiet_s > PATIENCE_S and not now.held:
            say(f"{now.name}: {status_text(now, changes.quiet_s)}; no longer watched")
            return
        time.sleep(every_s)
        known, now = len(now.rounds), standing(folder) if changes.came() else now
        for told in filter(None, map(line_about, events.rows())):
            say(told)
        for over in now.rounds[known:]:
            say(line(over, now.planned))
    say(f"{now.name}: {now.status}{f': {now.error}' if now.error else ''}")
