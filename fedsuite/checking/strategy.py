"""Holds a RoundStrategy to the contract of fedsuite.federation, without a network and without clients."""

import inspect
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from fedsuite.arrays import Arrays, fingerprint
from fedsuite.checking.contract import (
    BEST,
    RATE,
    STEPS,
    ContractError,
    as_text,
    check_reply,
    check_result,
    check_tasks,
    echo,
    kind_of,
    no_exception,
    require,
)
from fedsuite.errors import InputError, RunFailed
from fedsuite.federation import (
    ClientInfo,
    Exchanges,
    Reply,
    RoundStrategy,
    ServerState,
    Task,
    UnderWay,
)

Answer = Callable[[Task], Reply]
HIDDEN = (
    "the object keeps something that belongs into the state (a resumed run has a new object), "
    "or random numbers do not come from fedsuite.randomness"
)


def check_strategy(
    strategy: RoundStrategy,
    clients: Sequence[ClientInfo],
    *,
    rounds: int = 2,
    answer: Answer = echo,
    make: Callable[[], RoundStrategy] | None = None,
    may_lose: bool = True,
) -> None:
    """Drive start, evaluate 0, train, evaluate and close of some rounds, and finish; ContractError for a broken clause.

    answer: makes up the reply to a task, whose config has what the loop adds (`round`, `checkpoint-rounds`, `best-round`).
    make: makes the strategy anew. may_lose: False for protocols that cannot go on without everybody.

    * every step is a generator that yields lists of Task and returns a RoundResult
    * tasks: known partitions, each once in an exchange; one kind an exchange; evaluations ask for no arrays
    * arrays are plain finite numpy arrays by name; config values are scalars, under names that the loop does not use
    * nothing that was given (state, replies) or sent (tasks) is changed
    * the state keeps names, shapes and types of its arrays, the loop's own scalars and the best state; scalars are plain
    * metrics are finite numbers; those of `selection` appear in every evaluation after round 0; `rate` makes sense
    * from a copy of the state and the same replies come the same tasks and results, also by a new object (`make`)
    * a lost reply is survived, or the run fails with RunFailed or InputError
    """
    _check_values(strategy)
    make = make or (lambda: strategy)
    first = Drive(clients, answer)
    before_round_1 = first.play(lambda: strategy, rounds)
    Drive(clients, answer, earlier=first).play(make, rounds)
    if not may_lose:
        return
    try:
        Drive(clients, answer, loses=True).train(make(), 1, deepcopy(before_round_1))
    except (RunFailed, InputError):
        pass
    except ContractError as error:
        raise ContractError(f"when a reply is lost (or may_lose=False): {error}") from error


