"""The one round loop, for every system and every engine.

A round is train, perhaps evaluate, close. The loop drives the strategy's generators, turns their tasks into messages,
checks the replies, sorts them by partition, writes history and timings, and saves checkpoints. It schedules evaluations,
counts steps and keeps the best state (bookkeeping.py). The strategy sees checked replies only; the loop knows nothing of
what is learnt. A run goes on from its latest checkpoint and then writes the bytes that it would have written without the
interruption.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from flwr.serverapp import Grid

from fedsuite.arrays import with_prefix
from fedsuite.errors import InputError, RunFailed
from fedsuite.federation import (
    ClientInfo,
    Clients,
    Exchanges,
    Reply,
    RoundResult,
    RoundStrategy,
    ServerState,
    Task,
)
from fedsuite.history import HISTORY, TIMINGS, HistoryWriter, Kind, OnEvent, event, finite_metrics
from fedsuite.randomness import ASKED, OF, some_of
from fedsuite.roster.members import Roster
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import ANEW, Checkpoints, RunState
from fedsuite.settings.config import RunSettings, config_digest
from strategies.runtime import bookkeeping
from strategies.runtime.exchange import TaskExchange
from strategies.runtime.members import Members
from strategies.runtime.membership import gather
from strategies.runtime.records import RoundRecords

Event = Mapping[str, Any]


def run_rounds(
    grid: Grid,
    strategy: RoundStrategy,
    settings: RunSettings,
    folder: RunFolder,
    roster: Roster,
    on_event: OnEvent = lambda _: None,
    known: Clients | None = None,
) -> RoundResult:
    """Run from round 0, or from the latest checkpoint if `settings.resume` is set, to the end.

    known: what the roster says of the clients, where it says all that they would.
    Events are the rows of timings.jsonl: ready, exchange, client, round, also with "closing-".
    """
    begin = time.monotonic()
    resumed = _prepare_folder(settings, folder)
    at = resumed.round if resumed else 0
    members = gather(grid, roster, at, settings, folder, known)
    loop = RoundLoop(grid, settings, folder, members, on_event)
    ready = {"clients": len(roster), "rounds": settings.num_rounds, **members.told}
    loop.emit(event(at, Kind.READY) | ready | {"seconds": time.monotonic() - begin})
    if resumed is None:
        state = loop.start(strategy)
        loop.save(0, state)
    else:
        state, loop.exchange.trained = resumed.state, dict(resumed.trained)
        loop.exchange.checkpoint_rounds = loop.checkpoints.needed()
    number = at
    while not bookkeeping.is_last(strategy, state, number, settings.num_rounds):
        number += 1
        state = loop.round(number, strategy, state)
        is_last = bookkeeping.is_last(strategy, state, number, settings.num_rounds)
        if number % settings.checkpoint_every == 0 or is_last:
            loop.save(number, state)
    loop.emit(*bookkeeping.ending(strategy, number, settings.num_rounds))
    return loop.finish(number, strategy, state)


class RoundLoop:
    """Runs rounds; `prefix` of its methods is "closing-" after the last round, else ""."""

    def __init__(
        self,
        grid: Grid,
        settings: RunSettings,
        folder: RunFolder,
        members: Members,
        on_event: OnEvent,
    ) -> None:
        self.settings, self.folder, self.clients = settings, folder, members.clients
        self.on_event = on_event
        self.history = HistoryWriter(folder.path / HISTORY)
        self.timings = HistoryWriter(folder.path / TIMINGS)
        self.digest = config_digest(settings)
        self.checkpoints = Checkpoints(folder.checkpoints)
        self.exchange = TaskExchange(grid, settings, folder, members, self.emit)

    def start(self, strategy: RoundStrategy) -> ServerState:
        """Round 0: the initial state, evaluated."""
        with self._recorded(0) as rows:
            state, _ = self._evaluate(0, strategy, self.initial(strategy, rows), rows)
        return state

    def initial(self, strategy: RoundStrategy, rows: RoundRecords) -> ServerState:
        """What the strategy starts from, not yet evaluated."""
        return bookkeeping.begin(strategy, self._run(strategy.start(self.clients), rows).state)

    def round(self, number: int, strategy: RoundStrategy, state: ServerState) -> ServerState:
        """Train, evaluate every k-th time, close."""
        every, improved = self.settings.evaluate_every, False
        self.exchange.best = {k: v for k, v in state.scalars.items() if k == bookkeeping.BEST_ROUND}
        with self._recorded(number) as rows:
            trained = self._run(strategy.train(number, state, self.clients), rows)
            rows.admitted(trained.admitted)
            self.exchange.trained |= {reply.partition: number for reply in rows.trained}
            state, counts = bookkeeping.after_training(
                strategy, trained.state, rows.trained, trained.depth or rows.depth
            )
            rows.metrics = {**trained.metrics, **counts}
            due = every > 0 and number % every == 0
            if due or number == self.settings.num_rounds or bookkeeping.ends(strategy, number):
                state, improved = self._evaluate(number, strategy, state, rows)
            closed = self._run(strategy.close(number, state, self.clients, improved), rows)
            rows.metrics |= closed.metrics
        return closed.state

    def finish(self, number: int, strategy: RoundStrategy, state: ServerState) -> RoundResult:
        """After the last round; the run's result."""
        asked, drawn = self.asked(strategy, number)
        with self._recorded(number, "closing-") as rows:
            with rows.spent("evaluation", whole=True):
                result = self._run(strategy.finish(number, state, asked), rows)
            rows.metrics = {**result.metrics, **bookkeeping.selected_round(state)}
            rows.metrics |= drawn if rows.history else {}
        return RoundResult(result.state, rows.metrics)

    def save(self, number: int, state: ServerState) -> None:
        written, trained = self.history.durable(), self.exchange.trained
        self.checkpoints.save_state(RunState(number, state, self.digest, written, trained))
        self.exchange.checkpoint_rounds = self.checkpoints.needed()

    def emit(self, *events: Event) -> None:
        """Write events to timings.jsonl and hand them on."""
        self.timings.append(events)
        for told in events:
            self.on_event(told)

    @contextmanager
    def _recorded(self, number: int, prefix: str = "") -> Iterator[RoundRecords]:
        """A round's lines, written down when it is over; those of its clients also when it failed."""
        begin = time.monotonic()
        rows = RoundRecords(number, prefix, self.exchange.names)
        try:
            yield rows
        finally:
            self.exchange.spill.empty()
            self.history.append(rows.history)
            self.emit(*rows.sums())
        try:
            metrics = finite_metrics(rows.metrics)
        except ValueError as error:
            raise RunFailed(f"round {number}: {error}") from None
        over = event(number, Kind.CLOSING if prefix else Kind.ROUND)
        if metrics or not prefix:
            self.history.append([over | {"metrics": metrics}])
        took = {"seconds": time.monotonic() - begin, **rows.totals}
        took |= {f"{name}-seconds": seconds for name, seconds in rows.seconds.items()}
        self.emit(over | took | {"metrics": metrics})

    def _evaluate(
        self, number: int, strategy: RoundStrategy, state: ServerState, rows: RoundRecords
    ) -> tuple[ServerState, bool]:
        """Score the state; whether it is the best so far."""
        asked, drawn = self.asked(strategy, number)
        with rows.spent("evaluation", whole=True):
            found = self._run(strategy.evaluate(number, state, asked), rows)
        rows.metrics = {**found.metrics, **rows.metrics, **drawn}
        return bookkeeping.after_evaluation(strategy.selection, number, found.state, found.metrics)

    def asked(
        self, strategy: RoundStrategy, number: int
    ) -> tuple[Sequence[ClientInfo], dict[str, float]]:
        """Whom the evaluation after a round may ask; metrics that say how many, where not all."""
        most, seed = self.settings.evaluation_clients, self.settings.seed
        if not most:
            return self.clients, {}
        kinds = strategy.kinds(self.clients)
        drawn = [c for k, own in enumerate(kinds) for c in some_of(own, most, seed, number, k)]
        asked = sorted(drawn, key=lambda c: c.partition)
        return asked, {ASKED: float(len(asked)), OF: float(sum(map(len, kinds)))}

    def _run(self, exchanges: Exchanges, rows: RoundRecords) -> RoundResult:
        """Every exchange that a step of the strategy asks for, then its result, checked."""
        try:
            with rows.spent("merging"):
                tasks = next(exchanges)
                while True:
                    tasks = exchanges.send(self._replies(tasks, rows))
        except StopIteration as stop:
            if not isinstance(stop.value, RoundResult):
                told = f"the strategy must return a RoundResult, got {stop.value!r}"
                raise TypeError(told) from None
            state = stop.value.state
            self.exchange.check(state.arrays | with_prefix(state.optimizer, "optimizer."), rows)
            return stop.value

    def _replies(self, tasks: Sequence[Task], rows: RoundRecords) -> list[Reply]:
        with rows.spent("waiting"):
            return self.exchange.replies(tasks, rows)


