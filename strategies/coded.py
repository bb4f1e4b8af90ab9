"""Clients that send coded changes (fedsuite/averaging/exchange.py): a strategy sees the models that they stand for.

Sizes of what travels follow from the model's shapes, so that a reply is checked like any other before it is decoded. One
whose parts stand for no model is left out of the merge, and its line in the history says that none of it was admitted.
"""

from collections.abc import Sequence
from dataclasses import replace

from fedsuite.averaging.control_variates import CONTROL
from fedsuite.averaging.exchange import Exchange
from fedsuite.averaging.stored import stored_like
from fedsuite.errors import RunFailed
from fedsuite.federation import (
    Clients,
    Exchanges,
    Reply,
    RoundStrategy,
    ServerState,
    Task,
)
from strategies.wrapping import Wrapped, around


def with_codec(
    strategy: RoundStrategy, exchange: Exchange, beside: tuple[str, ...] = (CONTROL,)
) -> RoundStrategy:
    """The strategy, with a codec around it if there is one; beside: beginnings of names of what is no part of a model."""
    return Coded(strategy, exchange, beside) if exchange.codec else strategy


class Coded(Wrapped):
    """Another strategy, whose clients send coded changes."""

    def __init__(self, inner: RoundStrategy, exchange: Exchange, beside: tuple[str, ...]) -> None:
        super().__init__(inner)
        self.exchange, self.beside = exchange, beside

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        refused: dict[int, str] = {}

        def decoded(tasks: Sequence[Task], replies: Sequence[Reply]) -> list[Reply]:
            starts, usable = {t.partition: t.arrays for t in tasks}, []
            for reply in replies:
                start = {k: v for k, v in starts[reply.partition].items() if self._codes(k)}
                try:
                    model = self.exchange.decode(start, reply.arrays)
                except ValueError as error:
                    refused[reply.partition] = str(error)
                else:
                    usable.append(replace(reply, arrays=stored_like(reply.arrays, model)))
            if replies and not usable:
                raise RunFailed(
                    f"round {number}: federation.codec: no change can be decoded: {min(refused.values())}"
                )
            return usable

        training = self.inner.train(number, state, clients)
        result = yield from around(training, lambda tasks: [*map(self._coded, tasks)], decoded)
        return replace(result, admitted={**result.admitted, **dict.fromkeys(refused, 0.0)})

    def _codes(self, name: str) -> bool:
        return not name.startswith(self.beside)

    def _coded(self, task: Task) -> Task:
        """The task, with what travels in the place of the model that is to come back."""
        model = {k: form for k, form in task.expected.items() if self._codes(k)}
        others = {k: form for k, form in task.expected.items() if not self._codes(k)}
        forms = self.exchange.wire(model) | others
        return replace(
            task,
            returns={k: shape for k, (shape, _) in forms.items()},
            types={k: kind for k, (_, kind) in forms.items()},
        )
