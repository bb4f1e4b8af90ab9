"""Several clients of a simulation in one message, which brings a reply of each.

A strategy's tasks of training and of evaluation go out as they are, as many in a message as there may be, and its replies
come back as if every client had had a message of its own: chains, control variates, any merge, codecs and what stays with a
client do not know of it. A model that several start from is sent once. Clients with equally many steps share a message, so
that those who train side by side (clients/together.py) end at about the same time.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fedsuite.arrays import with_prefix
from fedsuite.averaging.several_clients import START
from fedsuite.federation import (
    Clients,
    Exchanges,
    RoundStrategy,
    ServerState,
    Task,
    UnderWay,
)
from strategies.wrapping import Wrapped, around


def in_shared_messages(strategy: RoundStrategy, most: int) -> RoundStrategy:
    """The strategy, with up to `most` clients in a message; 0 or 1: a message for each."""
    return SharedMessages(strategy, most) if most > 1 else strategy


class SharedMessages(Wrapped):
    """Another strategy, whose clients share messages."""

    def __init__(self, inner: RoundStrategy, most: int) -> None:
        super().__init__(inner, partial(grouped, most=most))

    def evaluate(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        return around(self.inner.evaluate(number, state, clients), self.before)

    def finish(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        return around(self.inner.finish(number, state, clients), self.before)


def grouped(tasks: Sequence[Task], most: int) -> Sequence[Task]:
    """The messages of one exchange. What a strategy need not wait for, small tasks around a training, and messages that are
    for several already stay as they are."""
    if isinstance(tasks, UnderWay) or any(t.summed or t.aside or t.together for t in tasks):
        return tasks
    ordered = sorted(tasks, key=lambda t: (-int(t.config.get("steps", 0)), t.partition))
    groups = [ordered[at : at + most] for at in range(0, len(ordered), most)]
    return [_message(sorted(group, key=lambda t: t.partition)) for group in groups]


def _message(tasks: Sequence[Task]) -> Task:
    if len(tasks) == 1:
        return tasks[0]
    starts: dict[tuple[tuple[str, int], ...], int] = {}
    members: list[Task] = []
    arrays: dict[str, np.ndarray] = {}
    for task in tasks:
        own = dict(task.arrays)
        same = tuple((name, id(value)) for name, value in own.items())
        sent = {} if same in starts else own
        start = starts.setdefault(same, len(starts))
        arrays |= with_prefix(sent, f"{start}.")
        forms = task.expected.items()
        members.append(
            replace(
                task,
                arrays=sent,
                config={**task.config, START: start},
                returns={name: shape for name, (shape, _) in forms},
                types={name: kind for name, (_, kind) in forms},
            )
        )
    return replace(tasks[0], arrays=arrays, together=tuple(members), apart=True)
