"""Any strategy with saboteurs among its clients, in simulation: it gets false replies to training in place of theirs."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fedsuite.arrays import Named, range_complaint
from fedsuite.averaging.sabotage.attacks import ATTACKS, CLAIMED, KNOWING, Known, change
from fedsuite.averaging.sabotage.settings import SabotageSettings
from fedsuite.averaging.stored import Stored, picked, stored_like
from fedsuite.errors import RunFailed
from fedsuite.federation import (
    ClientInfo,
    Clients,
    Exchanges,
    Reply,
    RoundStrategy,
    ServerState,
    Task,
)
from fedsuite.randomness import rng_for
from strategies.wrapping import Wrapped, around

# (state, honest replies of saboteurs) -> the state in which they have what they have learnt.
Keep = Callable[[ServerState, Sequence[Reply]], ServerState]


def with_saboteurs(
    strategy: RoundStrategy,
    settings: SabotageSettings,
    seed: int,
    keep: Keep = lambda state, replies: state,
    beside: tuple[str, ...] = (),
) -> RoundStrategy:
    """The strategy itself if nobody is hostile. keep: for states that have a model of every client; beside: beginnings of
    the names of what travels beside a model, which saboteurs send as it is."""
    return Sabotaged(strategy, settings, seed, keep, beside) if settings.partitions else strategy


class Sabotaged(Wrapped):
    """`inner` is the strategy of the run."""

    def __init__(
        self,
        inner: RoundStrategy,
        settings: SabotageSettings,
        seed: int,
        keep: Keep,
        beside: tuple[str, ...],
    ) -> None:
        super().__init__(inner)
        self.settings, self.seed, self.keep, self.beside = settings, seed, keep, beside

    def start(self, clients: Clients) -> Exchanges:
        self.settings.check_among(clients)
        return self.inner.start(clients)

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """The round of `inner`, with what saboteurs send in the place of what they have learnt."""
        if number < self.settings.from_round:
            return (yield from self.inner.train(number, state, clients))
        own: list[Reply] = []

        def altered(tasks: Sequence[Task], replies: Sequence[Reply]) -> list[Reply]:
            own.extend(r for r in replies if r.partition in self.settings.partitions)
            return self._altered(number, tasks, replies)

        result = yield from around(
            self.inner.train(number, state, [self._claimed(c) for c in clients]),
            lambda tasks: [self._feasible(task, clients) for task in tasks],
            altered,
        )
        return replace(result, state=self.keep(result.state, own))

    def _claimed(self, client: ClientInfo) -> ClientInfo:
        lies = self.settings.attack == "weight-lie" and client.partition in self.settings.partitions
        return replace(client, num_examples=CLAIMED) if lies and client.num_examples else client

    def _feasible(self, task: Task, clients: Clients) -> Task:
        """A liar is asked for as many steps as its true samples are worth."""
        if self.settings.attack != "weight-lie" or task.partition not in self.settings.partitions:
            return task
        true = {c.partition: c.details.get("local-steps", 0) for c in clients}
        return replace(task, config={**task.config, "steps": true[task.partition]})

    def _altered(self, number: int, tasks: Sequence[Task], replies: Sequence[Reply]) -> list[Reply]:
        starts = {task.partition: task.arrays for task in tasks}
        own = [r for r in replies if r.partition in self.settings.partitions]
        honest = [r for r in replies if r.partition not in self.settings.partitions]
        attack = ATTACKS.get(self.settings.attack)
        if attack is None or not own:
            return list(replies)
        seen = honest if self.settings.attack in KNOWING else []
        if any(isinstance(r.arrays, Stored) for r in seen):
            raise RunFailed(
                f"round {number}: sabotage.attack = {self.settings.attack} looks at all replies of a round at once, which "
                "are more than spill-above lets the server hold; raise spill-above, or choose another attack"
            )
        changes = [change(starts[r.partition], self._model(r)) for r in seen]
        false = []
        for reply in own:
            rng = rng_for(self.seed, "sabotage", number, reply.partition)
            known = Known(changes, len(own), self.settings.scale or None, rng)
            made = attack(starts[reply.partition], self._model(reply), known)
            arrays = {k: np.asarray(made.get(k, v), v.dtype) for k, v in reply.arrays.items()}
            if complaint := range_complaint(arrays):
                raise RunFailed(
                    f"round {number}: sabotage.scale: {complaint}, which the check of replies would stop; lower it"
                )
            false.append(replace(reply, arrays=stored_like(reply.arrays, arrays)))
        return sorted([*honest, *false], key=lambda r: r.partition)

    def _model(self, reply: Reply) -> Named:
        """What an attack is about."""
        return picked(reply.arrays, [k for k in reply.arrays if not k.startswith(self.beside)])
