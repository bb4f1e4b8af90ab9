"""A RoundStrategy as a Flower strategy.

`start` hands the run to our round loop. The other methods of Flower's interface are there for code that drives a strategy
itself (Flower's own loop and its wrappers). They serve strategies that train with one exchange and evaluate with one at
most, and say so where a strategy asks for more. Flower's loop makes all its rounds, whatever the patience, and its result is
the last round's state, without close and finish.
"""

import dataclasses
from collections.abc import Callable, Iterable

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedsuite.errors import RunFailed
from fedsuite.federation import (
    Clients,
    Exchanges,
    Reply,
    RoundResult,
    RoundStrategy,
    ServerState,
    Task,
    UnderWay,
)
from fedsuite.history import OnEvent
from fedsuite.roster.members import Roster
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import RunSettings
from strategies.runtime import bookkeeping
from strategies.runtime.membership import gather
from strategies.runtime.messages import RawReply, read_reply
from strategies.runtime.packing import arrays_of, plain_record
from strategies.runtime.post import STRAY
from strategies.runtime.records import RoundRecords, deepest
from strategies.runtime.round_loop import RoundLoop, run_rounds

_ONE_EXCHANGE = (
    "this strategy does not {} with one exchange, which is all that Flower's configure_{} and aggregate_{} can express; "
    "run it with start()"
)


