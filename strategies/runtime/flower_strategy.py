"""A RoundStrategy as a Flower strategy.

`start` hands the run to our round loop. The other methods of Flower's interface are there for code that drives a strategy
itself (Flower's own loop and its wrappers). They serve strategies that train with one exchange and evaluate with one at
most, and say so where a strategy asks for more. Flower's loop makes all its rounds, whatever the patience, and its result is
the last round's state, without close and finish.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedsuite.config import RunSettings
from fedsuite.errors import RunFailed
from fedsuite.federation import Exchanges, Reply, RoundResult, RoundStrategy, ServerState, Task
from fedsuite.run_folder import RunFolder
from strategies.runtime import bookkeeping
from strategies.runtime.exchange import STRAY, Members, OnEvent
from strategies.runtime.membership import gather
from strategies.runtime.messages import RawReply, TaskMessages, read_reply
from strategies.runtime.reply_checks import check_merged, check_reply, usable_or_reason
from strategies.runtime.round_loop import RoundLoop, run_rounds

_ONE_EXCHANGE = (
    "this strategy does not {} with one exchange, which is all that Flower's configure_{} and aggregate_{} can express; "
    "run it with start()"
)


class FedsuiteStrategy(Strategy):
    """`folder`: where the run writes; `names`: who takes part, by partition."""

    def __init__(
        self,
        strategy: RoundStrategy,
        settings: RunSettings,
        folder: RunFolder,
        names: Sequence[str],
        on_event: OnEvent = lambda _: None,
    ) -> None:
        self.strategy, self.settings, self.folder = strategy, settings, folder
        self.names, self.on_event = names, on_event
        self._members: Members | None = None
        # A step of the strategy between Flower's configure and aggregate, and what it asked for.
        self._opened: tuple[Exchanges, list[Task]] | None = None
        self._state: ServerState | None = None

    def run(self, grid: Grid) -> RoundResult:
        """The whole run; its final state and closing metrics."""
        return run_rounds(
            grid, self.strategy, self.settings, self.folder, self.names, self.on_event
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
        given = {"initial_arrays": initial_arrays, "train_config": train_config}
        given |= {"evaluate_config": evaluate_config, "evaluate_fn": evaluate_fn}  # type: ignore[dict-item]
        refused = [name for name, value in given.items() if value]
        if refused:
            raise ValueError(f"{refused[0]}: the strategy makes its own; leave this argument out")
        if num_rounds is not None:
            self.settings = dataclasses.replace(self.settings, num_rounds=num_rounds)
        if timeout is not None:
            self.settings = dataclasses.replace(self.settings, reply_deadline_s=timeout)
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
        clients = self._membership(grid).clients
        exchanges = self.strategy.train(server_round, state, clients)
        best = {k: v for k, v in state.scalars.items() if k == bookkeeping.BEST_ROUND}
        return self._open(server_round, "train", exchanges, ConfigRecord({**config, **best}))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check, sort and merge the replies of the round that configure_train opened."""
        usable, result = self._close(server_round, "train", replies)
        self._state, counts = bookkeeping.after_training(self.strategy, result.state, usable)
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
        exchanges = self.strategy.evaluate(server_round, state, self._membership(grid).clients)
        return self._open(server_round, "evaluate", exchanges, config)

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
        print(f"{type(self.strategy).__name__}: {len(self.names)} clients, {self.folder.path}")

    def _current(self, grid: Grid) -> ServerState:
        if self._state is None:
            members = self._membership(grid)
            loop = RoundLoop(grid, self.settings, self.folder, members, self.on_event)
            self._state = loop.start(self.strategy)
        return self._state

    def _with_arrays(self, grid: Grid, arrays: ArrayRecord) -> ServerState:
        """The state with the arrays that the caller goes on from."""
        named = {str(k): v.numpy() for k, v in arrays.items()}
        return dataclasses.replace(self._current(grid), arrays=named)

    def _open(
        self, number: int, kind: str, exchanges: Exchanges, config: ConfigRecord
    ) -> list[Message]:
        tasks = sorted(next(exchanges), key=lambda task: task.partition)
        if any(task.kind != kind for task in tasks):
            raise RuntimeError(_ONE_EXCHANGE.format(kind, kind, kind))
        self._opened = (exchanges, tasks)
        assert self._members is not None  # asked for just before
        factory = TaskMessages(2 * self.settings.reply_deadline_s)
        common = {"round": number, "checkpoint-rounds": "0"}
        return [
            factory.message(t, self._members.node_of[t.partition], {**config, **t.config, **common})  # type: ignore[dict-item]
            for t in tasks
        ]

    def _close(
        self, number: int, kind: str, replies: Iterable[Message]
    ) -> tuple[list[Reply], RoundResult]:
        """The usable replies and what the strategy makes of them."""
        if self._opened is None:
            raise RuntimeError(f"call configure_{kind} before aggregate_{kind}")
        (exchanges, tasks), self._opened = self._opened, None
        assert self._members is not None  # as above
        asked = {self._members.node_of[t.partition] for t in tasks}
        raws: dict[int, RawReply] = {}
        for message in replies:
            if (node := message.metadata.src_node_id) in asked - raws.keys():
                raws[node] = read_reply(message)
            else:
                self.folder.log_error(f"round {number}, node {node}", STRAY)
        answers = [raws.get(self._members.node_of[t.partition]) for t in tasks]
        deadline_s = self.settings.reply_deadline_s
        checked = [check_reply(t, raw, deadline_s) for t, raw in zip(tasks, answers, strict=True)]
        names = [self._members.clients[t.partition].name for t in tasks]
        failed = [(n, c) for n, c in zip(names, checked, strict=True) if c.reply is None]
        if reason := usable_or_reason(failed, len(tasks), self.settings.min_reply_fraction):
            raise RunFailed(f"round {number}, {kind}: {reason}")
        usable = [v.reply for v in checked if v.reply is not None]
        try:
            exchanges.send(usable)
        except StopIteration as stop:
            result: RoundResult = stop.value
            check_merged(number, result.state.arrays, usable, self.names)
            return usable, result
        raise RuntimeError(_ONE_EXCHANGE.format(kind, kind, kind))

    def _membership(self, grid: Grid) -> Members:
        if self._members is None:
            self._members = gather(grid, self.names, 0, self.settings, self.folder)
        return self._members


def _record(state: ServerState) -> ArrayRecord:
    return ArrayRecord({name: Array(value) for name, value in state.arrays.items()})
