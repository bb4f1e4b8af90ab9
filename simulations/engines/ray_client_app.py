"""The ClientApp as Flower's simulation gets it: when it is imported there, Flower gets a thread for each of its workers.

Flower hands messages to the workers in as many threads as Python's default says, min(32, cores + 4), whatever the number of
workers. The first ones beyond that, which have a GPU to themselves, would never get a message. The simulation imports the
ClientApp right before it starts these threads.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from flwr.server.superlink.fleet.vce import vce_api

from simulations.client_app import app
from simulations.engines.placement import told_placement

__all__ = ["app"]


def widen(workers: int) -> None:
    """Flower's simulation, if it is started later in this process, uses all of so many workers."""
    vce_api.ThreadPoolExecutor = partial(ThreadPoolExecutor, workers)  # type: ignore[attr-defined, assignment]


if placement := told_placement():
    widen(placement["workers"])
