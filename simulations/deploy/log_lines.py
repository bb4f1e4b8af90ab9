"""Lines of a SuperLink, a SuperNode and a run's server: with times, colours on terminals alone, files that are rotated."""

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import TimedRotatingFileHandler
from pathlib import Path

from fedsuite.errors import one_line
from fedsuite.storage.escaping import LONGEST
from fedsuite.storage.files import telling

_TIMED = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")  # Flower's web server says when
_EMPTY = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) *: *")  # Flower's, between two messages


@dataclass(frozen=True)
class Rotation:
    """file: the log; a new one begins every `hours`, and `kept` older ones stay beside it, their time in their names."""

    file: Path
    hours: int = 24
    kept: int = 7


def stamped(line: str) -> str:
    """The line with the time (UTC), unless it says when already."""
    if _TIMED.match(line):
        return line
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return f"{now.removesuffix('+00:00')}Z {line}"


def is_empty(line: str) -> bool:
    """Whether a line says nothing."""
    return not (plain := one_line(line).strip()) or bool(_EMPTY.fullmatch(plain))


@contextmanager
def log_lines(rotation: Rotation | None = None) -> Iterator[Callable[[str], None]]:
    """What says a line at once: on standard output, else in the log."""
    if rotation is None:
        yield _print
        return
    with telling(rotation.file):
        handler = TimedRotatingFileHandler(
            rotation.file,
            when="H",
            interval=rotation.hours,
            backupCount=rotation.kept,
            encoding="utf-8",
            utc=True,
        )

    def say(line: str) -> None:
        if not is_empty(line):
            text = stamped(one_line(line, LONGEST))
            handler.emit(logging.makeLogRecord({"msg": text}))

    try:
        yield say
    finally:
        handler.close()


def _print(line: str) -> None:
    if not is_empty(line):
        shown = line if sys.stdout.isatty() else one_line(line, LONGEST)
        print(stamped(shown), flush=True)
