"""Clients' data that a process keeps open: those of one run, and no more than the settings allow."""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from fedsuite.settings.config import RunSettings
from simulations.systems import Node

C = TypeVar("C", bound=RunSettings)
S = TypeVar("S")


class Opened(Generic[C, S]):
    """`open(settings, node)`, remembered; of more than `open-clients` the one that was not asked for longest is let go.

    With the first client of another run all are let go, or a sweep in one process would hold those of runs that ended.
    What is let go is closed as soon as nobody uses it: memory maps and their files go with the last array on them.
    """

    def __init__(self, open: Callable[[C, Node], S], at_least: int = 1) -> None:
        """at_least: so many stay open whatever the settings say, for what a client has nowhere but in memory."""
        self._open, self._run, self._at_least = open, Path(), at_least
        self._kept: OrderedDict[tuple[C, Node], S] = OrderedDict()

    def __call__(self, settings: C, node: Node) -> S:
        key, run = (settings, node), node.folder.parent
        if run != self._run:
            self._kept.clear()
            self._run = run
        opened = self._kept.pop(key, None)
        if opened is None:
            while len(self._kept) >= max(settings.open_clients, self._at_least):
                self._kept.popitem(last=False)
            opened = self._open(settings, node)
        self._kept[key] = opened
        return opened

    def __len__(self) -> int:
        return len(self._kept)

    def cache_clear(self) -> None:
        """Let go of all."""
        self._kept.clear()
