"""Says, every 15 s, what is waited for while nothing else can be told."""

import threading
import time
from collections.abc import Mapping
from typing import Any, Self

from fedsuite.history import Kind, OnEvent, event

EVERY_S = 15.0


class Waiting:
    """A context manager; `show` passes the run's own events on, and with the first of them the waiting is over."""

    def __init__(self, on_event: OnEvent) -> None:
        self.on_event, self._over = on_event, threading.Event()
        self._ticking = threading.Thread(target=self._tick, daemon=True)
        self.what = "the start"  # what comes next

    def show(self, told: Mapping[str, Any]) -> None:
        self._over.set()
        self.on_event(told)

    def __enter__(self) -> Self:
        self._ticking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._ticking.join()

    def _tick(self) -> None:
        begin = time.monotonic()
        while not self._over.wait(EVERY_S):
            seconds = round(time.monotonic() - begin)
            self.on_event(event(0, Kind.WAITING) | {"for": self.what, "seconds": seconds})
