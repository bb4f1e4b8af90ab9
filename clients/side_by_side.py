"""Visits in one process that take turns, so that what all of them ask for can be done at once.

Each runs in a thread of its own, and only one at a time: until it asks for something, or ends. When every visit has asked or
ended, the questions are answered together. Threads share torch's settings and its default stream, so a visit computes what
it computes by itself.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

Ask = Callable[[Any], Any]


class _Closed(BaseException):
    """Ends a visit whose answer will never come."""


class _Visit:
    """`question`: what it waits for an answer to, None once it has ended; then it has a result or an error."""

    def __init__(self, visit: Callable[[Ask], Any]) -> None:
        self.visit, self.question, self.answer = visit, None, None
        self.result: Any = None
        self.error: BaseException | None = None
        self.closed = False
        self._turn, self._over = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def go_on(self, answer: Any = None) -> bool:
        """Until it asks (True) or ends."""
        self.answer, self.question = answer, None
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._turn.release()
        self._over.acquire()
        return self.question is not None

    def close(self) -> None:
        """End it where it waits."""
        if self.question is not None:
            self.closed = True
            self.go_on()

    def _ask(self, question: Any) -> Any:
        self.question = question
        self._over.release()
        self._turn.acquire()
        if self.closed:
            raise _Closed
        return self.answer

    def _run(self) -> None:
        try:
            self.result = self.visit(self._ask)
        except BaseException as error:
            self.error = error
        self._over.release()


def side_by_side(
    visits: Sequence[Callable[[Ask], Any]], answers: Callable[[Sequence[Any]], Sequence[Any]]
) -> list[Any]:
    """What each of the visits returns; answers: to the questions of all that wait, in their order. The first error ends
    all."""
    opened = [_Visit(visit) for visit in visits]
    try:
        asking = [one for one in opened if _went_on(one, None)]
        while asking:
            found = answers([one.question for one in asking])
            pairs = zip(asking, found, strict=True)
            asking = [one for one, answer in pairs if _went_on(one, answer)]
    finally:
        for one in opened:
            one.close()
    return [one.result for one in opened]


def _went_on(visit: _Visit, answer: Any) -> bool:
    asks = visit.go_on(answer)
    if visit.error is not None:
        raise visit.error
    return asks
