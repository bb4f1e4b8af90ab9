"""A strategy with something around its training: what goes out and what comes back can be changed, nothing is copied."""

from collections.abc import Callable, Sequence

from fedsuite.federation import (
    Asking,
    Clients,
    Exchanges,
    Reply,
    RoundStrategy,
    ServerState,
    T,
    Task,
    UnderWay,
)

Before = Callable[[Sequence[Task]], Sequence[Task]]
After = Callable[[Sequence[Task], Sequence[Reply]], Sequence[Reply]]


def _as_asked(tasks: Sequence[Task]) -> Sequence[Task]:
    return tasks


def _as_sent(tasks: Sequence[Task], replies: Sequence[Reply]) -> Sequence[Reply]:
    return replies


def around(steps: Asking[T], before: Before = _as_asked, after: After = _as_sent) -> Asking[T]:
    """A strategy's step that asks what `before` makes of each batch of its tasks, and is sent what `after` makes of the
    checked replies; `after` gets the tasks as they went out. Replies may be left out, the others keep their order. Where the
    step awaits some of its tasks only, so many are awaited of what `before` makes of them, unless it says otherwise."""
    replies: Sequence[Reply] | None = None
    while True:
        try:
            tasks = next(steps) if replies is None else steps.send(replies)
        except StopIteration as end:
            result: T = end.value
            return result
        sent = before(tasks)
        if isinstance(tasks, UnderWay) and not isinstance(sent, UnderWay):
            sent = UnderWay(sent, max(1, min(tasks.awaited, len(sent))))
        replies = after(sent, (yield sent))


class Wrapped(RoundStrategy):
    """Another strategy, with `before` and `after` around its training; a class of it may say other steps anew."""

    def __init__(
        self, inner: RoundStrategy, before: Before = _as_asked, after: After = _as_sent
    ) -> None:
        self.inner, self.before, self.after = inner, before, after
        self.selection, self.rate = inner.selection, inner.rate

    def start(self, clients: Clients) -> Exchanges:
        return self.inner.start(clients)

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        return around(self.inner.train(number, state, clients), self.before, self.after)

    def over(self, number: int) -> str:
        return self.inner.over(number)

    def kinds(self, clients: Clients) -> Sequence[Clients]:
        return self.inner.kinds(clients)

    def evaluate(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        return self.inner.evaluate(number, state, clients)

    def close(self, number: int, state: ServerState, clients: Clients, improved: bool) -> Exchanges:
        return self.inner.close(number, state, clients, improved)

    def finish(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        return self.inner.finish(number, state, clients)
