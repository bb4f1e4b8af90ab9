"""FedRL's relay where parties seal what they exchange: it hands boxes on, and sees no value in them.

TwoParty only passes arrays from one message to the next. Here each of them but the shared MLP comes as a table of boxes, a
row for each party (clients/sealed_party.py), and the receiver's row of it goes out.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedsuite.federation import Clients, Exchanges, RoundStrategy, ServerState, Task
from fedsuite.fedrl.sealed_places import sealed_names
from fedsuite.privacy.sealing import OVERHEAD
from strategies.sealed_keys import exchanged_keys
from strategies.wrapping import Wrapped, around


class SealedRelay(Wrapped):
    """Another strategy of numbered parties, which looks at no array but those of the MLP."""

    def __init__(self, inner: RoundStrategy, num_parties: int) -> None:
        super().__init__(inner, before=self._in_boxes)
        self.num_parties = num_parties

    def start(self, clients: Clients) -> Exchanges:
        """The parties get to know each other's keys."""
        result = yield from self.inner.start(clients)
        yield from exchanged_keys(clients)
        return result

    def evaluate(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        return around(self.inner.evaluate(number, state, clients), self.before)

    def finish(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        return around(self.inner.finish(number, state, clients), self.before)

    def _in_boxes(self, tasks: Sequence[Task]) -> Sequence[Task]:
        return [self._in_box(task) for task in tasks]

    def _in_box(self, task: Task) -> Task:
        """With the receiver's boxes alone; what comes back are tables of boxes, whose numbers nobody here can check."""
        arrays = dict(task.arrays)
        for name in sealed_names(arrays):
            arrays[name] = arrays[name][task.partition]
        returns, types = dict(task.returns or {}), dict(task.types)
        for name in sealed_names(returns):
            size = math.prod(returns[name]) * np.dtype(types[name]).itemsize
            returns[name], types[name] = (self.num_parties, OVERHEAD + size), "uint8"
        hidden = sealed_names(returns)
        ranges = {name: ends for name, ends in task.ranges.items() if name not in hidden}
        return replace(task, arrays=arrays, returns=returns, types=types, ranges=ranges)