@dataclass
class Drive:
    """One run, checked step by step. earlier: a run whose replies are given again, and which must come again."""

    clients: Sequence[ClientInfo]
    answer: Answer
    earlier: "Drive | None" = None
    loses: bool = False

    def __post_init__(self) -> None:
        self.replies: list[list[Reply]] = []
        self.said: list[str] = []  # all tasks and results, in order
        self.steps = 0

    def play(self, fresh: Callable[[], RoundStrategy], rounds: int) -> ServerState:
        """The whole run, every round by `fresh()` and from a copy of the state; returns the state before round 1."""
        strategy = fresh()
        state = self.step("start", 0, strategy.start(self.clients)).state
        rate = {RATE: strategy.rate.rate} if strategy.rate else {}
        state = replace(state, scalars={**rate, STEPS: 0, **state.scalars})
        state = initial = self.evaluate(strategy, 0, state)
        for number in range(1, rounds + 1):
            strategy, state = fresh(), deepcopy(state)
            state = self.train(strategy, number, state)
            state = self.evaluate(strategy, number, state)
            closing = strategy.close(number, state, self.clients, bool(strategy.selection.metrics))
            state = self.step("close", number, closing, state).state
        strategy, state = fresh(), deepcopy(state)
        self.step("finish", rounds, strategy.finish(rounds, state, self.clients), state)
        return initial

    def train(self, strategy: RoundStrategy, number: int, state: ServerState) -> ServerState:
        """As the loop does: the steps of the replies are added up."""
        self.steps = 0
        training = strategy.train(number, state, self.clients)
        state = self.step("train", number, training, state).state
        total = int(state.scalars[STEPS]) + self.steps
        return replace(state, scalars={**state.scalars, STEPS: total})

    def evaluate(self, strategy: RoundStrategy, number: int, state: ServerState) -> ServerState:
        """As the loop does; every evaluation is the best so far."""
        scoring = strategy.evaluate(number, state, self.clients)
        result = self.step("evaluate", number, scoring, state)
        wanted, found = strategy.selection.metrics, result.metrics
        lacks = [name for name in wanted if name not in found]
        good, cause = number == 0 or not lacks, "another name in `selection`, or in `answer`"
        require(good, f"evaluate({number})", f"the selection's {wanted}", [*found], cause)
        if not wanted or lacks:
            return result.state
        best = {f"best-score.{i}": float(found[name]) for i, name in enumerate(wanted)}
        scalars = {**result.state.scalars, BEST: number, "evaluations-since-best": 0, **best}
        return replace(result.state, scalars=scalars, best=result.state.arrays)

    def step(
        self, name: str, number: int, exchanges: Exchanges, given: ServerState | None = None
    ) -> Any:
        where, kind = f"{name}({number})", type(exchanges).__name__
        cause = "no `yield` in it; a step that asks nobody yields [] before its return"
        require(inspect.isgenerator(exchanges), where, "a generator", kind, cause)
        before = as_text(given) if given else ""
        watched: list[tuple[Arrays, str]] = []
        sent: Any = None  # at first nothing can be sent
        try:
            while True:
                with no_exception(where, "a bug, or replies lack what it needs; give `answer`"):
                    tasks = exchanges.send(sent)
                check_tasks(where, tasks, {c.partition for c in self.clients})
                awaited = tasks.awaited if isinstance(tasks, UnderWay) else len(tasks)
                self._say(where, "tasks", str(awaited), *(as_text(t) for t in tasks))
                tasks = sorted(tasks[:awaited], key=lambda task: task.partition)
                replies = self._replies(where, number, given, tasks)
                arrays = [*(dict(t.arrays) for t in tasks), *(dict(r.arrays) for r in replies)]
                watched += [(a, fingerprint(a)) for a in arrays]
                sent = replies
        except StopIteration as stop:
            result = stop.value
        same = all(fingerprint(a) == digest for a, digest in watched)
        cause = "arithmetic in place (+=, out=, |=); work on a copy"
        require(same, where, "arrays of tasks and replies as they were", "others", cause)
        same = given is None or as_text(given) == before
        require(same, where, "the state that was given as it was", "another", cause)
        check_result(where, result, None if name == "finish" else given)
        metrics = {k: float(v) for k, v in result.metrics.items()}
        self._say(where, "result", as_text(result.state), repr(metrics))
        return result

    def _replies(
        self, where: str, number: int, given: ServerState | None, tasks: Sequence[Task]
    ) -> list[Reply]:
        if self.earlier is not None:
            replies = self.earlier.replies[len(self.replies)]
        else:
            rounds = ",".join(str(n) for n in range(max(1, number)))
            common: dict[str, Any] = {"round": number, "checkpoint-rounds": rounds}
            if given and BEST in given.scalars and kind_of(tasks) == "train":
                common[BEST] = given.scalars[BEST]
            replies = [self.answer(replace(t, config={**t.config, **common})) for t in tasks]
            for task, reply in zip(tasks, replies, strict=True):
                check_reply(f"{where}, reply of partition {task.partition}", task, reply)
        if self.loses and len(replies) > 1:
            self.loses, replies = False, replies[:-1]
        if kind_of(tasks) == "train":
            self.steps += sum(int(r.metrics.get("steps", 0)) for r in replies)
        # Copies, for whatever the strategy may do to its own.
        self.replies.append(deepcopy(replies))
        return deepcopy(replies)

    def _say(self, where: str, what: str, *texts: str) -> None:
        """Note what the strategy said; it must be what it said the first time."""
        place = len(self.said)
        self.said += texts
        if self.earlier is not None:
            same = self.earlier.said[place : len(self.said)] == [*texts]
            require(same, where, f"the same {what} as the first time", "others", HIDDEN)


def _check_values(strategy: RoundStrategy) -> None:
    chosen, rate = strategy.selection, strategy.rate
    texts = isinstance(chosen.metrics, tuple) and all(isinstance(m, str) for m in chosen.metrics)
    good, cause = texts and chosen.patience >= 0, "a text where a tuple is meant: (name,)"
    require(good, "selection", "a tuple of names and a patience >= 0", chosen, cause)
    good = rate is None or (rate.rate > 0 and 0 < rate.decay <= 1 and rate.every_steps >= 1)
    require(good, "rate", "rate > 0, 0 < decay <= 1, every_steps >= 1", rate, "a typing error")
