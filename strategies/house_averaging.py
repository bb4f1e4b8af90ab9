"""Federated training in seen houses: Algorithm 1 of FedVLN (Zhou & Wang 2022), and its centralised baseline.

Each round int(r N) training houses start from the server's agent, make ceil(tau n_k / B) optimizer steps on their own
instructions and send the agent back; the server moves by eta times the mean of the deltas weighted by n_k, or client by
client ("sequential", what the published numbers came from). Houses that own validation instructions score the result.

Centralised training is the same with a single client that holds all houses and makes as many steps a round as the
participating houses would make on average.
"""

from collections.abc import Generator, Mapping, Sequence

import numpy as np

from fedsuite.aggregation import parallel_step, sequential_step, shares, weighted_means
from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.federation import (
    ClientInfo,
    Exchanges,
    Reply,
    RoundResult,
    Scalar,
    ServerState,
    Task,
)
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.learner import local_steps
from fedsuite.vln.wire import OPTIMIZER, VALIDATION
from strategies.participation import participants, published_participants

STEPS_SO_FAR, SERVER_RATE = "local-steps", "server-learning-rate"
HEADLINE = ("val_unseen.sr", "val_seen.sr", "val_unseen.spl", "val_unseen.ne")  # shown first


class HouseAveraging:
    """Server side of seen-environment training. `initial`: agent arrays before round 1."""

    def __init__(self, config: FedVLNConfig, initial: Arrays) -> None:
        self.config, self.initial = config, initial

    # --- the three phases of a run ---------------------------------------------------------------

    def start(self, clients: Sequence[ClientInfo]) -> Exchanges:
        """The initial agent, scored once."""
        # A single client needs no averaging: the centralised agent goes on from where its client left it.
        centralised = self.config.method == "centralised"
        rate = 1.0 if centralised else self.config.server_learning_rate
        state = ServerState(self.initial, {STEPS_SO_FAR: 0, SERVER_RATE: rate})
        return RoundResult(state, (yield from evaluate_everywhere(self.initial, clients)))

    def round(self, number: int, state: ServerState, clients: Sequence[ClientInfo]) -> Exchanges:
        """Train the participants, merge, and every k-th round evaluate."""
        chosen = self._participants(number, clients)
        weights = shares([c.num_examples for c in chosen])
        rate = float(state.scalars[SERVER_RATE])
        if self.config.aggregation == "parallel" and self.config.client_optimizer != "shared":
            arrays, replies = yield from self._parallel(state.arrays, chosen, weights, rate)
        else:
            arrays, replies = yield from self._one_by_one(state.arrays, chosen, weights, rate)
        metrics = {f"train.{k}": v for k, v in _training_means(replies).items()}
        metrics |= {"server-learning-rate": rate, "update-norm": _distance(state.arrays, arrays)}
        scalars = self._next_scalars(state.scalars, replies)
        metrics["local-steps"] = float(scalars[STEPS_SO_FAR])
        if self._is_evaluated(number):
            metrics = (yield from evaluate_everywhere(_agent_only(arrays), clients)) | metrics
        return RoundResult(ServerState(arrays, scalars), metrics)

    def finish(self, state: ServerState, clients: Sequence[ClientInfo]) -> Exchanges:
        """The run's result is the agent; submission files are written by the houses if asked for."""
        agent = _agent_only(state.arrays)
        metrics: dict[str, float] = {}
        if self.config.submission:
            metrics = yield from evaluate_everywhere(agent, clients, submission=True)
        return RoundResult(ServerState(agent, state.scalars), metrics)

    # --- one round -------------------------------------------------------------------------------

    def _participants(self, number: int, clients: Sequence[ClientInfo]) -> list[ClientInfo]:
        trainers = [c for c in clients if c.num_examples > 0]
        if self.config.method == "centralised":
            return trainers
        if self.config.participation == "published":
            return published_participants(trainers, self.config.participation_rate, number)
        return participants(trainers, self.config.participation_rate, self.config.seed, number)

    def _parallel(
        self, server: Arrays, chosen: Sequence[ClientInfo], weights: np.ndarray, rate: float
    ) -> Generator[Sequence[Task], Sequence[Reply], tuple[Arrays, list[Reply]]]:
        """FedAvg; if a client is lost, the weights of the others are taken relative to one another."""
        replies = list((yield [self._train_task(c, server) for c in chosen]))
        order = {c.partition: w for c, w in zip(chosen, weights, strict=True)}
        got = np.array([order[r.partition] for r in replies])
        return parallel_step(server, [r.arrays for r in replies], got / got.sum(), rate), replies

    def _one_by_one(
        self, server: Arrays, chosen: Sequence[ClientInfo], weights: np.ndarray, rate: float
    ) -> Generator[Sequence[Task], Sequence[Reply], tuple[Arrays, list[Reply]]]:
        """Sequential aggregation, or parallel aggregation whose clients hand one optimizer state on."""
        agent, optimizer = _agent_only(server), _optimizer_only(server)
        replies: list[Reply] = []
        start, locals_, used = agent, [], []
        for client, weight in zip(chosen, weights, strict=True):
            answers = yield [self._train_task(client, {**agent, **optimizer})]
            for reply in answers:
                local, optimizer = _agent_only(reply.arrays), _optimizer_only(reply.arrays)
                replies.append(reply)
                if self.config.aggregation == "sequential":
                    agent = sequential_step(agent, local, float(weight), rate)
                else:
                    locals_.append(local)
                    used.append(float(weight))
        if locals_:
            agent = parallel_step(start, locals_, np.array(used) / sum(used), rate)
        return {**agent, **optimizer}, replies

    def _train_task(self, client: ClientInfo, arrays: Arrays) -> Task:
        c = self.config
        steps = local_steps(client.num_examples, c.local_epochs, c.batch_size)
        if c.method == "centralised":
            houses = int(client.details["training-houses"])
            share = max(1, int(houses * c.participation_rate)) / houses
            steps = max(1, round(int(client.details["local-steps"]) * share))
        config: dict[str, Scalar] = {"steps": steps}
        if c.client_optimizer != "shared":
            return Task(client.partition, "train", _agent_only(arrays), config)
        returns = {k: v.shape for k, v in _agent_only(arrays).items()}
        returns |= {f"{OPTIMIZER}{k}": s for k, s in returns.items()} | {f"{OPTIMIZER}step": ()}
        return Task(client.partition, "train", arrays, config, returns)

    def _next_scalars(
        self, scalars: Mapping[str, Scalar], replies: Sequence[Reply]
    ) -> dict[str, Scalar]:
        """Count local steps; eta decays once a round at most, when another server-decay-steps are full."""
        c = self.config
        before = int(scalars[STEPS_SO_FAR])
        after = before + sum(int(r.metrics["steps"]) for r in replies)
        rate = float(scalars[SERVER_RATE])
        if (
            c.method != "centralised"
            and after // c.server_decay_steps > before // c.server_decay_steps
        ):
            rate *= c.server_learning_rate_decay
        return {STEPS_SO_FAR: after, SERVER_RATE: rate}

    def _is_evaluated(self, number: int) -> bool:
        every = self.config.evaluate_every
        return number == self.config.num_rounds or (every > 0 and number % every == 0)


