"""Federated averaging of one model over many houses: Algorithm 1 of FedVLN (Zhou & Wang 2022).

Each round the participants start from the server's model (an agent, or a speaker), make ceil(tau n_k / B) optimizer steps on
their own data and send it back; the server moves by its optimizer along the merged change, FedAvg's being eta times the mean
of the deltas weighted by n_k. Houses that own validation instructions score the result.

Centralised training is the same with everybody taking part, everybody being a single client that holds all houses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedsuite.aggregation import (
    ONE,
    ServerOptimizer,
    Step,
    plain,
    server_step,
    weighted_means,
)
from fedsuite.arrays import Arrays, Share, under_prefix, with_prefix
from fedsuite.control_variates import CONTROL, server_control
from fedsuite.federation import (
    ClientInfo,
    Clients,
    Exchanges,
    RateSchedule,
    Reply,
    RoundResult,
    RoundStrategy,
    Scalar,
    Selection,
    ServerState,
    Task,
)
from fedsuite.robust import WEIGHTED_MEAN, Merge, lengths
from fedsuite.vln.message_keys import SPEAKER
from fedsuite.vln.stages import modules_of
from strategies.chains import (
    admitted_of,
    train_chains,
    trainers,
    training_task,
    weights_of_chains,
    without,
)
from strategies.participation import Grouping, Participation, everybody, one_by_one
from strategies.runtime.bookkeeping import RATE
from strategies.scoring import Scores, agent_means, by_split, evaluate_everywhere


@dataclass(frozen=True)
class HouseAveraging(RoundStrategy):
    """Server side; what differs between stages and methods are values.

    initial: the model before round 1; steps: a client's optimizer steps per round; scores: how houses' scores become one;
    share: what of the model is merged; max_share: the most weight of one house in a round; step: constants of the server
    optimizer, whose rate is `rate`; controls: what SCAFFOLD's control variates correct; speaker: sent once to every house
    that trains, where instructions are generated; writes: houses write submissions or spoken texts in the end; discloses:
    tell how much of the agents left the houses.
    """

    initial: Arrays
    steps: Callable[[ClientInfo], int]
    participation: Participation = everybody
    grouping: Grouping = one_by_one
    scores: Scores = agent_means
    share: Share = Share()
    merge: Merge = WEIGHTED_MEAN
    max_share: float = 1.0
    server_optimizer: ServerOptimizer = plain
    step: Step = ONE
    controls: Share = Share(())
    rate: RateSchedule = RateSchedule()
    selection: Selection = Selection()
    speaker: Arrays = field(default_factory=dict)
    writes: bool = False
    discloses: bool = False

    def start(self, clients: Clients) -> Exchanges:
        """Hand out the speaker to every house that trains with it."""
        kept = with_prefix(self.speaker, SPEAKER)
        who = trainers(clients) if kept else []
        yield [Task(c.partition, "evaluate", kept, {"keep": True}, {}) for c in who]
        merged = self.share.select(self.initial)
        return RoundResult(ServerState(merged, optimizer=self._first_controls(merged)))

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """Chains of participants train side by side, the members of one in turn; who is lost is left out of its chain."""
        chosen = self.participation(number, trainers(clients))
        chains = self.grouping(number, chosen)
        self.merge.check(len(chains))
        control = under_prefix(state.optimizer, CONTROL)
        beside = with_prefix(control, CONTROL)
        ends, replies = yield from train_chains(
            state.arrays, chains, lambda client, model: self._task(client, model | beside)
        )
        weights = weights_of_chains(chosen, ends, self.max_share)
        own = [end.arrays for end in ends]
        merged = self.merge(state.arrays, own, weights)
        step = self._step(state, lambda: mean_square(state.arrays, own, weights))
        arrays, optimizer = server_step(
            state.arrays,
            merged.delta,
            step,
            self.server_optimizer,
            without(state.optimizer, CONTROL),
        )
        changes = [under_prefix(r.arrays, CONTROL) for r in replies]
        control = server_control(control, changes, len(trainers(clients)))
        optimizer |= with_prefix(control, CONTROL)
        metrics = self._metrics(state.arrays, arrays, replies, chosen)
        after = replace(state, arrays=arrays, optimizer=optimizer)
        return RoundResult(after, metrics, admitted_of(merged, ends), max(e.depth for e in ends))

    def kinds(self, clients: Clients) -> Sequence[Clients]:
        return by_split(clients)

    def evaluate(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """The server's model on every house's validation instructions."""
        metrics = yield from evaluate_everywhere(state.arrays, clients, self.scores)
        return RoundResult(state, metrics)

    def finish(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """The selected model is the run's result; the houses write what was asked for."""
        metrics: dict[str, float] = {}
        if self.writes:
            asked: dict[str, Scalar] = {"write": True}
            metrics = yield from evaluate_everywhere(state.selected, clients, self.scores, asked)
        return RoundResult(ServerState(state.selected, state.scalars), metrics)

    def _first_controls(self, merged: Arrays) -> Arrays:
        """Control variates, all 0, of what they correct."""
        zeros = {k: np.zeros_like(v) for k, v in self.controls.select(merged).items()}
        return with_prefix(zeros, CONTROL)

    def _step(self, state: ServerState, mean_square: Callable[[], float]) -> Step:
        """The constants of this round's step, with the rate that eta has decayed to."""
        return replace(self.step, rate=float(state.scalars[RATE]), mean_square=mean_square)

    def _task(self, client: ClientInfo, arrays: Arrays) -> Task:
        return training_task(client, arrays, self.steps(client))

    def _metrics(
        self, before: Arrays, after: Arrays, replies: Sequence[Reply], chosen: Clients
    ) -> dict[str, float]:
        """Means of the replies' metrics over optimizer steps, the length of the server's step, and what was disclosed."""
        metrics = training_means(replies)
        metrics["update-norm"] = distance(before, after)
        return metrics | (disclosure(replies, chosen) if self.discloses else {})


def training_means(replies: Sequence[Reply]) -> dict[str, float]:
    """Means of the replies' metrics over optimizer steps."""
    means = weighted_means([r.metrics for r in replies], [r.metrics["steps"] for r in replies])
    return {f"train.{k}": v for k, v in means.items() if k != "steps"}


def disclosure(replies: Sequence[Reply], chosen: Clients) -> dict[str, float]:
    """What the round's replies gave away: how many of the agent's modules, and of how many houses together."""
    sent = {module for reply in replies for module in modules_of(reply.arrays)}
    houses = max(c.count("training-houses") for c in chosen)
    return {"modules-sent": float(len(sent)), "houses-per-client": float(houses)}


def mean_square(server: Arrays, clients: Sequence[Arrays], weights: np.ndarray) -> float:
    """sum_k p_k ||w_k - w||^2."""
    return float(weights @ lengths(server, clients) ** 2)


def distance(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> float:
    """Euclidean length of the model's change."""
    squares = (float(np.square(b[k].astype(np.float64) - v).sum()) for k, v in a.items())
    return float(np.sqrt(sum(squares)))
