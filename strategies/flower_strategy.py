"""A RoundStrategy as a Flower strategy.

`start` hands the run to our round loop, which adds to Flower's what it lacks: exact membership,
checked replies, deadlines, history, checkpoints, resuming. The other methods of Flower's interface
are there for code that drives a strategy itself (Flower's wrappers, say). They serve rounds that
consist of one exchange of training tasks, and say so where a strategy asks for more.
"""

import dataclasses
from collections.abc import Callable, Iterable

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedsuite.config import RunSettings
from fedsuite.errors import RunFailed
from fedsuite.federation import Exchanges, Reply, RoundResult, RoundStrategy, ServerState, Task
from fedsuite.run_folder import RunFolder
from strategies.membership import Members, gather
from strategies.messages import TaskMessages, read_reply
from strategies.reply_checks import judge, usable_or_reason
from strategies.round_loop import OnEvent, RoundLoop, run_rounds

_ONE_EXCHANGE = (
    "this strategy's rounds are not one exchange of training tasks, which is all that Flower's configure_train and "
    "aggregate_train can express; run it with start()"
)


@dataclasses.dataclass
class _OpenRound:
    """A round between configure_train and aggregate_train."""

    exchanges: Exchanges
    tasks: list[Task]


class FedsuiteStrategy(Strategy):
    """`folder`: where the run writes; `num_clients`: nodes to wait for."""

    def __init__(
        self,
        strategy: RoundStrategy,
        settings: RunSettings,
        folder: RunFolder,
        num_clients: int,
        on_event: OnEvent = lambda _: None,
    ) -> None:
        self.strategy, self.settings, self.folder = strategy, settings, folder
        self.num_clients, self.on_event = num_clients, on_event
        self._members: Members | None = None
        self._open: _OpenRound | None = None
        self._state: ServerState | None = None

    def run(self, grid: Grid) -> RoundResult:
        """The whole run; its final state and closing metrics."""
        return run_rounds(
            grid, self.strategy, self.settings, self.folder, self.num_clients, self.on_event
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
        return Result(
            arrays=_record(outcome.state),
            evaluate_metrics_clientapp={
                self.settings.num_rounds: MetricRecord(dict(outcome.metrics))
            },
        )

    def initial_arrays(self, grid: Grid) -> ArrayRecord:
        """What code that drives the strategy itself starts from: the strategy's own round 0."""
        return _record(self._current(grid))

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Messages of the round's one exchange; `config` is added to every task's."""
        scalars = self._current(grid).scalars
        members = self._membership(grid)
        state = ServerState({str(k): v.numpy() for k, v in arrays.items()}, scalars)
        exchanges = self.strategy.round(server_round, state, members.clients)
        tasks = sorted(next(exchanges), key=lambda task: task.partition)
        if any(task.kind != "train" for task in tasks):
            raise RuntimeError(_ONE_EXCHANGE)
        self._open = _OpenRound(exchanges, tasks)
        factory = TaskMessages(2 * self.settings.reply_deadline_s)
        common = {"round": server_round, "checkpoint-rounds": "0"}
        return [
            factory.message(t, members.node_of[t.partition], {**config, **t.config, **common})  # type: ignore[dict-item]
            for t in tasks
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Judge, sort and merge the replies of the round that configure_train opened."""
        if self._open is None:
            raise RuntimeError("call configure_train before aggregate_train")
        opened, self._open = self._open, None
        usable = self._usable(server_round, opened.tasks, replies)
        try:
            opened.exchanges.send(usable)
        except StopIteration as stop:
            result: RoundResult = stop.value
            self._state = result.state
            return _record(result.state), MetricRecord(dict(result.metrics))
        raise RuntimeError(_ONE_EXCHANGE)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Nothing: evaluation belongs to the strategy's rounds."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Nothing was asked."""
        return None

    def summary(self) -> None:
        """One line; the resolved configuration stands in the run folder."""
        print(f"{type(self.strategy).__name__}: {self.num_clients} clients, {self.folder.path}")

    def _current(self, grid: Grid) -> ServerState:
        if self._state is None:
            members = self._membership(grid)
            loop = RoundLoop(grid, self.settings, self.folder, members, self.on_event)
            self._state = loop.play(0, self.strategy.start(members.clients)).state
        return self._state

    def _membership(self, grid: Grid) -> Members:
        if self._members is None:
            s = self.settings
            self._members = gather(grid, self.num_clients, 0, s.node_deadline_s, s.reply_deadline_s)
        return self._members

    def _usable(self, number: int, tasks: list[Task], messages: Iterable[Message]) -> list[Reply]:
        assert self._members is not None  # configure_train has run
        raws = {m.metadata.src_node_id: read_reply(m) for m in messages}
        answers = [raws.get(self._members.node_of[t.partition]) for t in tasks]
        verdicts = [
            judge(t, raw, self.settings.reply_deadline_s)
            for t, raw in zip(tasks, answers, strict=True)
        ]
        names = [self._members.clients[t.partition].name for t in tasks]
        reason = usable_or_reason(verdicts, names, self.settings.min_reply_fraction)
        if reason:
            raise RunFailed(f"round {number}, train: {reason}")
        return [v.reply for v in verdicts if v.reply is not None]


def _record(state: ServerState) -> ArrayRecord:
    return ArrayRecord({name: Array(value) for name, value in state.arrays.items()})
