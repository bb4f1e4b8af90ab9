"""Neighbour averaging in which whoever relays sees no model: silos seal theirs for their neighbours, and mix themselves.

A round is two exchanges. In the first every silo trains the backbone that it has, and hands out a box of it for each
neighbour that takes from it (fedsuite/privacy/sealing.py); in the second it is told who has answered and given its
neighbours' boxes, opens them, and mixes by the rule of NeighbourAveraging with the same row of the same matrix, so that it
has the bytes that the server would have made. Backbones never come here: there is no average model, no distance between
silos, and the run's result at the server holds no arrays. A silo that is lost between the two keeps the backbone of before.
"""

from collections.abc import Sequence

import numpy as np

from fedsuite.arrays import forms_of
from fedsuite.driving.message_keys import BOXES, CLIPPED, MIX, PRESENT
from fedsuite.driving.topology.own_mixing import others
from fedsuite.errors import RunFailed
from fedsuite.federation import Clients, Exchanges, Reply, RoundResult, ServerState, Task
from fedsuite.privacy.sealing import ON, STAGE, sealed_bytes
from fedsuite.privacy.sum_terms import numbers_text
from strategies.neighbour_averaging import NeighbourAveraging, errors_by_silo, training_metrics
from strategies.sealed_keys import exchanged_keys

ASIDE = "sealed-mixing"


class SealedMixing(NeighbourAveraging):
    """Server side of scenarios without a server, over sealed messages. State: no arrays."""

    def start(self, clients: Clients) -> Exchanges:
        """Silos get to know each other's keys; the backbone that all start from they make themselves."""
        yield from exchanged_keys(clients)
        return RoundResult(ServerState({}))

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """Local updates, then one mixing step among the silos."""
        asked = {"first-mixing": number - 1, "mixings": 1}
        size = sealed_bytes({k: ((1, *s), t) for k, (s, t) in forms_of(self.initial).items()})
        full = self.schedule.matrix_among(number - 1, np.ones(self.num_silos, bool))
        takers = [others(full[:, i], i) for i in range(self.num_silos)]
        replies = yield [
            Task(i, "train", {}, asked, {BOXES: (len(to), size)}, types={BOXES: "uint8"})
            for i, to in enumerate(takers)
        ]
        boxes = {
            r.partition: dict(zip(takers[r.partition], r.arrays[BOXES], strict=True))
            for r in replies
        }
        present = np.isin(np.arange(self.num_silos), list(boxes))
        a = self.schedule.matrix_among(number - 1, present)
        told = {STAGE: MIX, PRESENT: numbers_text([*boxes])}
        tasks = []
        for i in sorted(boxes):
            mine = [boxes[j][i] for j in others(a[i], i)]
            own = {BOXES: np.stack(mine) if mine else np.zeros((0, size), np.uint8)}
            tasks.append(Task(i, "train", own, told, {}, aside=ASIDE, needs=(CLIPPED,)))
        mixed = yield tasks
        self._enough(number, mixed, clients)
        metrics = training_metrics(replies, self.config) | self.costs_after(number)
        if lost := self.num_silos - len(mixed):
            metrics["silos-missing"] = float(lost)
        if clipped := sum(reply.metrics[CLIPPED] for reply in mixed):
            links = sum(len(others(row, i)) for i, row in enumerate(a))
            metrics["links-clipped"] = clipped / max(1, links)
        return RoundResult(state, metrics)

    def evaluate(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """Every silo's own backbone over its own test frames."""
        replies = yield [Task(c.partition, "evaluate", {}, {}, {}) for c in clients]
        return RoundResult(state, errors_by_silo(replies, self.metrics))

    def finish(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """Backbones stay with their silos."""
        yield []
        return RoundResult(ServerState({}, state.scalars))

    def _enough(self, number: int, mixed: Sequence[Reply], clients: Clients) -> None:
        """RunFailed where more silos were lost than min-reply-fraction allows."""
        if len(mixed) >= self.config.min_reply_fraction * self.num_silos:
            return
        here = {reply.partition for reply in mixed}
        missing = ", ".join(c.name for c in clients if c.partition not in here)
        raise RunFailed(
            f"round {number}, {ON}: {missing} did not mix; why stands in errors.log; resume when it is back"
        )
