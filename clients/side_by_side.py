"""Visits in one process that take turns, so that what all of them ask for can be done at once.

Each runs in a thread of its own, and only one at a time: until it asks for something, or ends. When every visit has asked or
ended, the questions are answered together. Threads share torch's settings and its default stream, so a visit computes what
it computes by itself. Work that touches nothing of other visits, such as reading and writing files, may be asked for as well
(`aside`): that of all visits is done at the same time.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
Ask = Callable[[Any], Any]


@dataclass(frozen=True)
class _Aside:
    """A question that is some work; its answer is a Future."""

    work: Callable[[], Any]


def aside(ask: Ask | None, work: Callable[[], T]) -> T:
    """What the work returns, or its error; ask: of a visit, None where there is no other beside it."""
    if ask is None:
        return work()
    done: T = ask(_Aside(work)).result()
    return done


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
    """What each of the visits returns; answers: to the questions of all that wait, in their order, which are no work
    aside. The first error ends all."""
    opened = [_Visit(visit) for visit in visits]
    try:
        asking = [one for one in opened if _went_on(one, None)]
        while asking:
            found = _answered([one.question for one in asking], answers)
            pairs = zip(asking, found, strict=True)
            asking = [one for one, answer in pairs if _went_on(one, answer)]
    finally:
        for one in opened:
            one.close()
    return [one.result for one in opened]


def _answered(
    questions: Sequence[Any], answers: Callable[[Sequence[Any]], Sequence[Any]]
) -> list[Any]:
    """Work is done at the same time, before all else is answered."""
    with ThreadPoolExecutor() as pool:
        done = [pool.submit(one.work) if isinstance(one, _Aside) else None for one in questions]
    others = [one for one in questions if not isinstance(one, _Aside)]
    found = iter(answers(others) if others else ())
    return [next(found) if one is None else one for one in done]


def _went_on(visit: _Visit, answer: Any) -> bool:
    asks = visit.go_on(answer)
    if visit.error is not None:
        raise visit.error
    return asks
