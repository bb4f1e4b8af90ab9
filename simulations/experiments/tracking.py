"""`fedsuite run --log NAME`: trackers that are told every round as it ends, in the process of the run."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from fedsuite.history import Kind, OnEvent, kind_of


def checked_trackers(names: Sequence[str]) -> tuple[str, ...]:
    """The names, each once; InputError where one is unknown or its package is not installed."""
    for name in names:
        from fedsuite.export.live import check_tracker  # nothing of it is needed without --log

        check_tracker(name)
    return tuple(dict.fromkeys(names))


@contextmanager
def tracked(
    names: Sequence[str], folder: Path, results: Path, console: Console, watch: OnEvent
) -> Iterator[OnEvent]:
    """What hands a run's events on to trackers, which are closed when the run has ended, however it did, then to `watch`.

    results: the folder of run folders.
    """
    if not names:
        yield watch
        return
    from fedsuite.export.live import Live

    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    trackers = [Live(name, folder, results, say) for name in names]

    def told(event: Mapping[str, Any]) -> None:
        if kind_of(event) in (Kind.ROUND, Kind.CLOSING):
            for tracker in trackers:
                tracker.update()
        watch(event)

    try:
        yield told
    finally:
        for tracker in trackers:
            tracker.close()