def _prepare_folder(settings: RunSettings, folder: RunFolder) -> RunState | None:
    """The state to go on from, with the folder cut back to it; None for a new run."""
    if not settings.resume:
        return None
    checkpoints = Checkpoints(folder.checkpoints)
    state = checkpoints.latest()
    if state is None:
        raise InputError(
            f"{folder.checkpoints}: no checkpoint to resume from; put one back from a copy, or {ANEW}"
        )
    if state.config_digest != config_digest(settings):
        raise InputError(
            f"{folder.path}: the checkpoint was made with another configuration; resume with the one in "
            "its config.json"
        )
    if settings.num_rounds < state.round:
        raise InputError(
            f"{folder.path}: num-rounds = {settings.num_rounds}, but round {state.round} is already done; "
            f"give num-rounds >= {state.round}"
        )
    history, timings = (HistoryWriter(folder.path / name) for name in (HISTORY, TIMINGS))
    timings.truncate(state.round)
    history.cut(state.history, "" if history.holds(state.history) else _way_back(folder, history))
    checkpoints.rollback(state.round)
    return state


def _way_back(folder: RunFolder, history: HistoryWriter) -> str:
    """What to do where the history is not the newest checkpoint's."""
    checkpoints = Checkpoints(folder.checkpoints)
    for number in reversed(checkpoints.rounds()[:-1]):
        with suppress(InputError):
            if (state := checkpoints.latest(number + 1)) and history.holds(state.history):
                newer = f"the files of {folder.checkpoints} after round {number}"
                return f"put the file back from a copy, or move {newer} away to resume from there"
    return f"put the file back from a copy; without one, {ANEW}"
