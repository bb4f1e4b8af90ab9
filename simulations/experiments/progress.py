"""Shows how a run goes: a live line on a terminal and in a notebook, one line a round elsewhere (logs, pipes).

Preparing data gets a bar there, and everywhere a line for all that is done.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from fedsuite.history import Kind, kind_of, line_about
from fedsuite.storage.escaping import redraws
from fedsuite.storage.progress import in_lines
from simulations.experiments.notebook import NotebookLine

SHOWN_METRICS = 4
BAR = 24


class OnTerminal:
    """A context manager whose live part is there on a terminal, or what is `lively`, only."""

    def __init__(
        self, console: Console, live: Live | Progress | NotebookLine, lively: bool = False
    ) -> None:
        self.console, self.live = console, live
        self.lively = lively or redraws(console)

    def __enter__(self) -> Self:
        if self.lively:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.lively:
            with suppress(OSError):  # of a terminal that was closed
                self.live.stop()


class Preparing(OnTerminal):
    """To be called as fedsuite.storage.progress.Progress; no line comes twice."""

    def __init__(self, console: Console) -> None:
        self._said: set[str] = set()
        self._lines = in_lines(self._say)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
        )
        self._bars = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        super().__init__(console, self._bars)

    def __call__(self, what: str, done: int = 0, total: int = 0) -> None:
        if done and self.lively:
            known = {task.description: task.id for task in self._bars.tasks}
            bar = known[what] if what in known else self._bars.add_task(what, total=None)
            self._bars.update(bar, completed=done, total=total or None, visible=done != total)
        self._lines(what, done, total)

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)


class RunDisplay(OnTerminal):
    """Its `show` takes the events of a run."""

    def __init__(self, console: Console) -> None:
        self.rounds = self.done = self.clients = self.answered = 0
        self.metrics = ""
        self.doing = "starting"
        self._begun: tuple[float, int] | None = None
        self._live = (
            NotebookLine(self.line())
            if console.is_jupyter
            else Live(self.line(), console=console, transient=True, refresh_per_second=4)
        )
        super().__init__(console, self._live, lively=console.is_jupyter and not console.quiet)

    def show(self, event: Mapping[str, Any]) -> None:
        match kind := kind_of(event):
            case Kind.CLIENT:  # the most frequent by far
                self.answered += 1
            case Kind.READY:
                self.rounds, self.done = int(event["rounds"]), int(event["round"])
                self._begun = (time.monotonic(), self.done)
                self.doing = "round"
                self._say(line_about(event))
            case Kind.EXCHANGE:
                self.clients, self.answered = int(event["clients"]), 0
                self.doing = str(event["task"])
            case Kind.MESSAGES:
                self.clients, self.doing = 0, f"{event['done']} messages"
            case Kind.ROUND | Kind.CLOSING:
                self._show_round(event, closing=kind is Kind.CLOSING)
            case Kind.WAITING if self.lively:
                self.doing = line_about(event)
            case _:
                self._say(line_about(event))
        if self.lively:
            self._live.update(self.line())

    def line(self) -> Text:
        filled = BAR * self.done // self.rounds if self.rounds else 0
        parts = [f"round {self.done}/{self.rounds}", "━" * filled + "╌" * (BAR - filled)]
        asked = f" {self.answered}/{self.clients} clients" if self.clients else ""
        parts += [self.doing + asked, self.metrics, self._remaining()]
        return Text("  ".join(filter(None, parts)), overflow="ellipsis", no_wrap=True)

    def _show_round(self, event: Mapping[str, Any], closing: bool) -> None:
        self.done = int(event["round"])
        if event["metrics"]:
            self.metrics = short_metrics(event["metrics"])
        name = "closing" if closing else f"round {self.done}/{self.rounds}"
        shown = short_metrics(event["metrics"]) or "done"
        if not self.lively and (self.done or closing or event["metrics"]):
            self._say(f"{name}  {shown}  ({event['seconds']:.1f} s)")

    def _say(self, line: str) -> None:
        """Above the live part, where there is one."""
        if line:
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _remaining(self) -> str:
        if self._begun is None or self.done <= self._begun[1] or self.done >= self.rounds:
            return ""
        per_round = (time.monotonic() - self._begun[0]) / (self.done - self._begun[1])
        seconds = round(per_round * (self.rounds - self.done))
        return f"about {seconds // 60}:{seconds % 60:02d} min left"


def short_metrics(metrics: Mapping[str, float], most: int = SHOWN_METRICS) -> str:
    """The first few metrics, four digits each."""
    return "  ".join(f"{key} {value:.4g}" for key, value in list(metrics.items())[:most])
