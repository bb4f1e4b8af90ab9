"""One exchange over a Flower grid: tasks out as messages, checked replies back, by partition.

Flower's own send_and_receive looks every 0.1 s, which together with the simulation's timer costs up to 0.2 s an exchange.
Here waiting starts at 10 ms and grows with the time already waited (2 % of it, up to 0.25 s): short exchanges are quick,
and long ones do not keep a core busy.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from strategies.runtime.records import RoundRecords, deepest
from strategies.runtime.reply_checks import (
    CheckedReply,
    check_merged,
    check_reply,
    usable_or_reason,
)

FIRST_WAIT_S, LONGEST_WAIT_S, SHARE_OF_ELAPSED = 0.01, 0.25, 0.02
STRAY = "a reply that nobody waits for was ignored: a second one, or of a node that was not asked"
OnReply = Callable[[int, Message, float], None]
OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Members:
    """clients: by ascending partition; node_of: partition -> node id of this start."""

    clients: tuple[ClientInfo, ...]
    node_of: Mapping[int, int]


class Post:
    """Messages on their way over a grid, each with a number of the caller's, and the replies to them.

    Second replies, and those of nodes that were not asked, are left out and noted in the folder's errors.log.
    """

    def __init__(self, grid: Grid, folder: RunFolder) -> None:
        self.grid, self.folder = grid, folder
        self.unanswered: set[int] = set()
        self._waiting: dict[str, tuple[int, int, float]] = {}  # number, node, when it was sent
        self._began = self._sent = time.monotonic()

    def send(self, number: int, message: Message) -> None:
        """Messages are pushed one by one, so that each is freed once it is sent."""
        self.unanswered.add(number)
        self._sent = time.monotonic()
        sent = number, message.metadata.dst_node_id, self._sent
        for message_id in filter(None, self.grid.push_messages([message])):
            self._waiting[message_id] = sent

    def collect(self, on_reply: OnReply) -> bool:
        """Call on_reply(number, reply, seconds since it was sent) for what has come; whether anything has."""
        replies = list(self.grid.pull_messages(list(self._waiting))) if self._waiting else []
        for reply in replies:
            about = reply.metadata
            number, node, sent_at = self._waiting.get(about.reply_to_message_id, (-1, 0, 0.0))
            # An error may be Flower's own, about a node that it cannot reach.
            if number < 0 or not (reply.has_error() or about.src_node_id == node):
                self.folder.log_error(f"node {about.src_node_id}", STRAY)
                continue
            del self._waiting[about.reply_to_message_id]
            self.unanswered.discard(number)
            on_reply(number, reply, time.monotonic() - sent_at)
        return bool(replies)

    def is_waiting(self, deadline_s: float) -> bool:
        """Whether replies are missing that may still come: `deadline_s` after the last message it is over."""
        return bool(self._waiting) and time.monotonic() - self._sent < deadline_s

    def elapsed(self) -> float:
        """Seconds since this was made."""
        return time.monotonic() - self._began

    def pause(self) -> None:
        elapsed = time.monotonic() - self._sent
        time.sleep(min(LONGEST_WAIT_S, max(FIRST_WAIT_S, SHARE_OF_ELAPSED * elapsed)))


def exchange(
    grid: Grid, messages: Iterable[Message], deadline_s: float, on_reply: OnReply, folder: RunFolder
) -> set[int]:
    """Call on_reply(position of the message, reply, seconds since it was sent) as replies come.

    Returns the positions without one.
    """
    post = Post(grid, folder)
    for position, message in enumerate(messages):
        post.send(position, message)
    while post.is_waiting(deadline_s):
        if not post.collect(on_reply):
            post.pause()
    return post.unanswered


class TaskExchange:
    """Sends tasks and checks what comes back.

    Told with tasks that are not summed: best, the best round so far (in training), and trained, by partition the round,
    before this training, in which a client has trained last. With all: checkpoint_rounds, which a resume may go back to.
    """

    def __init__(
        self, grid: Grid, settings: RunSettings, folder: RunFolder, members: Members, emit: OnEvent
    ) -> None:
        self.grid, self.settings, self.folder, self.emit = grid, settings, folder, emit
        self.node_of = members.node_of
        self.names = {client.partition: client.name for client in members.clients}
        self.best: Mapping[str, Scalar] = {}
        self.trained: dict[int, int] = {}
        self.checkpoint_rounds: Sequence[int] = [0]

    def replies(self, tasks: Sequence[Task], records: RoundRecords) -> list[Reply]:
        """Checked replies by partition, or RunFailed."""
        if not tasks:
            return []
        ordered = sorted(tasks, key=lambda task: task.partition)
        if ordered[0].summed:  # these relay what came in replies
            records.emit_progress(self.emit)
        else:
            for arrays in {id(task.arrays): task.arrays for task in ordered}.values():
                self.check(arrays, records)
            event = {"round": records.number, "kind": f"{records.prefix}exchange"}
            self.emit(event | {"task": ordered[0].kind, "clients": len(ordered)})
        raws: list[RawReply | None] = [None] * len(ordered)

        def keep(position: int, reply: Message, seconds: float) -> None:
            raw = raws[position] = read_reply(reply)
            task = ordered[position]
            if raw.error:
                whose = f"round {records.number}, {self.names[task.partition]}"
                self.folder.log_error(whose, raw.detail or raw.error)
            if event := records.timed(task, raw, seconds):
                self.emit(event)

        sent = self.messages(ordered, records.number)
        exchange(self.grid, sent, self.settings.reply_deadline_s, keep, self.folder)
        return self.judged(ordered, raws, records)

    def messages(self, tasks: Sequence[Task], number: int) -> Iterator[Message]:
        """The tasks of round `number` with all that a client is told."""
        factory = TaskMessages(ttl_s=2 * self.settings.reply_deadline_s)
        needed = ",".join(map(str, self.checkpoint_rounds))
        for task in tasks:
            config = {**task.config, "round": number, "checkpoint-rounds": needed}
            if not task.summed:
                config["last-trained"] = self.trained.get(task.partition, 0)
                config |= self.best if task.kind == "train" else {}
            yield factory.message(task, self.node_of[task.partition], config)

    def judged(
        self, tasks: Sequence[Task], raws: Sequence[RawReply | None], records: RoundRecords
    ) -> list[Reply]:
        """The usable ones of the replies to `tasks`; RunFailed if they are too few."""
        deadline_s, least = self.settings.reply_deadline_s, self.settings.min_reply_fraction
        failed: list[tuple[str, CheckedReply]] = []
        dead, replies = [], []
        for task, raw in zip(tasks, raws, strict=True):
            name = self.names[task.partition]
            checked = check_reply(task, raw, deadline_s, name)
            records.checked(task, checked)
            if checked.reply is not None:
                replies.append(checked.reply)
                continue
            failed.append((name, checked))
            dead += [name] if raw is not None and raw.worker_died else []
        where = f"round {records.number}, {tasks[0].kind}"
        if dead:
            raise RunFailed(
                f"{where}: {', '.join(dead)}: {WORKER_DIED}; resume with fewer --workers or smaller batches"
            )
        if asked := tasks[0].in_turn:
            records.passed_over += failed
            failed = records.passed_over
        if reason := usable_or_reason(failed, asked or len(tasks), least):
            raise RunFailed(f"{where}: {reason}")
        if tasks[0].kind == "train":
            records.trained += replies
            records.depth += deepest(replies)
        return replies

    def check(self, arrays: Arrays, records: RoundRecords) -> None:
        """RunFailed if nobody must get these arrays."""
        check_merged(records.number, arrays, records.trained, self.names)
