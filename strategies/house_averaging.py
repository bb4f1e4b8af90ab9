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
    Merged,
    ServerOptimizer,
    capped,
    plain,
    server_step,
    shares,
    weighted_means,
)
from fedsuite.arrays import Arrays, Share, with_prefix
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
from fedsuite.robust import WEIGHTED_MEAN, Merge
from fedsuite.vln.message_keys import SPEAKER
from fedsuite.vln.stages import modules_of
from strategies.participation import Participation, everybody
from strategies.runtime.bookkeeping import RATE
from strategies.scoring import Scores, agent_means, evaluate_everywhere


@dataclass(frozen=True)
class HouseAveraging(RoundStrategy):
    """Server side; what differs between stages and methods are values.

    initial: the model before round 1; steps: a client's optimizer steps per round; scores: how houses' scores become one;
    share: what of the model is merged; max_share: the most weight of one house in a round;
    speaker: sent once to every house that trains, where instructions are generated;
    writes: houses write submissions or spoken texts in the end; discloses: tell how much of the agents left the houses.
    """

    initial: Arrays
    steps: Callable[[ClientInfo], int]
    participation: Participation = everybody
    scores: Scores = agent_means
    share: Share = Share()
    merge: Merge = WEIGHTED_MEAN
    max_share: float = 1.0
    server_optimizer: ServerOptimizer = plain
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
        return RoundResult(ServerState(self.share.select(self.initial)))

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """Participants train side by side; if one is lost, the others' weights are taken relative to one another."""
        chosen = self.participation(number, trainers(clients))
        self.merge.check(len(chosen))
        replies = yield [self._task(c, state.arrays) for c in chosen]
        weights = relative_weights(chosen, replies, self.max_share)
        merged = self.merge(state.arrays, [r.arrays for r in replies], weights)
        arrays, optimizer = server_step(
            state.arrays,
            merged.delta,
            float(state.scalars[RATE]),
            self.server_optimizer,
            state.optimizer,
        )
        metrics = self._metrics(state.arrays, arrays, replies, chosen)
        after = replace(state, arrays=arrays, optimizer=optimizer)
        return RoundResult(after, metrics, admitted_of(merged, replies))

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

    def _task(self, client: ClientInfo, arrays: Arrays) -> Task:
        return Task(client.partition, "train", arrays, {"steps": self.steps(client)})

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


def trainers(clients: Clients) -> list[ClientInfo]:
    """Clients that have something to train on."""
    return [c for c in clients if c.num_examples > 0]


def relative_weights(chosen: Clients, replies: Sequence[Reply], most: float = 1.0) -> np.ndarray:
    """p_k of those who replied, out of the round's, adding up to 1, none above `most`."""
    order = weights_of(chosen)
    got = np.array([order[r.partition] for r in replies])
    return capped(got / got.sum(), most)


def admitted_of(merged: Merged, replies: Sequence[Reply]) -> dict[int, float]:
    """By partition how much say a client had, where it was not all that its weight gives it."""
    if not len(merged.admitted):
        return {}
    pairs = zip(replies, merged.admitted, strict=True)
    return {r.partition: float(x) for r, x in pairs if x < 1}


def weights_of(chosen: Clients, most: float = 1.0) -> dict[int, float]:
    """p_k by partition, none above `most`."""
    weights = capped(shares([c.num_examples for c in chosen]), most)
    return {c.partition: float(w) for c, w in zip(chosen, weights, strict=True)}


def disclosure(replies: Sequence[Reply], chosen: Clients) -> dict[str, float]:
    """What the round's replies gave away: how many of the agent's modules, and of how many houses together."""
    sent = {module for reply in replies for module in modules_of(reply.arrays)}
    houses = max(int(c.details["training-houses"]) for c in chosen)
    return {"modules-sent": float(len(sent)), "houses-per-client": float(houses)}


def distance(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> float:
    """Euclidean length of the model's change."""
    squares = (float(np.square(b[k].astype(np.float64) - v).sum()) for k, v in a.items())
    return float(np.sqrt(sum(squares)))
