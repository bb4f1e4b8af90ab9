"""The runs of one process take turns.

Networks and their dropout draw from torch's global generator, which is seeded for as long as they draw: two threads would
draw from each other's. Whoever wants runs side by side starts processes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock

WAITS = "another run is under way in this process; this one begins when it has ended"
_turn = RLock()


@contextmanager
def in_turn(tell: Callable[[str], object] = lambda _: None) -> Iterator[None]:
    """Begins when no other thread is in such a context; tell: is told if one is."""
    if not _turn.acquire(blocking=False):
        tell(WAITS)
        _turn.acquire()
    try:
        yield
    finally:
        _turn.release()
