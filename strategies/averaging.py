"""Federated averaging of one model over any clients: named arrays out, trained ones back, and what makes one of them.

Each round the participants start from the server's model, make as many optimizer steps as they are asked for on their own
data, and send it back; the server moves by its optimizer along the merged change, FedAvg's being eta times the mean of the
deltas weighted by n_k. Who takes part, in which chains, how changes are merged, how the server steps and what SCAFFOLD
corrects are values. An evaluation asks every client, and takes means weighted by the examples that it was scored on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsuite.arrays import Arrays, Named, Share, under_prefix, with_prefix
from fedsuite.averaging.control_variates import CONTROL, server_control
from fedsuite.averaging.distances import lengths
from fedsuite.averaging.exchange import WHOLE, Exchange
from fedsuite.averaging.merging import (
    ONE,
    ServerOptimizer,
    ServerStep,
    merged_metrics,
    plain,
    server_step,
    weighted_means,
)
from fedsuite.averaging.privacy_settings import EPSILON
from fedsuite.averaging.robust import WEIGHTED_MEAN, Merge
from fedsuite.federation import (
    ClientInfo,
    Clients,
    Exchanges,
    RateSchedule,
    Reply,
    RoundResult,
    RoundStrategy,
    Selection,
    ServerState,
    Task,
)
from fedsuite.settings.metrics import NO_ROWS, Metrics
from strategies.chains import (
    admitted_of,
    train_chains,
    trainers,
    training_task,
    weights_of_chains,
    without,
)
from strategies.participation import Grouping, Participation, everybody, one_by_one
from strategies.private import Limit, no_limit
from strategies.runtime.bookkeeping import RATE
from strategies.steps import MERGE, PARTICIPATION, SERVER_OPTIMIZER, Steps


@dataclass(frozen=True)
class Averaging(RoundStrategy):
    """Server side of any system; what differs between methods are values.

    initial: the model before round 1; steps: a client's optimizer steps per round; max_share: the most weight of one client
    in a round; trusted: partition of the client by which fltrust measures others; step: constants of the server optimizer,
    whose rate is `rate`; controls: the arrays that SCAFFOLD's control variates correct; exchange: what of the model is
    merged, and what stays with each client, which gets its start once; metrics: the table by which clients' scores become
    one; seed: of the rules' streams; remembers: rules are told what clients said last; limit: why the run has to end before
    a round.
    """

    initial: Arrays
    steps: Callable[[ClientInfo], int]
    participation: Participation = everybody
    grouping: Grouping = one_by_one
    merge: Merge = WEIGHTED_MEAN
    max_share: float = 1.0
    trusted: int = 0
    server_optimizer: ServerOptimizer = plain
    step: ServerStep = ONE
    controls: Share = Share(())
    exchange: Exchange = WHOLE
    rate: RateSchedule = RateSchedule()
    selection: Selection = Selection()
    metrics: Metrics = NO_ROWS
    seed: int = 0
    remembers: bool = False
    limit: Limit = no_limit

    def over(self, number: int) -> str:
        return self.limit(number)

    def start(self, clients: Clients) -> Exchanges:
        """Hand out what stays with the clients."""
        yield self._handing_out(clients, {})
        return self._begun()

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """Chains of participants train side by side, the members of one in turn; who is lost is left out of its chain."""
        steps = Steps(self.seed, number, state, self.remembers)
        chosen = self.participation(steps.of(PARTICIPATION), trainers(clients))
        chains = self.grouping(number, chosen)
        self.merge.check(len(chains))
        control = under_prefix(state.optimizer, CONTROL)
        beside = with_prefix(control, CONTROL)
        ends, replies = yield from train_chains(
            state.arrays,
            chains,
            lambda client, model: self._task(client, model | beside if beside else model),
        )
        weights = weights_of_chains(chosen, ends, self.max_share)
        own = [end.arrays for end in ends]
        places = {end.lowest: place for place, end in enumerate(ends)}
        told = steps.of(MERGE, trusted=places.get(self.trusted))
        merged = self.merge(state.arrays, own, weights, told)
        step = self._step(steps, lambda: mean_square(state.arrays, own, weights))
        arrays, optimizer = server_step(
            state.arrays,
            merged.delta,
            step,
            self.server_optimizer,
            dict(without(state.optimizer, CONTROL)),
        )
        control = server_control(control, [r.arrays for r in replies], len(trainers(clients)))
        optimizer |= with_prefix(control, CONTROL)
        metrics = self._metrics(state.arrays, arrays, replies, chosen) | steps.metrics
        after = replace(state, arrays=arrays, optimizer=optimizer, rules=steps.kept(replies))
        return RoundResult(after, metrics, admitted_of(merged, ends), max(e.depth for e in ends))

    def evaluate(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """The server's model on what the clients score with."""
        replies = yield [Task(c.partition, "evaluate", state.arrays, returns={}) for c in clients]
        examples = [r.num_examples for r in replies]
        return RoundResult(
            state, merged_metrics(self.metrics, [r.metrics for r in replies], examples)
        )

    def _handing_out(self, clients: Clients, beside: Mapping[int, Arrays]) -> list[Task]:
        """Messages with the start of what stays with a client, and what it is to keep beside that, by partition."""
        own = self.exchange.kept(self.initial) if self.exchange.personal else {}
        return [
            Task(c.partition, "evaluate", own | beside.get(c.partition, {}), {"keep": True}, {})
            for c in clients
            if self.exchange.personal or c.partition in beside
        ]

    def _begun(self) -> RoundResult:
        """The state before round 1, with control variates, all 0, of what they correct."""
        merged = self.exchange.share.select(self.initial)
        zeros = {k: np.zeros_like(v) for k, v in self.controls.select(merged).items()}
        return RoundResult(ServerState(merged, optimizer=with_prefix(zeros, CONTROL)))

    def _step(self, steps: Steps, mean_square: Callable[[], float]) -> ServerStep:
        """The server optimizer's step, with the rate that eta has decayed to."""
        own = vars(steps.of(SERVER_OPTIMIZER))
        rate = float(steps.state.scalars[RATE])
        return replace(self.step, **own, rate=rate, mean_square=mean_square)

    def _task(self, client: ClientInfo, arrays: Arrays) -> Task:
        return training_task(client, arrays, self.steps(client))

    def _metrics(
        self, before: Arrays, after: Arrays, replies: Sequence[Reply], chosen: Clients
    ) -> dict[str, float]:
        """Means of the replies' metrics over optimizer steps, and the length of the server's step."""
        return training_means(replies) | {"update-norm": distance(before, after)}


def training_means(replies: Sequence[Reply]) -> dict[str, float]:
    """Means of the replies' metrics over optimizer steps; of what they have spent of their privacy the largest."""
    means = weighted_means([r.metrics for r in replies], [r.metrics["steps"] for r in replies])
    told = {f"train.{k}": v for k, v in means.items() if k != "steps"}
    if spent := [r.metrics[EPSILON] for r in replies if EPSILON in r.metrics]:
        told[f"train.{EPSILON}"] = max(spent)
    return told


def mean_square(server: Named, clients: Sequence[Named], weights: np.ndarray) -> float:
    """sum_k p_k ||w_k - w||^2."""
    return float(weights @ lengths(server, clients) ** 2)


def distance(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> float:
    """Euclidean length of the model's change."""
    squares = (float(np.square(b[k].astype(np.float64) - v).sum()) for k, v in a.items())
    return float(np.sqrt(sum(squares)))