class FedsuiteStrategy(Strategy):
    """`folder`: where the run writes; `roster`: who takes part; `known`: what it says of the clients, for `run_rounds`."""

    def __init__(
        self,
        strategy: RoundStrategy,
        settings: RunSettings,
        folder: RunFolder,
        roster: Roster,
        on_event: OnEvent = lambda _: None,
        known: Clients | None = None,
    ) -> None:
        self.strategy, self.settings, self.folder = strategy, settings, folder
        self.roster, self.on_event, self.known = roster, on_event, known
        self._loop: RoundLoop | None = None
        # A step of the strategy between Flower's configure and aggregate, and what it asked for.
        self._opened: tuple[Exchanges, list[Task]] | None = None
        self._state: ServerState | None = None

    def run(self, grid: Grid) -> RoundResult:
        """The whole run; its final state and closing metrics."""
        return run_rounds(
            grid, self.strategy, self.settings, self.folder, self.roster, self.on_event, self.known
        )

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int | None = None,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """The whole run, in Flower's terms. Rounds and timeout default to the settings'."""
        values = (initial_arrays, train_config, evaluate_config, evaluate_fn)
        names = ("initial_arrays", "train_config", "evaluate_config", "evaluate_fn")
        for name in (name for name, value in zip(names, values, strict=True) if value):
            raise ValueError(f"{name}: the strategy makes its own; leave this argument out")
        changes = {"num_rounds": num_rounds, "reply_deadline_s": timeout}
        given = {key: value for key, value in changes.items() if value is not None}
        self.settings = dataclasses.replace(self.settings, **given)  # type: ignore[arg-type]
        outcome = self.run(grid)
        closing = {self.settings.num_rounds: MetricRecord(dict(outcome.metrics))}
        return Result(arrays=_record(outcome.state), evaluate_metrics_clientapp=closing)

    def initial_arrays(self, grid: Grid) -> ArrayRecord:
        """What code that drives the strategy itself starts from: the strategy's own round 0."""
        return _record(self._current(grid))

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Messages of the round's one exchange; `config` is added to every task's."""
        state = self._with_arrays(grid, arrays)
        loop = self._in_loop(grid)
        loop.exchange.best = {k: v for k, v in state.scalars.items() if k == bookkeeping.BEST_ROUND}
        exchanges = self.strategy.train(server_round, state, loop.clients)
        return self._open(loop, server_round, "train", exchanges, config)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check, sort and merge the replies of the round that configure_train opened."""
        usable, result = self._close(server_round, "train", replies)
        depth = result.depth or deepest(usable)
        self._state, counts = bookkeeping.after_training(self.strategy, result.state, usable, depth)
        return _record(self._state), MetricRecord({**result.metrics, **counts})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Messages of an evaluation, where the settings want one after this round."""
        if self._opened is not None:
            # A wrapper that gave up on the round (Flower's do, on error replies) must not go on as if there had been none.
            raise RunFailed(
                f"round {server_round}: the replies to {len(self._opened[1])} tasks never came to be merged; "
                "see what the wrapper around this strategy logged about them"
            )
        every, last = self.settings.evaluate_every, self.settings.num_rounds
        if server_round != last and (every == 0 or server_round % every):
            return []
        state = self._with_arrays(grid, arrays)
        loop = self._in_loop(grid)
        exchanges = self.strategy.evaluate(
            server_round, state, loop.asked(self.strategy, server_round)[0]
        )
        return self._open(loop, server_round, "evaluate", exchanges, config)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Metrics of the evaluation that configure_evaluate opened; None without one."""
        if self._opened is None:
            return None
        _, result = self._close(server_round, "evaluate", replies)
        self._state, _ = bookkeeping.after_evaluation(
            self.strategy.selection, server_round, result.state, result.metrics
        )
        return MetricRecord(dict(result.metrics))

    def summary(self) -> None:
        print(f"{type(self.strategy).__name__}: {len(self.roster)} clients, {self.folder.path}")

    def _current(self, grid: Grid) -> ServerState:
        if self._state is None:
            self._state = self._in_loop(grid).start(self.strategy)
        return self._state

    def _with_arrays(self, grid: Grid, arrays: ArrayRecord) -> ServerState:
        """The state with the arrays that the caller goes on from."""
        return dataclasses.replace(self._current(grid), arrays=arrays_of(arrays))

    def _open(
        self, loop: RoundLoop, number: int, kind: str, exchanges: Exchanges, config: ConfigRecord
    ) -> list[Message]:
        asked = next(exchanges)
        tasks = sorted(asked, key=lambda task: task.partition)
        if isinstance(asked, UnderWay) or any(task.kind != kind for task in tasks):
            raise RuntimeError(_ONE_EXCHANGE.format(kind, kind, kind))
        self._opened = (exchanges, tasks)
        given = [dataclasses.replace(t, config={**config, **t.config}) for t in tasks]  # type: ignore[dict-item]
        # One by one: code that drives a strategy looks at arrays.
        return list(loop.exchange.messages(given, number, packed=False))

    def _close(
        self, number: int, kind: str, replies: Iterable[Message]
    ) -> tuple[list[Reply], RoundResult]:
        """The usable replies and what the strategy makes of them."""
        if self._opened is None or self._loop is None:
            raise RuntimeError(f"call configure_{kind} before aggregate_{kind}")
        (exchanges, tasks), self._opened = self._opened, None
        exchange = self._loop.exchange
        asked = {exchange.node_of[task.partition]: task for task in tasks}
        raws: dict[int, RawReply] = {}
        for message in replies:
            node = message.metadata.src_node_id
            if node in asked and node not in raws:
                raws[node] = read_reply(message, asked[node])
            else:
                self.folder.log_error(f"round {number}, node {node}", STRAY)
        records = RoundRecords(number, "", exchange.names)
        answers = [exchange.checked(task, raws.get(node)) for node, task in asked.items()]
        usable = exchange.judged(tasks, answers, records) if tasks else []
        exchange.trained |= {reply.partition: number for reply in records.trained}
        try:
            exchanges.send(usable)
        except StopIteration as stop:
            result: RoundResult = stop.value
            exchange.check(result.state.arrays, records)
            return usable, result
        raise RuntimeError(_ONE_EXCHANGE.format(kind, kind, kind))

    def _in_loop(self, grid: Grid) -> RoundLoop:
        if self._loop is None:
            members = gather(grid, self.roster, 0, self.settings, self.folder)
            self._loop = RoundLoop(grid, self.settings, self.folder, members, self.on_event)
        return self._loop


def _record(state: ServerState) -> ArrayRecord:
    return plain_record(state.arrays)
