"""Which files are opened in this process, and by whom."""

import functools
import gc
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simulations.app import opened

SERVER = "the server"
OURS = ("fedsuite", "strategies", "clients", "simulations")
Opened = dict[str, set[Path]]  # by who opened it


class Watch:
    """Notes files that are opened; opened: None as long as nobody watches."""

    opened: Opened | None = None
    who = SERVER
    hooked = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Python's audit hook."""
        if self.opened is None or event != "open" or isinstance(arguments[0], int):
            return
        self.opened[self.who].add(Path(os.fsdecode(arguments[0])).absolute())

    @contextmanager
    def on(self) -> Iterator[Opened]:
        """Files that are opened meanwhile."""
        if not self.hooked:
            sys.addaudithook(
                self
            )  # which cannot be taken away again, and is asked at every step of Python's
            self.hooked = True
        opened = self.opened = defaultdict(set)
        try:
            yield opened
        finally:
            self.opened = None

    @contextmanager
    def acting(self, name: str) -> Iterator[None]:
        """What is opened meanwhile is opened by `name`."""
        self.who = name
        try:
            yield
        finally:
            self.who = SERVER


watch = Watch()


_settled: list[Any] = []


def settle() -> None:
    """What is there now stays: Python's collector, which would go through all of it time and again, leaves it alone."""
    _settled.extend(_caches())
    gc.freeze()


def _caches() -> list[Any]:
    """Caches of ours that Python's collector knows of."""
    kinds = (functools._lru_cache_wrapper, opened.Opened)
    # isinstance() would ask the objects, and some warn when they are asked anything
    found = [thing for thing in gc.get_objects() if type(thing) in kinds]
    return [c for c in found if type(c) is opened.Opened or str(c.__module__).startswith(OURS)]


def forget() -> None:
    """As in a new process: what was opened before and kept must be opened again."""
    for cache in (*_settled, *_caches()):
        cache.cache_clear()
