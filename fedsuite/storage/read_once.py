"""What is made of files is remembered in a process as long as the files are the same."""

from collections.abc import Callable, Iterable
from functools import lru_cache, update_wrapper
from pathlib import Path
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Stamp = tuple[Path, int, int]


def stamp(file: Path) -> Stamp:
    """Which file, its size and the time of its last change in ns; -1 and 0 where there is none."""
    try:
        found = file.stat()
    except (OSError, ValueError):  # whoever reads it says what is wrong
        return file, -1, 0
    return file, found.st_size, found.st_mtime_ns


class ReadOnce(Generic[P, T]):
    """`make(...)`, remembered by its arguments and the stamps of `files(...)`; of more than `kept` the oldest is let go.

    Every call asks the system for each file's stamp, some microseconds, and reads nothing that it has read before.
    """

    def __init__(self, make: Callable[P, T], files: Callable[P, Iterable[Path]], kept: int) -> None:
        self._files = files
        update_wrapper(self, make)

        def made(_: tuple[Stamp, ...], *args: P.args, **kwargs: P.kwargs) -> T:
            return make(*args, **kwargs)

        self._made = lru_cache(maxsize=kept)(made)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        stamps = tuple(stamp(file) for file in self._files(*args, **kwargs))
        return self._made(stamps, *args, **kwargs)  # type: ignore[arg-type]

    def cache_clear(self) -> None:
        """Forget all."""
        self._made.cache_clear()


def read_once(
    files: Callable[P, Iterable[Path]], kept: int
) -> Callable[[Callable[P, T]], ReadOnce[P, T]]:
    """A decorator; files: what the function reads, from the same arguments."""
    return lambda make: ReadOnce(make, files, kept)
