"""Scores handed to a tracker while their run goes on, in its own process: `fedsuite run --log NAME`.

What is on disk is handed on after every round, so that a run that goes on from a checkpoint is shown from its beginning. A
tracker that fails costs the run nothing: that is said once, and what it lacks can be exported afterwards.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fedsuite.errors import InputError, one_line
from fedsuite.export.formats import FORMATS, Export, Output, format_of, package
from fedsuite.history import Runs, load_runs
from fedsuite.storage.files import as_typed

TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")
OPTION = "--log"
BOARDS = "tensorboard"  # beside the runs: what `tensorboard --logdir` is given


def check_tracker(name: str) -> None:
    """InputError if there is no tracker of this name, or if its package is not installed."""
    if name in FORMATS and name not in TRACKERS:
        raise InputError(
            f"{OPTION} {name}: writes tables of runs that are there; give {', '.join(TRACKERS)}, or use fedsuite export"
        )
    format_of(name, OPTION)
    if name in TRACKERS:
        package(name, OPTION)


class Live:
    """One tracker of the run in `folder`, whose files, if it writes some, go beside those of `results`' other runs."""

    def __init__(self, name: str, folder: Path, results: Path, say: Callable[[str], None]) -> None:
        self.name, self.folder, self.say = name, folder, say
        self._begin = format_of(name, OPTION)
        self._output = Output(results / BOARDS if name == BOARDS else None, overwrite=True)
        self._runs: Runs | None = None
        self._export: Export | None = None
        self._failed = False

    def update(self) -> None:
        """Hand on what is there by now."""
        self._guarded(self._hand_on)

    def close(self) -> None:
        """The end, whatever it was."""
        if self._export is None:
            return
        self._guarded(self._hand_on)
        if not self._failed:
            self._guarded(self._close)
            return
        with suppress(Exception):  # it has been said that it fails
            self._close()

    def _hand_on(self) -> None:
        runs = load_runs([self.folder]) if self._runs is None else self._runs.again()
        self._runs = runs.look()
        if self._export is None:
            self._export = self._begin(self._runs, self._output)
        self._export.update(self._runs)

    def _close(self) -> None:
        if self._export is not None and self._runs is not None:
            self._export.close(self._runs)

    def _guarded(self, work: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            work()
        except Exception as error:  # whatever a tracker does, the run goes on
            self._failed = True
            why = one_line(f"{type(error).__name__}: {error}", 200)
            again = f"fedsuite export {as_typed(self.folder)} --to {self.name}"
            self.say(
                f"{OPTION} {self.name}: {why}; the run goes on without it, afterwards: {again}"
            )
