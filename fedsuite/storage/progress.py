"""How preparations say how far they are, whoever listens.

progress("reading the corpus")              # something happens once
progress("generated houses", 3, 22)         # the third of 22 is done; total = 0: nobody knows how many
"""

from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """Takes what is being done and, of many things, how many are done."""

    def __call__(self, what: str, done: int = 0, total: int = 0) -> None: ...


def silent(what: str, done: int = 0, total: int = 0) -> None:
    """Nobody listens."""


def in_lines(emit: Callable[[str], None]) -> Progress:
    """Progress as lines for a log: of many things only that all are done."""

    def progress(what: str, done: int = 0, total: int = 0) -> None:
        if not done:
            emit(what)
        elif done == total:
            emit(f"{what}: {total}")

    return progress
