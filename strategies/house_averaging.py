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
    Merged,
    ServerOptimizer,
    Step,
    capped,
    plain,
    server_step,
    shares,
    weighted_means,
)
from fedsuite.arrays import Arrays, Share, with_prefix
from fedsuite.federation import (
    Asking,
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
from strategies.participation import Grouping, Participation, everybody, one_by_one
from strategies.runtime.bookkeeping import RATE
from strategies.scoring import Scores, agent_means, evaluate_everywhere


@dataclass(frozen=True)
class HouseAveraging(RoundStrategy):
    """Server side; what differs between stages and methods are values.

    initial: the model before round 1; steps: a client's optimizer steps per round; scores: how houses' scores become one;
    share: what of the model is merged; max_share: the most weight of one house in a round; step: constants of the server
    optimizer, whose rate is `rate`; speaker: sent once to every house that trains, where instructions are generated;
    writes: houses write submissions or spoken texts in the end; discloses: tell how much of the agents left the houses.
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
        """Chains of participants train side by side, the members of one in turn; who is lost is left out of its chain."""
        chosen = self.participation(number, trainers(clients))
        chains = self.grouping(number, chosen)
        self.merge.check(len(chains))
        ends, replies = yield from self._train_chains(state.arrays, chains)
        weights = capped(weights_of_chains(chosen, ends), self.max_share)
        own = [end.arrays for end in ends]
        merged = self.merge(state.arrays, own, weights)
        step = self._step(state, lambda: mean_square(state.arrays, own, weights))
        arrays, optimizer = server_step(
            state.arrays, merged.delta, step, self.server_optimizer, state.optimizer
        )
        metrics = self._metrics(state.arrays, arrays, replies, chosen)
        after = replace(state, arrays=arrays, optimizer=optimizer)
        depth = max(sum(steps_of(r) for r in end.replies) for end in ends)
        return RoundResult(after, metrics, admitted_of(merged, ends), depth)

    def _train_chains(
        self, start: Arrays, chains: Sequence[Clients]
    ) -> Asking[tuple[list["ChainEnd"], list[Reply]]]:
        """Where every chain ended, without those of which nobody replied; all replies by partition."""
        ends = [ChainEnd(start) for _ in chains]
        longest = max(map(len, chains))
        in_turn = sum(map(len, chains)) if longest > 1 else 0
        for place in range(longest):
            who = {c[place].partition: n for n, c in enumerate(chains) if place < len(c)}
            asked = [
                self._task(c[place], ends[n].arrays) for n, c in enumerate(chains) if place < len(c)
            ]
            for reply in (yield [replace(task, in_turn=in_turn) for task in asked]):
                ends[who[reply.partition]] = ends[who[reply.partition]].after(reply)
        reached = sorted((end for end in ends if end.replies), key=ChainEnd.lowest)
        replies = [reply for end in reached for reply in end.replies]
        return reached, sorted(replies, key=lambda reply: reply.partition)

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

    def _step(self, state: ServerState, mean_square: Callable[[], float]) -> Step:
        """The constants of this round's step, with the rate that eta has decayed to."""
        return replace(self.step, rate=float(state.scalars[RATE]), mean_square=mean_square)

    def _task(self, client: ClientInfo, arrays: Arrays) -> Task:
        return Task(client.partition, "train", arrays, {"steps": self.steps(client)})

    def _metrics(
        self, before: Arrays, after: Arrays, replies: Sequence[Reply], chosen: Clients
    ) -> dict[str, float]:
        """Means of the replies' metrics over optimizer steps, the length of the server's step, and what was disclosed."""
        metrics = training_means(replies)
        metrics["update-norm"] = distance(before, after)
        return metrics | (disclosure(replies, chosen) if self.discloses else {})


@dataclass(frozen=True)
class ChainEnd:
    """The model that a chain has come to, and the replies of its members so far."""

    arrays: Arrays
    replies: tuple[Reply, ...] = ()

    def lowest(self) -> int:
        """Partition that the chain's place in sums goes by."""
        return min(reply.partition for reply in self.replies)

    def after(self, reply: Reply) -> "ChainEnd":
        return ChainEnd(reply.arrays, (*self.replies, reply))


def steps_of(reply: Reply) -> int:
    """Optimizer steps that a client made; 0 if it does not count them."""
    return int(reply.metrics.get("steps", 0))


def training_means(replies: Sequence[Reply]) -> dict[str, float]:
    """Means of the replies' metrics over optimizer steps."""
    means = weighted_means([r.metrics for r in replies], [r.metrics["steps"] for r in replies])
    return {f"train.{k}": v for k, v in means.items() if k != "steps"}


def trainers(clients: Clients) -> list[ClientInfo]:
    """Clients that have something to train on."""
    return [c for c in clients if c.num_examples > 0]


def weights_of_chains(chosen: Clients, ends: Sequence[ChainEnd]) -> np.ndarray:
    """Sums of p_k over the members who replied, adding up to 1."""
    order = weights_of(chosen)
    got = np.array([sum(order[r.partition] for r in end.replies) for end in ends])
    return np.asarray(got / got.sum())


def admitted_of(merged: Merged, ends: Sequence[ChainEnd]) -> dict[int, float]:
    """By partition how much say a client had, where it was not all that its weight gives it."""
    if not len(merged.admitted):
        return {}
    pairs = zip(ends, merged.admitted, strict=True)
    return {r.partition: float(x) for end, x in pairs if x < 1 for r in end.replies}


def weights_of(chosen: Clients, most: float = 1.0) -> dict[int, float]:
    """p_k by partition, none above `most`."""
    weights = capped(shares([c.num_examples for c in chosen]), most)
    return {c.partition: float(w) for c, w in zip(chosen, weights, strict=True)}


def disclosure(replies: Sequence[Reply], chosen: Clients) -> dict[str, float]:
    """What the round's replies gave away: how many of the agent's modules, and of how many houses together."""
    sent = {module for reply in replies for module in modules_of(reply.arrays)}
    houses = max(int(c.details["training-houses"]) for c in chosen)
    return {"modules-sent": float(len(sent)), "houses-per-client": float(houses)}


def mean_square(server: Arrays, clients: Sequence[Arrays], weights: np.ndarray) -> float:
    """sum_k p_k ||w_k - w||^2."""
    return float(weights @ lengths(server, clients) ** 2)


def distance(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> float:
    """Euclidean length of the model's change."""
    squares = (float(np.square(b[k].astype(np.float64) - v).sum()) for k, v in a.items())
    return float(np.sqrt(sum(squares)))
