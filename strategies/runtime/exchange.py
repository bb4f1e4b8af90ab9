"""One exchange over a Flower grid: tasks out as messages, checked replies back, by partition.

Flower's own send_and_receive looks every 0.1 s, which together with the simulation's timer costs up to 0.2 s an exchange.
Here waiting starts at 10 ms and grows with the time already waited (2 % of it, up to 0.25 s): short exchanges are quick,
and long ones do not keep a core busy.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from fedsuite.arrays import Arrays
from fedsuite.config import RunSettings
from fedsuite.errors import RunFailed
from fedsuite.federation import ClientInfo, Reply, Scalar, Task
from fedsuite.run_folder import RunFolder
from strategies.runtime.messages import WORKER_DIED, RawReply, TaskMessages, read_reply
from strategies.runtime.records import RoundRecords
from strategies.runtime.reply_checks import check_merged, check_reply, usable_or_reason

FIRST_WAIT_S, LONGEST_WAIT_S, SHARE_OF_ELAPSED = 0.01, 0.25, 0.02
STRAY = "a reply that nobody waits for was ignored: a second one, or of a node that was not asked"
OnReply = Callable[[int, Message, float], None]
OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Members:
    """clients: by ascending partition; node_of: partition -> node id of this start."""

    clients: tuple[ClientInfo, ...]
    node_of: Mapping[int, int]


def exchange(
    grid: Grid, messages: Iterable[Message], deadline_s: float, on_reply: OnReply, folder: RunFolder
) -> set[int]:
    """Call on_reply(position of the message, reply, seconds since it was sent) as replies come.

    Second replies, and those of nodes that were not asked, are left out and noted in the folder's errors.log. Returns the
    positions without one. Messages are pushed one by one, so that each is freed once it is sent.
    """
    waiting: dict[str, tuple[int, int]] = {}  # position and node
    sent_at: dict[int, float] = {}
    unanswered: set[int] = set()
    for position, message in enumerate(messages):
        sent_at[position] = time.monotonic()
        unanswered.add(position)
        for message_id in grid.push_messages([message]):
            if message_id:
                waiting[message_id] = position, message.metadata.dst_node_id
    begin = time.monotonic()
    while waiting and (elapsed := time.monotonic() - begin) < deadline_s:
        replies = list(grid.pull_messages(list(waiting)))
        for reply in replies:
            about = reply.metadata
            position, node = waiting.get(about.reply_to_message_id, (-1, 0))
            # An error may be Flower's own, about a node that it cannot reach.
            if position < 0 or not (reply.has_error() or about.src_node_id == node):
                folder.log_error(f"node {about.src_node_id}", STRAY)
                continue
            del waiting[about.reply_to_message_id]
            unanswered.discard(position)
            on_reply(position, reply, time.monotonic() - sent_at[position])
        if not replies:
            time.sleep(min(LONGEST_WAIT_S, max(FIRST_WAIT_S, SHARE_OF_ELAPSED * elapsed)))
    return unanswered


class TaskExchange:
    """Sends tasks and checks what comes back.

    Told with tasks that are not summed: best, the best round so far (in training), and trained, by partition the round,
    before this training, in which a client has trained last.
    """

    def __init__(
        self, grid: Grid, settings: RunSettings, folder: RunFolder, members: Members, emit: OnEvent
    ) -> None:
        self.grid, self.settings, self.folder, self.emit = grid, settings, folder, emit
        self.node_of = members.node_of
        self.names = {client.partition: client.name for client in members.clients}
        self.best: Mapping[str, Scalar] = {}
        self.trained: dict[int, int] = {}

    def replies(
        self, tasks: Sequence[Task], records: RoundRecords, checkpoints: Sequence[int]
    ) -> list[Reply]:
        """Checked replies by partition, or RunFailed; checkpoints: the rounds that a resume may go back to."""
        if not tasks:
            return []
        ordered = sorted(tasks, key=lambda task: task.partition)
        number, kind = records.number, ordered[0].kind
        if not ordered[0].summed:  # those relay what came in replies
            for arrays in {id(task.arrays): task.arrays for task in ordered}.values():
                self.check(arrays, records)
        if ordered[0].summed:
            records.emit_progress(self.emit)
        else:
            event = {"round": number, "kind": f"{records.prefix}exchange", "task": kind}
            self.emit(event | {"clients": len(ordered)})
        needed = ",".join(map(str, checkpoints))
        raws = self._send(ordered, records, {"round": number, "checkpoint-rounds": needed})
        deadline_s = self.settings.reply_deadline_s
        checked = [check_reply(t, raw, deadline_s) for t, raw in zip(ordered, raws, strict=True)]
        for task, reply in zip(ordered, checked, strict=True):
            records.checked(task, reply)
        where = f"round {number}, {kind}"
        names = [self.names[task.partition] for task in ordered]
        dead = [n for n, r in zip(names, raws, strict=True) if r is not None and r.worker_died]
        if dead:
            raise RunFailed(
                f"{where}: {', '.join(dead)}: {WORKER_DIED}; resume with fewer --workers or smaller batches"
            )
        failed = [(n, c) for n, c in zip(names, checked, strict=True) if c.reply is None]
        if asked := ordered[0].in_turn:
            records.passed_over += failed
            failed = records.passed_over
        least = self.settings.min_reply_fraction
        if reason := usable_or_reason(failed, asked or len(ordered), least):
            raise RunFailed(f"{where}: {reason}")
        replies = [c.reply for c in checked if c.reply is not None]
        if kind == "train":
            records.trained += replies
        return replies

    def check(self, arrays: Arrays, records: RoundRecords) -> None:
        """RunFailed if nobody must get these arrays."""
        check_merged(records.number, arrays, records.trained, self.names)

    def _send(
        self, tasks: Sequence[Task], records: RoundRecords, common: Mapping[str, Scalar]
    ) -> list[RawReply | None]:
        deadline_s = self.settings.reply_deadline_s
        factory = TaskMessages(ttl_s=2 * deadline_s)
        raws: list[RawReply | None] = [None] * len(tasks)

        def keep(position: int, reply: Message, seconds: float) -> None:
            raw = raws[position] = read_reply(reply)
            task = tasks[position]
            if raw.error:
                whose = f"round {records.number}, {self.names[task.partition]}"
                self.folder.log_error(whose, raw.detail or raw.error)
            event = records.timed(task, raw, seconds)
            if event:
                self.emit(event)

        def message(task: Task) -> Message:
            best = self.best if task.kind == "train" and not task.summed else {}
            last = {} if task.summed else {"last-trained": self.trained.get(task.partition, 0)}
            config = {**task.config, **best, **common, **last}
            return factory.message(task, self.node_of[task.partition], config)

        exchange(self.grid, map(message, tasks), deadline_s, keep, self.folder)
        return raws
