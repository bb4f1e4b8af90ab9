"""The one round loop, for every system and every engine.

It drives the strategy's generators (round 0, rounds 1..n, closing), turns their tasks into
messages, judges the replies, sorts them by partition, writes history and timings, and saves
checkpoints. The strategy sees checked replies only; the loop knows nothing of what is learnt. A run
goes on from its latest checkpoint and then writes the bytes that it would have written without the
interruption.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from fedsuite import checkpoint
from fedsuite.arrays import non_finite
from fedsuite.checkpoint import RunState
from fedsuite.config import RunSettings, config_digest
from fedsuite.errors import InputError, RunFailed
from fedsuite.federation import (
    Exchanges,
    Reply,
    RoundResult,
    RoundStrategy,
    Scalar,
    ServerState,
    Task,
)
from fedsuite.history import HISTORY, TIMINGS, HistoryWriter, finite_metrics
from fedsuite.run_folder import RunFolder
from strategies.exchange import exchange
from strategies.membership import Members, gather
from strategies.messages import WORKER_DIED, RawReply, TaskMessages, read_reply
from strategies.reply_checks import judge, usable_or_reason
from strategies.round_rows import RoundRows

Event = Mapping[str, Any]
OnEvent = Callable[[Event], None]


def run_rounds(
    grid: Grid,
    strategy: RoundStrategy,
    settings: RunSettings,
    folder: RunFolder,
    num_clients: int,
    on_event: OnEvent = lambda _: None,
) -> RoundResult:
    """Run from round 0, or from the latest checkpoint if `settings.resume` is set, to the end.

    Events are the rows of timings.jsonl: ready, exchange, client, round; those of the closing start
    with "closing-".
    """
    begin = time.monotonic()
    resumed = _prepare_folder(settings, folder)
    at = resumed.round if resumed else 0
    members = gather(grid, num_clients, at, settings.node_deadline_s, settings.reply_deadline_s)
    loop = RoundLoop(grid, settings, folder, members, on_event)
    loop.tell(
        {"round": at, "kind": "ready", "clients": num_clients, "rounds": settings.num_rounds}
        | {"seconds": time.monotonic() - begin}
    )
    if resumed is None:
        state = loop.play(0, strategy.start(members.clients)).state
        loop.save(0, state)
    else:
        state = resumed.state
        loop.checkpoint_rounds = checkpoint.needed(folder.checkpoints)
    for number in range(at + 1, settings.num_rounds + 1):
        state = loop.play(number, strategy.round(number, state, members.clients)).state
        if number % settings.checkpoint_every == 0 or number == settings.num_rounds:
            loop.save(number, state)
    return loop.play(settings.num_rounds, strategy.finish(state, members.clients), "closing-")


class RoundLoop:
    """Plays rounds; `prefix` of its methods is "closing-" after the last round, else ""."""

    def __init__(
        self,
        grid: Grid,
        settings: RunSettings,
        folder: RunFolder,
        members: Members,
        on_event: OnEvent,
    ) -> None:
        self.grid, self.settings, self.folder = grid, settings, folder
        self.node_of, self.on_event = members.node_of, on_event
        self.names = {client.partition: client.name for client in members.clients}
        self.history = HistoryWriter(folder.path / HISTORY)
        self.timings = HistoryWriter(folder.path / TIMINGS)
        self.digest = config_digest(settings)
        self.checkpoint_rounds = [0]

    def play(self, number: int, exchanges: Exchanges, prefix: str = "") -> RoundResult:
        """One round: every exchange that the strategy asks for, then its result, checked and written down."""
        begin = time.monotonic()
        rows = RoundRows(number, prefix, self.names)
        try:
            result = self._play_exchanges(exchanges, rows)
            metrics = self._checked(number, result)
        finally:
            self.history.append(rows.history)
            self.tell(*rows.sums())
        kind = "closing" if prefix else "round"
        if metrics or not prefix:
            self.history.append([{"round": number, "kind": kind, "metrics": metrics}])
        self.tell(
            {"round": number, "kind": kind, "seconds": time.monotonic() - begin}
            | {"metrics": metrics}
        )
        return result

    def save(self, number: int, state: ServerState) -> None:
        """Make this round durable."""
        checkpoint.save(self.folder.checkpoints, RunState(number, state, self.digest))
        self.checkpoint_rounds = checkpoint.needed(self.folder.checkpoints)

    def tell(self, *events: Event) -> None:
        """Write events to timings.jsonl and hand them on."""
        self.timings.append(events)
        for event in events:
            self.on_event(event)

    def _play_exchanges(self, exchanges: Exchanges, rows: RoundRows) -> RoundResult:
        try:
            tasks = next(exchanges)
            while True:
                tasks = exchanges.send(self._exchange(tasks, rows))
        except StopIteration as stop:
            if not isinstance(stop.value, RoundResult):
                raise TypeError(
                    f"the strategy must return a RoundResult, got {stop.value!r}"
                ) from None
            return stop.value

    def _exchange(self, tasks: Sequence[Task], rows: RoundRows) -> list[Reply]:
        """Send tasks, judge what comes back; replies by partition, or RunFailed."""
        if not tasks:
            return []
        ordered = sorted(tasks, key=lambda task: task.partition)
        number, kind = rows.number, ordered[0].kind
        if ordered[0].summed:
            rows.tell_progress(self.on_event)
        else:
            self.tell(
                {"round": number, "kind": f"{rows.prefix}exchange", "task": kind}
                | {"clients": len(ordered)}
            )
        raws = self._send(ordered, rows)
        deadline_s = self.settings.reply_deadline_s
        verdicts = [judge(t, raw, deadline_s) for t, raw in zip(ordered, raws, strict=True)]
        for task, verdict in zip(ordered, verdicts, strict=True):
            rows.judged(task, verdict)
        where = f"round {number}, {kind}"
        names = [self.names[task.partition] for task in ordered]
        dead = [n for n, r in zip(names, raws, strict=True) if r is not None and r.worker_died]
        if dead:
            raise RunFailed(
                f"{where}: {', '.join(dead)}: {WORKER_DIED}; resume with fewer --workers or smaller batches"
            )
        reason = usable_or_reason(verdicts, names, self.settings.min_reply_fraction)
        if reason:
            raise RunFailed(f"{where}: {reason}")
        return [verdict.reply for verdict in verdicts if verdict.reply is not None]

    def _send(self, tasks: Sequence[Task], rows: RoundRows) -> list[RawReply | None]:
        number, deadline_s = rows.number, self.settings.reply_deadline_s
        factory = TaskMessages(ttl_s=2 * deadline_s)
        raws: list[RawReply | None] = [None] * len(tasks)

        def keep(position: int, reply: Message, seconds: float) -> None:
            raw = raws[position] = read_reply(reply)
            task = tasks[position]
            if raw.error:
                self._log_error(number, self.names[task.partition], raw.detail or raw.error)
            event = rows.timed(task, raw, seconds)
            if event:
                self.tell(event)

        messages = (
            factory.message(task, self.node_of[task.partition], self._config(number, task))
            for task in tasks
        )
        exchange(self.grid, messages, deadline_s, keep)
        return raws

    def _config(self, number: int, task: Task) -> dict[str, Scalar]:
        needed = ",".join(map(str, self.checkpoint_rounds))
        return {**task.config, "round": number, "checkpoint-rounds": needed}

    def _log_error(self, number: int, name: str, detail: str) -> None:
        with self.folder.errors.open("a", encoding="utf-8") as file:
            file.write(f"--- round {number}, {name}\n{detail.rstrip()}\n")

    def _checked(self, number: int, result: RoundResult) -> dict[str, float]:
        """Refuse a server state or metrics with NaN or infinity; metrics as plain floats."""
        bad = non_finite(result.state.arrays)
        if bad:
            raise RunFailed(
                f"round {number}: the merged model holds NaN or infinity in {bad[0]} "
                f"({len(bad)} such arrays); lower the learning rates"
            )
        try:
            return finite_metrics(result.metrics)
        except ValueError as error:
            raise RunFailed(f"round {number}: {error}") from None


def _prepare_folder(settings: RunSettings, folder: RunFolder) -> RunState | None:
    """The state to go on from, with the folder cut back to it; None for a new run."""
    if not settings.resume:
        return None
    state = checkpoint.latest(folder.checkpoints)
    if state is None:
        raise InputError(
            f"{folder.path}: no checkpoint to resume from; start the run again with --overwrite"
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
    checkpoint.discard_after(folder.checkpoints, state.round)
    HistoryWriter(folder.path / HISTORY).truncate(state.round)
    HistoryWriter(folder.path / TIMINGS).truncate(state.round)
    return state
