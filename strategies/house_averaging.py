"""Federated training of one model in many houses: Algorithm 1 of FedVLN (Zhou & Wang 2022), and its centralised baseline.

Each round int(r N) training houses start from the server's model (an agent, or a speaker), make ceil(tau n_k / B) optimizer
steps on their own data and send it back; the server moves by eta times the mean of the deltas weighted by n_k, or client by
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
from fedsuite.vln.stages import modules_of, visit_steps
from fedsuite.vln.wire import OPTIMIZER, SPEAKER
from strategies.participation import participants, published_participants
from strategies.scoring import evaluate_everywhere, scores_of
from strategies.selection import BEST, BEST_ROUND, best_of, keep_best

STEPS_SO_FAR, SERVER_RATE = "local-steps", "server-learning-rate"
Merged = Generator[Sequence[Task], Sequence[Reply], tuple[Arrays, list[Reply]]]


class HouseAveraging:
    """Server side. `initial`: the model's arrays before round 1; `speaker`: sent once to every house that trains, where
    the stage has generated instructions.
    """

    def __init__(
        self, config: FedVLNConfig, initial: Arrays, speaker: Arrays | None = None
    ) -> None:
        self.config, self.initial, self.speaker = config, initial, speaker or {}

    # --- the three phases of a run ---------------------------------------------------------------

    def start(self, clients: Sequence[ClientInfo]) -> Exchanges:
        """Hand out what stays with the houses, and score the initial model once."""
        yield from self._hand_out(clients)
        # A single client needs no averaging: the centralised model goes on from where its client left it.
        centralised = self.config.method == "centralised"
        rate = 1.0 if centralised else self.config.server_learning_rate
        arrays = self._start_arrays()
        metrics = yield from self._evaluate(0, arrays, clients)
        best, scalars = keep_best(self.config, 0, metrics, arrays, {}, {})
        scalars |= {STEPS_SO_FAR: 0, SERVER_RATE: rate}
        return RoundResult(ServerState({**arrays, **best}, scalars), metrics)

    def round(self, number: int, state: ServerState, clients: Sequence[ClientInfo]) -> Exchanges:
        """Train the participants, merge, and every k-th round evaluate."""
        chosen = self._participants(number, clients)
        weights = shares([c.num_examples for c in chosen])
        rate = float(state.scalars[SERVER_RATE])
        told = {k: state.scalars[k] for k in (BEST_ROUND,) if k in state.scalars}
        server = _without_best(state.arrays)
        if self.config.aggregation == "parallel" and self.config.client_optimizer != "shared":
            arrays, replies = yield from self._parallel(server, chosen, weights, rate, told)
        else:
            arrays, replies = yield from self._one_by_one(server, chosen, weights, rate, told)
        metrics = {f"train.{k}": v for k, v in _training_means(replies).items()}
        metrics |= {"server-learning-rate": rate, "update-norm": _distance(server, arrays)}
        metrics |= self._disclosure(replies, chosen)
        scalars = self._next_scalars(state.scalars, replies)
        metrics["local-steps"] = float(scalars[STEPS_SO_FAR])
        if self._is_evaluated(number):
            metrics = (yield from self._evaluate(number, _model_only(arrays), clients)) | metrics
        old = with_prefix(best_of(state.arrays), BEST)
        best, found = keep_best(
            self.config, number, metrics, _model_only(arrays), state.scalars, old
        )
        return RoundResult(ServerState({**arrays, **best}, {**scalars, **found}), metrics)

    def finish(self, state: ServerState, clients: Sequence[ClientInfo]) -> Exchanges:
        """The run's result is the selected model; the houses write what was asked for (submissions, spoken texts)."""
        model = self._selected(state)
        metrics = self._selected_round(state)
        if self.config.submission or self.config.stage == "speaker":
            asked: dict[str, Scalar] = {"write": True}
            scores = scores_of(self.config)
            metrics = (yield from evaluate_everywhere(model, clients, scores, asked)) | metrics
        return RoundResult(ServerState(model, state.scalars), metrics)

    # --- what stages differ in -------------------------------------------------------------------

    def _hand_out(self, clients: Sequence[ClientInfo]) -> Generator[Sequence[Task], object, None]:
        """The speaker, to every house that trains with it."""
        kept = with_prefix(self.speaker, SPEAKER)
        asked: dict[str, Scalar] = {"keep": True}
        trainers = [c for c in clients if c.num_examples > 0] if kept else []
        yield [Task(c.partition, "evaluate", kept, asked, {}) for c in trainers]

    def _start_arrays(self) -> Arrays:
        """What the server merges, before round 1."""
        return self.initial

    def _evaluate(
        self, number: int, model: Arrays, clients: Sequence[ClientInfo]
    ) -> Generator[Sequence[Task], Sequence[Reply], dict[str, float]]:
        """Scores after round `number`."""
        return (yield from evaluate_everywhere(model, clients, scores_of(self.config)))

    def _disclosure(
        self, replies: Sequence[Reply], chosen: Sequence[ClientInfo]
    ) -> dict[str, float]:
        """What the round's replies gave away: how many of the agent's modules, and of how many houses together."""
        if self.config.stage != "pre-explore":
            return {}
        sent = {module for reply in replies for module in modules_of(reply.arrays)}
        houses = max(int(c.details["training-houses"]) for c in chosen)
        return {"modules-sent": float(len(sent)), "houses-per-client": float(houses)}

    # --- one round -------------------------------------------------------------------------------

    def _participants(self, number: int, clients: Sequence[ClientInfo]) -> list[ClientInfo]:
        trainers = [c for c in clients if c.num_examples > 0]
        if self.config.method == "centralised":
            return trainers
        if self.config.participation == "published":
            return published_participants(trainers, self.config.participation_rate, number)
        return participants(trainers, self.config.participation_rate, self.config.seed, number)

    def _parallel(
        self,
        server: Arrays,
        chosen: Sequence[ClientInfo],
        weights: np.ndarray,
        rate: float,
        told: Mapping[str, Scalar],
    ) -> Merged:
        """FedAvg; if a client is lost, the weights of the others are taken relative to one another."""
        replies = list((yield [self._train_task(c, server, told) for c in chosen]))
        order = {c.partition: w for c, w in zip(chosen, weights, strict=True)}
        got = np.array([order[r.partition] for r in replies])
        return parallel_step(server, [r.arrays for r in replies], got / got.sum(), rate), replies

    def _one_by_one(
        self,
        server: Arrays,
        chosen: Sequence[ClientInfo],
        weights: np.ndarray,
        rate: float,
        told: Mapping[str, Scalar],
    ) -> Merged:
        """Sequential aggregation, or parallel aggregation whose clients hand one optimizer state on."""
        model, optimizer = _model_only(server), _optimizer_only(server)
        replies: list[Reply] = []
        start, locals_, used = model, [], []
        for client, weight in zip(chosen, weights, strict=True):
            answers = yield [self._train_task(client, {**model, **optimizer}, told)]
            for reply in answers:
                local, optimizer = _model_only(reply.arrays), _optimizer_only(reply.arrays)
                replies.append(reply)
                if self.config.aggregation == "sequential":
                    model = sequential_step(model, local, float(weight), rate)
                else:
                    locals_.append(local)
                    used.append(float(weight))
        if locals_:
            model = parallel_step(start, locals_, np.array(used) / sum(used), rate)
        return {**model, **optimizer}, replies

    def _train_task(self, client: ClientInfo, arrays: Arrays, told: Mapping[str, Scalar]) -> Task:
        c = self.config
        steps = visit_steps(c, client.num_examples)
        if c.method == "centralised":
            houses = int(client.details["training-houses"])
            share = max(1, int(houses * c.participation_rate)) / houses
            steps = max(1, round(int(client.details["local-steps"]) * share))
        config: dict[str, Scalar] = {**told, "steps": steps}
        if c.client_optimizer != "shared":
            return Task(client.partition, "train", _model_only(arrays), config)
        returns = {k: v.shape for k, v in _model_only(arrays).items()}
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

    def _selected(self, state: ServerState) -> Arrays:
        return best_of(state.arrays) if BEST_ROUND in state.scalars else _model_only(state.arrays)

    def _selected_round(self, state: ServerState) -> dict[str, float]:
        if BEST_ROUND not in state.scalars:
            return {}
        return {"selected-round": float(state.scalars[BEST_ROUND])}

    def _is_evaluated(self, number: int) -> bool:
        every = self.config.evaluate_every
        return number == self.config.num_rounds or (every > 0 and number % every == 0)


def _without_best(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """A server state's arrays without the best model so far."""
    return {k: v for k, v in arrays.items() if not k.startswith(BEST)}


def _training_means(replies: Sequence[Reply]) -> dict[str, float]:
    """Means over optimizer steps."""
    kept = [{k: v for k, v in r.metrics.items() if k != "steps"} for r in replies]
    return weighted_means(kept, [r.metrics["steps"] for r in replies])


def _model_only(arrays: Mapping[str, np.ndarray]) -> Arrays:
    return {k: v for k, v in arrays.items() if not k.startswith((OPTIMIZER, BEST))}


def _optimizer_only(arrays: Mapping[str, np.ndarray]) -> Arrays:
    return with_prefix(under_prefix(arrays, OPTIMIZER), OPTIMIZER)


def _distance(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> float:
    """Euclidean length of the agent's change in this round."""
    squares = (
        float(np.square(b[k].astype(np.float64) - v).sum()) for k, v in _model_only(a).items()
    )
    return float(np.sqrt(sum(squares)))
