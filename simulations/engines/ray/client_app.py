"""The ClientApp as Flower's simulation gets it: when it is imported there, Flower gets a thread for each of its workers, and
hands messages out in the order in which the server made them.

Flower hands messages to the workers in as many threads as Python's default says, min(32, cores + 4), whatever the number of
workers. The first ones beyond that, which have a GPU to themselves, would never get a message. It collects messages node by
node, so that those that wait for a worker would go by partition. The simulation imports the ClientApp right before it starts
these threads.
"""

import heapq
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Queue

from flwr.app import Message
from flwr.server.superlink.fleet.vce import vce_api

from simulations.client_app import app
from simulations.engines.ray.placement import told_placement

__all__ = ["app"]


class ByAge(Queue[Message]):
    """Hands out the oldest message first."""

    def _init(self, maxsize: int) -> None:
        self.waiting: list[tuple[float, int, Message]] = []
        self.seen = 0

    def _qsize(self) -> int:
        return len(self.waiting)

    def _put(self, item: Message) -> None:
        self.seen += 1
        heapq.heappush(self.waiting, (item.metadata.created_at, self.seen, item))

    def _get(self) -> Message:
        return heapq.heappop(self.waiting)[2]


def in_order() -> None:
    """Flower's simulation, if it is started later in this process, gives its workers the oldest message first."""
    vce_api.Queue = ByAge  # type: ignore[attr-defined, assignment]


def widen(workers: int) -> None:
    """Flower's simulation, if it is started later in this process, uses all of so many workers."""
    vce_api.ThreadPoolExecutor = partial(ThreadPoolExecutor, workers)  # type: ignore[attr-defined, assignment]


if placement := told_placement():
    widen(placement["workers"])
    in_order()