def evaluate_everywhere(
    agent: Arrays, clients: Sequence[ClientInfo], submission: bool = False
) -> Generator[Sequence[Task], Sequence[Reply], dict[str, float]]:
    """Score one agent on the validation instructions of every house that has some; means over instructions."""
    config: dict[str, Scalar] = {"submission": submission}
    tasks = [
        Task(c.partition, "evaluate", agent, config, {})
        for c in clients
        if any(c.details.get(f"{s}.count", 0) for s in VALIDATION)
    ]
    replies = yield tasks
    means: dict[str, float] = {}
    for split in VALIDATION:
        own = [under_split(r.metrics, split) for r in replies]
        counts = [m.pop("count", 0.0) for m in own]
        means |= {f"{split}.{k}": v for k, v in weighted_means(own, counts).items()}
        if sum(counts):
            means[f"{split}.count"] = sum(counts)
    return {k: means[k] for k in HEADLINE if k in means} | means


def under_split(metrics: Mapping[str, float], split: str) -> dict[str, float]:
    """The metrics named `<split>.<name>`, by name."""
    return {k.removeprefix(f"{split}."): v for k, v in metrics.items() if k.startswith(f"{split}.")}


def _training_means(replies: Sequence[Reply]) -> dict[str, float]:
    """Means over optimizer steps."""
    kept = [{k: v for k, v in r.metrics.items() if k != "steps"} for r in replies]
    return weighted_means(kept, [r.metrics["steps"] for r in replies])


def _agent_only(arrays: Mapping[str, np.ndarray]) -> Arrays:
    return {k: v for k, v in arrays.items() if not k.startswith(OPTIMIZER)}


def _optimizer_only(arrays: Mapping[str, np.ndarray]) -> Arrays:
    return with_prefix(under_prefix(arrays, OPTIMIZER), OPTIMIZER)


def _distance(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> float:
    """Euclidean length of the agent's change in this round."""
    squares = (
        float(np.square(b[k].astype(np.float64) - v).sum()) for k, v in _agent_only(a).items()
    )
    return float(np.sqrt(sum(squares)))
