"""Federated averaging with several houses in one message: a worker trains them and sends the sum of their weighted changes.

Delta = sum_k p_k (w_k - w) as in FedAvg, added up as fedsuite/averaging/partial_sums.py says, so that the result has the
same bytes whatever `per_message` and the number of workers. The server sees no house's own change: whatever looks at
single changes (merge rules, bounds on lengths, control variates, FedExP's rate) cannot be had.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fedsuite.arrays import Arrays, under_prefix
from fedsuite.averaging.merging import server_step
from fedsuite.averaging.partial_sums import SUM, WEIGHT, tree_sum
from fedsuite.errors import RunFailed
from fedsuite.federation import Clients, Exchanges, RoundResult, ServerState, Task
from strategies.chains import trainers, weights_of
from strategies.house_averaging import HouseAveraging
from strategies.steps import PARTICIPATION, Steps


@dataclass(frozen=True)
class PartialSums(HouseAveraging):
    """per_message: houses of a message, a power of two."""

    per_message: int = 1

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """One exchange; a message that is lost, lost all its houses."""
        steps = Steps(self.seed, number, state, self.remembers)
        drawn = self.participation(steps.of(PARTICIPATION), trainers(clients))
        chosen = sorted(drawn, key=lambda client: client.partition)
        weights = weights_of(chosen)
        starts = range(0, len(chosen), self.per_message)
        groups = [chosen[at : at + self.per_message] for at in starts]
        replies = yield [self._message(group, state.arrays, weights) for group in groups]
        sums = {r.partition: r.arrays for r in replies if r.arrays}

        def sum_of(place: int) -> Arrays | None:
            sent = sums.get(groups[place][0].partition)
            return under_prefix(sent, SUM) if sent else None

        total = tree_sum(sum_of, len(groups))
        present = math.fsum(weights[r.partition] for r in replies)
        delta = {name: value / present for name, value in total.items()}
        step = self._step(steps, _no_single_changes)
        arrays, optimizer = server_step(
            state.arrays, delta, step, self.server_optimizer, state.optimizer
        )
        metrics = self._metrics(state.arrays, arrays, replies, chosen) | steps.metrics
        after = replace(state, arrays=arrays, optimizer=optimizer, rules=steps.kept(replies))
        return RoundResult(after, metrics)

    def _message(self, group: Clients, arrays: Arrays, weights: Mapping[int, float]) -> Task:
        """The model goes out once, and one sum comes back; both are in the first house's task."""
        tasks: list[Task] = []
        for client in group:
            own = self._task(client, {} if tasks else arrays)
            config = {**own.config, WEIGHT: weights[client.partition]}
            returns = {} if tasks else {SUM + name: v.shape for name, v in arrays.items()}
            types = dict.fromkeys(returns, "float64")
            tasks.append(replace(own, config=config, returns=returns, types=types))
        return Task(group[0].partition, "train", arrays, together=tuple(tasks))


def _no_single_changes() -> float:
    raise RunFailed(
        "the server optimizer asks for the changes of single houses, of which federation.houses-per-message sends sums "
        "only; set it to 0"
    )
