"""FedRL's exchange between a rewarded party and its partners, message by message (Zhuo et al. 2019, algorithms 1 and 2).

The server relays; it opens no data. Exchange n moves K parallel episodes one step, then learns from U
minibatches of B records (K = 1: the paper's algorithms). A joint actions, P parties, alpha is number 0.

    propose      partners: Q^ of what they see now                                      q.p [K, A]
    act          alpha: joint actions, episodes that begin, ids of minibatches       actions, episodes [K], ids [U, B]
    answer       partners follow the actions; ComputeQ(ids)                             q.p, q-next.p [U, B, A]
    learn-first  alpha makes the targets and steps                                       targets [U, B], q.0 [U, B, A], MLP
    learn        partners in turn: UpdateQ(targets, ids, q, MLP)                         MLP, and the next proposal

With joint updates all partners step at once with the MLP from before alpha's step, and return none. A run
of one party (DQN, FCN) needs no relay: a round is one message. Nothing else crosses; alpha's metrics
(mean rewards, scores of tests) go to the run's history and to no partner.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedsuite.arrays import LARGEST_COUNT, Arrays, module_arrays, under_prefix, with_prefix
from fedsuite.errors import RunFailed
from fedsuite.federation import (
    Asking,
    Clients,
    Exchanges,
    RoundResult,
    Scalar,
    Selection,
    ServerState,
)
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.networks import new_mlp
from fedsuite.fedrl.learning.schedule import Schedule
from strategies.party_relay import (
    ALPHA,
    MLP,
    PartyRelay,
    Ranges,
    Scalars,
    Shapes,
    add_released,
    check_agreement,
    first_counts,
)
from strategies.runtime.bookkeeping import BEST_ROUND, DEPTH, STEPS

BEST = "best-mlp."


class TwoParty(PartyRelay):
    """The server's side. State: the shared MLP, the best round's, counts. score: the metric that chooses the best round."""

    def __init__(self, config: FedRLConfig, score: str) -> None:
        self.config, self.schedule = config, Schedule(config)
        self.selection = Selection((f"valid.{score}",), config.learning.patience)
        super().__init__(len(config.federation.roles))

    # --- the phases of a run ---------------------------------------------------------------------

    def start(self, clients: Clients) -> Exchanges:
        """Compare the parties' worlds; the MLP that all begin with."""
        check_agreement(clients)
        mlp: Arrays = {}
        if self.num_parties > 1:
            mlp = module_arrays(new_mlp(self.config, clients[ALPHA].count("actions"), "mlp"))
        yield []
        return RoundResult(ServerState(mlp, first_counts(self.num_parties)))

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """Some exchanges, each a step of all episodes and the updates after it."""
        self._begin_round(number - 1)
        scalars = dict(state.scalars)
        mlp = yield from self._train(scalars, state.arrays, clients)
        done = int(scalars["exchange"])
        metrics = {"exchanges": float(done)}
        if self.config.federation.explores:
            metrics["epsilon"] = self.schedule.epsilon(done)
        metrics |= self._steps_done(number, done)
        return RoundResult(replace(state, arrays=mlp, scalars=scalars), metrics)

    def evaluate(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """A validation; before round 1 there is nothing to choose between."""
        scalars, metrics = dict(state.scalars), {}
        if number > 0:
            noisy = self.config.privacy.test_noise == "noisy"
            plan: Scalars = dict(split="valid", noisy=noisy, best=False, number=4 * number)
            test = self._test(plan, state.arrays, scalars, clients)
            metrics = {f"valid.{k}": v for k, v in (yield from test).items()}
        return RoundResult(replace(state, scalars=scalars), metrics)

    def close(self, number: int, state: ServerState, clients: Clients, improved: bool) -> Exchanges:
        """Every party makes its state durable, and keeps its weights if they are the best so far."""
        everybody: dict[int, Arrays] = {p: {} for p in range(self.num_parties)}
        closed = yield from self._ask(everybody, "close", {}, {"best": improved})
        return RoundResult(state, closed[ALPHA].metrics)

    def finish(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """Test the best round's weights, without noise and with it."""
        self._begin_round(number)
        scalars, best = dict(state.scalars), BEST_ROUND in state.scalars
        if int(scalars["exchange"]) > 0:  # proposals for an exchange that did not come any more
            add_released(self.partners, self.schedule.envs, scalars)
        metrics: dict[str, float] = {"best-round": float(scalars.get(BEST_ROUND, 0))}
        kinds = {"none": (False,), "noisy": (True,), "both": (False, True)}
        for noisy in kinds[self.config.privacy.test_noise]:
            label = "test-noisy" if noisy else "test"
            draw = 4 * self.config.num_rounds + 1 + noisy
            plan: Scalars = dict(split="test", noisy=noisy, best=best, number=draw)
            test = self._test(plan, state.selected, scalars, clients)
            metrics |= {f"{label}.{k}": v for k, v in (yield from test).items()}
        yield from self._ask({p: {} for p in range(self.num_parties)}, "rest", {}, {})
        metrics |= {k: float(v) for k, v in scalars.items() if k.startswith("released.")}
        result = with_prefix(state.arrays, MLP) | with_prefix(state.best, BEST)
        return RoundResult(ServerState(result, scalars), metrics)

    # --- training --------------------------------------------------------------------------------

    def _train(self, scalars: dict[str, Scalar], mlp: Arrays, clients: Clients) -> Asking[Arrays]:
        """The exchanges of a round; the MLP after them. Counts go into `scalars`."""
        config, first = self.config, int(scalars["exchange"])
        if not config.federation.trains:
            return mlp
        if self.num_parties == 1:
            yield from self._train_alone(scalars, clients[ALPHA].count("longest"))
            return mlp
        by_episodes, limit = config.learning.round_unit == "episodes", config.learning.round_length
        alpha = clients[ALPHA]
        num_actions, longest = alpha.count("actions"), alpha.count("longest")
        # Every env ends one within the longest episode's steps and begins the next.
        most = -(-limit // self.schedule.envs) * longest if by_episodes else self._per_round
        proposals: dict[int, np.ndarray] = {}
        episodes, exchange = 0, first
        while episodes < limit if by_episodes else exchange < first + most:
            if exchange == first + most:
                raise RunFailed(
                    f"{clients[ALPHA].name}: {episodes} of {limit} episodes ended within {most} exchanges, but with "
                    f"{longest} steps at most all must have; see to what this party runs, then continue with --resume"
                )
            mlp, proposals, ended = yield from self._exchange(exchange, mlp, proposals, num_actions)
            self._count_released(exchange, scalars)
            exchange, episodes = exchange + 1, episodes + ended
        scalars["exchange"] = exchange
        return mlp

    def _train_alone(self, scalars: dict[str, Scalar], longest: int) -> Asking[None]:
        """A round of a run without partners, in one message; longest: most steps of an episode."""
        length, first = self.config.learning.round_length, int(scalars["exchange"])
        if self.config.federation.method.startswith("fcn-"):
            yield from self._ask({ALPHA: {}}, "imitate", {}, {"count": length})
            scalars["exchange"] = first + self._per_round
            return
        least = count = self._per_round
        own = {"first": first, "count": count, "most-episodes": 0}
        if self.config.learning.round_unit == "episodes":
            # It ends after some number of exchanges; this many would be too many.
            least, count = 1, length * longest
            own |= {"count": count, "most-episodes": length}
        may_be: Ranges = {"exchanges": (least, count)}
        replies = yield from self._ask({ALPHA: {}}, "train-alone", {}, own, may_be)
        scalars["exchange"] = first + int(replies[ALPHA].metrics["exchanges"])

    def _steps_done(self, rounds: int, exchanges: int) -> dict[str, float]:
        """Gradient steps of all parties so far, and the longest chain of which each needed the one before.

        A minibatch is a step of every party: one after the other where they update the MLP in turn, else side by side.
        """
        own = sum(map(self.schedule.updates, range(exchanges)))
        if self.config.federation.method.startswith("fcn-"):
            own = rounds * self.config.learning.round_length
        in_turn = self.config.published.rules.mlp_updates == "alternating"
        chain = own * self.num_parties if in_turn else own
        return {STEPS: float(own * self.num_parties), DEPTH: float(chain)}

    @property
    def _per_round(self) -> int:
        """Exchanges of a round that counts steps."""
        return -(-self.config.learning.round_length // self.schedule.envs)

    def _exchange(
        self, exchange: int, mlp: Arrays, proposals: dict[int, np.ndarray], num_actions: int
    ) -> Asking[tuple[Arrays, dict[int, np.ndarray], int]]:
        """Exchange n: the MLP after it, the partners' next proposals, how many episodes ended."""
        envs, updates = self.schedule.envs, self.schedule.updates(exchange)
        rows = (updates, self.config.learning.batch_size)
        blocks, seen = (*rows, num_actions), (envs, num_actions)
        at: dict[str, Scalar] = {"exchange": exchange}
        if not proposals:
            proposals = yield from self._propose(exchange, seen)
        sent = {ALPHA: {f"q.{p}": q for p, q in proposals.items()} | with_prefix(mlp, MLP)}
        returns: Shapes = {"actions": (envs,), "episodes": (envs,), "ids": rows}
        may_be: Ranges = {
            "actions": (-1, num_actions - 1), "episodes": (-1, LARGEST_COUNT), "ended": (0, envs),
            "ids": (0, (exchange + 1) * envs),
        }  # fmt: skip
        acted = yield from self._ask(sent, "act", returns, at, may_be)
        chosen = acted[ALPHA].arrays
        ended = int(acted[ALPHA].metrics["ended"])
        followed = {p: dict(chosen) for p in self.partners}
        answers = yield from self._ask(followed, "answer", {"q": blocks, "q-next": blocks}, at)
        if updates == 0:
            return mlp, (yield from self._propose(exchange + 1, seen)), ended
        q = {p: answers[p].arrays["q"] for p in self.partners}
        q_next = {f"q-next.{p}": answers[p].arrays["q-next"] for p in self.partners}
        sent = {ALPHA: {"ids": chosen["ids"]} | {f"q.{p}": q[p] for p in self.partners} | q_next}
        returns = {"targets": rows, "q": blocks} | {MLP + k: v.shape for k, v in mlp.items()}
        stepped = yield from self._ask(sent, "learn-first", returns, at)
        made = stepped[ALPHA].arrays
        mlp_before, mlp = mlp, under_prefix(made, MLP)
        q[ALPHA] = made["q"]
        asked = {"ids": chosen["ids"], "targets": made["targets"]}
        if self.config.published.rules.mlp_updates == "joint":
            sent = {p: asked | _others(q, p) | with_prefix(mlp_before, MLP) for p in self.partners}
            learnt = yield from self._ask(sent, "learn", {"proposal": seen}, at)
        else:
            learnt, shapes = {}, {"proposal": seen} | {MLP + k: v.shape for k, v in mlp.items()}
            for p in self.partners:
                sent = {p: asked | _others(q, p) | with_prefix(mlp, MLP)}
                learnt |= yield from self._ask(sent, "learn", shapes, at)
                mlp = under_prefix(learnt[p].arrays, MLP)
        return mlp, {p: learnt[p].arrays["proposal"] for p in self.partners}, ended

    def _propose(self, exchange: int, shape: tuple[int, ...]) -> Asking[dict[int, np.ndarray]]:
        replies = yield from self._ask(
            {p: {} for p in self.partners}, "propose", {"proposal": shape}, {"exchange": exchange}
        )
        return {p: replies[p].arrays["proposal"] for p in self.partners}

    def _count_released(self, exchange: int, scalars: dict[str, Scalar]) -> None:
        """Q-vectors that left each party in training: alpha's one a record; a partner's two, and its proposals."""
        records = self.schedule.updates(exchange) * self.config.learning.batch_size
        add_released([ALPHA], records, scalars)
        add_released(self.partners, 2 * records + self.schedule.envs, scalars)


def _others(q: Mapping[int, np.ndarray], party: int) -> Arrays:
    """The Q^ of all parties but one."""
    return {f"q.{p}": block for p, block in sorted(q.items()) if p != party}
