"""Where the workers of a run come from: this host alone, or the hosts of a cluster (crew.py)."""

from collections.abc import Callable
from typing import Any, Protocol

Actor = Any  # Ray says no types


class Hands(Protocol):
    """Where workers come from. worker: actor of this number, and whether it is without the run's folder; None if there is no
    room for it. more: how many workers there are to be had since the last call. lost: whether its host is gone."""

    def worker(self, number: int) -> tuple[Actor, bool] | None: ...

    def more(self) -> int: ...

    def lost(self, number: int) -> bool: ...


class ThisHost:
    """Workers of this host. hire: makes an actor."""

    def __init__(self, hire: Callable[[bool], Any]) -> None:
        self._hire = hire

    def worker(self, _: int) -> tuple[Any, bool]:
        return self._hire(False), False

    def more(self) -> int:
        return 0

    def lost(self, _: int) -> bool:
        return False
