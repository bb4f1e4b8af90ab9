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

from collections.abc import Generator, Mapping, Sequence

import numpy as np

from fedsuite.arrays import Arrays, module_arrays, under_prefix, with_prefix
from fedsuite.federation import (
    ClientInfo,
    Exchanges,
    Reply,
    RoundResult,
    Scalar,
    ServerState,
    Task,
)
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.party import new_mlp
from fedsuite.fedrl.schedule import Schedule
from fedsuite.fedrl.worlds import Split
from strategies.party_counts import (
    ALPHA,
    add_released,
    check_agreement,
    first_counts,
    remember_best,
)

MLP, BEST = "mlp.", "best-mlp."
Shapes = Mapping[str, tuple[int, ...]]
Relay = Generator[Sequence[Task], Sequence[Reply], dict[int, Reply]]


class TwoParty:
    """The server's side. State: the shared MLP, that of the best round, and counts (scalars)."""

    def __init__(self, config: FedRLConfig) -> None:
        self.config, self.schedule = config, Schedule(config)
        self.num_parties = len(config.roles)
        self.partners = range(1, self.num_parties)
        self._messages = [0] * self.num_parties
        self._after_round = 0

    # --- the three phases of a run ---------------------------------------------------------------

    def start(self, clients: Sequence[ClientInfo]) -> Exchanges:
        """Compare the parties' worlds; the MLP that all begin with."""
        check_agreement(clients)
        mlp: Arrays = {}
        if self.num_parties > 1:
            mlp = module_arrays(new_mlp(self.config, int(clients[ALPHA].details["actions"]), "mlp"))
        yield []
        return RoundResult(ServerState(with_prefix(mlp, MLP), first_counts(self.num_parties)))

    def round(self, number: int, state: ServerState, clients: Sequence[ClientInfo]) -> Exchanges:
        """Some exchanges, perhaps a validation, and every party's state made durable."""
        self._begin_round(number - 1)
        scalars, arrays = dict(state.scalars), dict(state.arrays)
        if self._is_over(scalars):
            return RoundResult(state)
        mlp = yield from self._train(scalars, under_prefix(arrays, MLP), clients)
        arrays |= with_prefix(mlp, MLP)
        metrics: dict[str, float] = {}
        improved = False
        if self._is_validated(number):
            noisy = self.config.test_noise == "noisy"
            scores = yield from self._test("valid", 4 * number, noisy, False, mlp, scalars, clients)
            metrics = {f"valid.{k}": v for k, v in scores.items()}
            improved = remember_best(number, scalars, scores[str(clients[ALPHA].details["score"])])
            if improved:
                arrays |= with_prefix(mlp, BEST)
        closed = yield from self._ask(
            {p: {} for p in range(self.num_parties)}, "close", {}, {"best": improved}
        )
        metrics |= closed[ALPHA].metrics
        metrics |= {"exchanges": float(scalars["exchange"]), "epsilon": self._epsilon(scalars)}
        return RoundResult(ServerState(arrays, scalars), metrics)

    def finish(self, state: ServerState, clients: Sequence[ClientInfo]) -> Exchanges:
        """Test the best round's weights, without noise and with it."""
        self._begin_round(self.config.num_rounds)
        scalars = dict(state.scalars)
        if int(scalars["exchange"]) > 0:  # proposals for an exchange that did not come any more
            add_released(self.partners, self.schedule.lanes, scalars)
        best = int(scalars["best-round"]) > 0
        mlp = under_prefix(state.arrays, BEST if best else MLP)
        metrics: dict[str, float] = {"best-round": float(scalars["best-round"])}
        for label, noisy in self._tests():
            number = 4 * self.config.num_rounds + 1 + noisy
            scores = yield from self._test("test", number, noisy, best, mlp, scalars, clients)
            metrics |= {f"{label}.{k}": v for k, v in scores.items()}
        yield from self._ask({p: {} for p in range(self.num_parties)}, "rest", {}, {})
        metrics |= {k: float(v) for k, v in scalars.items() if k.startswith("released.")}
        return RoundResult(ServerState(state.arrays, scalars), metrics)

    # --- training --------------------------------------------------------------------------------

    def _train(
        self, scalars: dict[str, Scalar], mlp: Arrays, clients: Sequence[ClientInfo]
    ) -> Generator[Sequence[Task], Sequence[Reply], Arrays]:
        """The exchanges of a round; the MLP after them. Counts go into `scalars`."""
        config, first = self.config, int(scalars["exchange"])
        if self.num_parties == 1:
            yield from self._train_alone(scalars, int(clients[ALPHA].details["longest"]))
            return mlp
        by_episodes, limit = config.round_unit == "episodes", config.round_length
        num_actions = int(clients[ALPHA].details["actions"])
        proposals: dict[int, np.ndarray] = {}
        episodes, exchange = 0, first
        while episodes < limit if by_episodes else exchange < first + self._per_round:
            mlp, proposals, ended = yield from self._exchange(exchange, mlp, proposals, num_actions)
            self._count_released(exchange, scalars)
            exchange, episodes = exchange + 1, episodes + ended
        scalars["exchange"] = exchange
        return mlp

    def _train_alone(
        self, scalars: dict[str, Scalar], longest: int
    ) -> Generator[Sequence[Task], Sequence[Reply], None]:
        """A round of a run without partners, in one message; longest: most steps of an episode."""
        config, first = self.config, int(scalars["exchange"])
        phase, own = "train-alone", {"first": first, "count": self._per_round, "most-episodes": 0}
        if config.method.startswith("fcn-"):
            phase, own = "imitate", {"count": config.round_length}
        elif config.round_unit == "episodes":
            # It ends after some number of exchanges; this many would be too many.
            own |= {"count": config.round_length * longest, "most-episodes": config.round_length}
        replies = yield from self._ask({ALPHA: {}}, phase, {}, own)
        done = replies[ALPHA].metrics.get("exchanges", self._per_round)
        scalars["exchange"] = first + int(done)

    @property
    def _per_round(self) -> int:
        """Exchanges of a round that counts steps."""
        return -(-self.config.round_length // self.schedule.lanes)

    def _exchange(
        self, exchange: int, mlp: Arrays, proposals: dict[int, np.ndarray], num_actions: int
    ) -> Generator[Sequence[Task], Sequence[Reply], tuple[Arrays, dict[int, np.ndarray], int]]:
        """Exchange n: the MLP after it, the partners' next proposals, how many episodes ended."""
        config, lanes, updates = self.config, self.schedule.lanes, self.schedule.updates(exchange)
        rows = (updates, config.batch_size)
        blocks, seen = (*rows, num_actions), (lanes, num_actions)
        at: dict[str, Scalar] = {"exchange": exchange}
        if not proposals:
            proposals = yield from self._propose(exchange, seen)
        acted = yield from self._ask(
            {ALPHA: {f"q.{p}": q for p, q in proposals.items()} | with_prefix(mlp, MLP)},
            "act",
            {"actions": (lanes,), "episodes": (lanes,), "ids": rows},
            at,
        )
        chosen = acted[ALPHA].arrays
        ended = int(acted[ALPHA].metrics["ended"])
        answers: dict[int, Reply] = yield from self._ask(
            {p: dict(chosen) for p in self.partners},
            "answer",
            {"q": blocks, "q-next": blocks},
            at,
        )
        if updates == 0:
            return mlp, (yield from self._propose(exchange + 1, seen)), ended
        q = {p: answers[p].arrays["q"] for p in self.partners}
        q_next = {f"q-next.{p}": answers[p].arrays["q-next"] for p in self.partners}
        stepped = yield from self._ask(
            {ALPHA: {"ids": chosen["ids"]} | {f"q.{p}": q[p] for p in self.partners} | q_next},
            "learn-first",
            {"targets": rows, "q": blocks} | {MLP + k: v.shape for k, v in mlp.items()},
            at,
        )
        made = stepped[ALPHA].arrays
        after_alpha = under_prefix(made, MLP)
        q[ALPHA] = made["q"]
        asked = {"ids": chosen["ids"], "targets": made["targets"]}
        if config.rules.mlp_updates == "joint":
            mlp_before, mlp = mlp, after_alpha
            sent = {p: asked | _others(q, p) | with_prefix(mlp_before, MLP) for p in self.partners}
            learnt = yield from self._ask(sent, "learn", {"proposal": seen}, at)
        else:
            learnt = {}
            mlp = after_alpha
            shapes = {"proposal": seen} | {MLP + k: v.shape for k, v in mlp.items()}
            for p in self.partners:
                sent = {p: asked | _others(q, p) | with_prefix(mlp, MLP)}
                learnt |= yield from self._ask(sent, "learn", shapes, at)
                mlp = under_prefix(learnt[p].arrays, MLP)
        return mlp, {p: learnt[p].arrays["proposal"] for p in self.partners}, ended

    def _propose(
        self, exchange: int, shape: tuple[int, ...]
    ) -> Generator[Sequence[Task], Sequence[Reply], dict[int, np.ndarray]]:
        replies = yield from self._ask(
            {p: {} for p in self.partners}, "propose", {"proposal": shape}, {"exchange": exchange}
        )
        return {p: replies[p].arrays["proposal"] for p in self.partners}

    # --- tests -----------------------------------------------------------------------------------

    def _test(
        self,
        split: Split,
        number: int,
        noisy: bool,
        best: bool,
        mlp: Arrays,
        scalars: dict[str, Scalar],
        clients: Sequence[ClientInfo],
    ) -> Generator[Sequence[Task], Sequence[Reply], dict[str, float]]:
        """Greedy episodes of a split, all side by side; alpha's scores."""
        facts = clients[ALPHA].details
        lanes, num_actions = int(facts[f"lanes.{split}"]), int(facts["actions"])
        plan: dict[str, Scalar] = {"split": split, "noisy": noisy, "best": best, "number": number}
        actions: Arrays = {}
        if self.partners:
            for tick in range(int(facts["longest"])):
                looked = yield from self._ask(
                    {p: actions for p in self.partners}, "look", {"q": (lanes, num_actions)},
                    {"tick": tick, **plan},
                )  # fmt: skip
                q = {f"q.{p}": looked[p].arrays["q"] for p in self.partners}
                chosen = yield from self._ask(
                    {ALPHA: q | with_prefix(mlp, MLP)}, "choose", {"actions": (lanes,)},
                    {"tick": tick, **plan},
                )  # fmt: skip
                # A partner learns from the next actions only that a lane's episode is over.
                lanes_looked = int((actions["actions"] >= 0).sum()) if actions else lanes
                add_released(self.partners, lanes_looked, scalars)
                actions = dict(chosen[ALPHA].arrays)
                if not chosen[ALPHA].metrics["active"]:
                    break
        scored = yield from self._ask({ALPHA: {}}, "scores", {}, plan)
        return dict(scored[ALPHA].metrics)

    def _tests(self) -> list[tuple[str, bool]]:
        kinds = {"none": (False,), "noisy": (True,), "both": (False, True)}
        return [("test-noisy" if n else "test", n) for n in kinds[self.config.test_noise]]

    # --- pieces ----------------------------------------------------------------------------------

    def _ask(
        self,
        arrays: Mapping[int, Arrays],
        phase: str,
        returns: Shapes,
        config: Mapping[str, Scalar],
    ) -> Relay:
        """One batch of messages, one per party named in `arrays`; replies by party."""
        tasks = []
        for p, own in arrays.items():
            place = {"after-round": self._after_round, "message": self._messages[p]}
            told = {"phase": phase, **place, **config}
            tasks.append(Task(p, "train", own, told, returns, summed=True))
            self._messages[p] += 1
        replies = yield tasks
        return {reply.partition: reply for reply in replies}

    def _begin_round(self, after: int) -> None:
        """Messages are numbered from 0 within a round, so that a party knows whether it has missed one."""
        self._after_round, self._messages = after, [0] * self.num_parties

    def _count_released(self, exchange: int, scalars: dict[str, Scalar]) -> None:
        """Q-vectors that left each party in training: alpha's one a record; a partner's two, and its proposals."""
        records = self.schedule.updates(exchange) * self.config.batch_size
        add_released([ALPHA], records, scalars)
        add_released(self.partners, 2 * records + self.schedule.lanes, scalars)

    def _is_over(self, scalars: Mapping[str, Scalar]) -> bool:
        patience = self.config.patience
        return 0 < patience <= int(scalars["rounds-since-best"])

    def _is_validated(self, number: int) -> bool:
        every = self.config.evaluate_every
        return number == self.config.num_rounds or (every > 0 and number % every == 0)

    def _epsilon(self, scalars: Mapping[str, Scalar]) -> float:
        return self.schedule.epsilon(int(scalars["exchange"]))


def _others(q: Mapping[int, np.ndarray], party: int) -> Arrays:
    """The Q^ of all parties but one."""
    return {f"q.{p}": block for p, block in sorted(q.items()) if p != party}
