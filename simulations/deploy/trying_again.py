"""Flower's SuperNode, a SuperLink's SuperExec and a run's server, asking again where the SuperLink failed inside.

A SuperLink answers HTTP 500 where its database was locked by other requests for five seconds, as happens on a machine with
more to do than cores, or where its disk is full. Flower (1.41, 1.42) asks again after errors 502 to 504 and lost
connections, not after this one: the reply that a client has computed is dropped, the node stays online, and the server waits
for it until the run's reply deadline. Where the server itself had asked, its run ends; where it was the SuperExec, no run
begins any more (superexec.py). Here all ask again with Flower's own growing pauses, each of which their logs have: SuperNode
and SuperExec until they are answered, as they do where nobody answers, a run's server for LIMIT_S. A message that was stored
after all is not stored twice: the SuperLink knows it by its number.

Parts of a message that it could not store are answered by "not stored", after which Flower gives the message up. So it is
where an answer was lost and the part is there already. Here a server sends the message again, of which the SuperLink takes
what is missing; what a node does stands in lines.py.
"""

import importlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

CONNECTION, MAKER = "flwr.supernode.fleet_http_connection", "make_simple_http_retry_invoker"
EXEC_LOOP = "flwr.supercore.superexec.run_superexec"
OF_A_GRID = "_retry_invoker"  # of Flower's HttpGrid
FAILED_INSIDE = 500
LIMIT_S = 300.0
PUSHES, NOT_STORED = "push_messages", "ObjectPushError"  # of a grid; what Flower raises
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 10.0


class Patience:
    """Around an invoker of Flower's: one error 500 after another is no reason to give up before `limit_s` are over."""

    def __init__(self, invoker: Any, limit_s: float) -> None:
        self.limit_s, self._gives_up = limit_s, invoker.should_giveup
        self._succeeds = invoker.on_success
        self._since: float | None = None  # when the first of these errors came, one after another
        invoker.should_giveup, invoker.on_success = self.gives_up, self.succeeds

    def gives_up(self, error: Exception) -> bool:
        if getattr(getattr(error, "response", None), "status_code", 0) != FAILED_INSIDE:
            self._since = None
            return bool(self._gives_up(error))
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        over = now - self._since > self.limit_s
        if over:
            self._since = None
        return over

    def succeeds(self, state: Any) -> None:
        self._since = None
        self._succeeds(state)


def try_again(name: str = CONNECTION) -> bool:
    """Give the SuperNode's connection this patience, or another module of Flower's that makes an invoker; whether it makes
    one that can be given it."""
    connection = importlib.import_module(name)
    make = getattr(connection, MAKER, None)
    if make is None or not _can_be_patient(make()):
        return False

    def patient() -> Any:
        invoker = make()
        Patience(invoker, math.inf)
        return invoker

    setattr(connection, MAKER, patient)
    return True


def try_again_over(grid: object) -> bool:
    """Give a server's connection to its SuperLink this patience; whether it has an invoker that can be given one."""
    invoker = getattr(grid, OF_A_GRID, None)
    if not _can_be_patient(invoker):
        return False
    Patience(invoker, LIMIT_S)
    setattr(grid, PUSHES, until_stored(getattr(grid, PUSHES)))
    return True


def pauses(limit_s: float) -> Iterator[float]:
    """Seconds to wait before one more attempt, longer and longer, until `limit_s` after the first of them are over."""
    give_up, pause = time.monotonic() + limit_s, FIRST_PAUSE_S
    while time.monotonic() <= give_up:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_S)


def until_stored(push: Callable[[Iterable[Any]], Iterable[str]]) -> Callable[..., Iterable[str]]:
    """A grid's way to push messages, until the SuperLink has all parts of them or LIMIT_S are over."""

    def patient(messages: Iterable[Any]) -> Iterable[str]:
        pushed, left = list(messages), pauses(LIMIT_S)
        while True:
            try:
                return push(pushed)
            except Exception as error:
                pause = next(left, None) if type(error).__name__ == NOT_STORED else None
                if pause is None:
                    raise
            print(f"the SuperLink could not store a message; again in {pause:g} s", flush=True)
            time.sleep(pause)

    return patient


def _can_be_patient(invoker: object) -> bool:
    return {"should_giveup", "on_success"} <= getattr(invoker, "__dict__", {}).keys()
