"""One exchange over a Flower grid: tasks out as messages, checked replies back, by partition.

Who has most to train on is sent its task first, so that where workers are fewer than clients no long visit begins last
(Graham 1969: longest processing time first). Replies are merged by partition, whoever was asked or answered first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from flwr.app import Message
from flwr.serverapp import Grid

from fedsuite.arrays import Arrays
from fedsuite.errors import RunFailed
from fedsuite.federation import Reply, Scalar, Task, UnderWay
from fedsuite.history import Kind, OnEvent, event
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import RunSettings
from strategies.runtime.identity import read_identity
from strategies.runtime.members import Introductions, Members
from strategies.runtime.messages import WORKER_DIED, RawReply, TaskMessages, read_reply
from strategies.runtime.patience import Patience
from strategies.runtime.post import Post, is_real
from strategies.runtime.records import RoundRecords, deepest
from strategies.runtime.reply_checks import (
    CheckedReply,
    check_merged,
    usable_or_reason,
)
from strategies.runtime.spill import Spill
from strategies.runtime.together import check_parts, members_of, parts_of, told

Answer = list[
    tuple[Task, CheckedReply]
]  # of one message: each of its clients, one but for together


class TaskExchange:
    """Sends tasks and checks what comes back.

    Told with tasks that are not summed: best, the best round so far (in training), and trained, by partition the round,
    before this training, in which a client has trained last. With all: checkpoint_rounds, which a resume may go back to.
    """

    def __init__(
        self, grid: Grid, settings: RunSettings, folder: RunFolder, members: Members, emit: OnEvent
    ) -> None:
        self.grid, self.settings, self.folder, self.emit = grid, settings, folder, emit
        self.node_of, self.introductions = members.node_of, Introductions(members)
        self.names = {client.partition: client.name for client in members.clients}
        self.samples = {client.partition: client.num_examples for client in members.clients}
        self.best: Mapping[str, Scalar] = {}
        self.trained: dict[int, int] = {}
        self.checkpoint_rounds: Sequence[int] = [0]
        self.real = is_real(grid)
        self.spill = Spill(folder.spill, settings.spill_above)
        self.patience = Patience(grid, settings.lost_node_patience_s if self.real else 0.0)

    def replies(self, tasks: Sequence[Task], records: RoundRecords) -> list[Reply]:
        """Checked replies by partition, or RunFailed."""
        if not tasks:
            return []
        awaited = tasks.awaited if isinstance(tasks, UnderWay) else len(tasks)
        late = [] if self.real else tasks[awaited:]
        ordered = sorted(tasks[: len(tasks) - len(late)], key=lambda task: task.partition)
        if ordered[0].summed:  # these relay what came in replies
            records.emit_progress(self.emit)
        else:
            for arrays in {id(task.arrays): task.arrays for task in ordered}.values():
                self.check(arrays, records)
            sent = event(records.number, Kind.EXCHANGE, records.prefix)
            asked = [own.partition for task in ordered for own in members_of(task)]
            self.emit(sent | {"task": ordered[0].kind, "clients": len(asked), "partitions": asked})
        answers, done = self._answers(ordered, records, awaited)
        if awaited <= len(done) < len(ordered):
            late = [task for i, task in enumerate(ordered) if i not in done]
            ordered, answers = (
                [ordered[i] for i in sorted(done)],
                [answers[i] for i in sorted(done)],
            )
        replies = self.judged(ordered, answers, records)
        for task in sorted(late, key=lambda task: task.partition):
            for own in members_of(task):
                records.late(own)
        return replies

    def _answers(
        self, tasks: Sequence[Task], records: RoundRecords, awaited: int
    ) -> tuple[list[Answer], set[int]]:
        """Whatever comes back until `awaited` tasks have been answered, by position of the task, checked as it comes. With
        it the positions that have been answered for good."""
        answers: list[Answer | None] = [None] * len(tasks)
        done: set[int] = set()
        post, patience = Post(self.grid, self.folder), self.patience
        position_of = {self.node_of[task.partition]: i for i, task in enumerate(tasks)}

        def keep(position: int, reply: Message | Exception, seconds: float) -> None:
            task = tasks[position]
            raw = self._introduced(task, read_reply(reply, task))
            answers[position] = self.checked(task, raw)
            if raw.error:
                who = ", ".join(self.names[own.partition] for own in members_of(task))
                self.folder.log_error(f"round {records.number}, {who}", raw.detail or raw.error)
            node = self.node_of[task.partition]
            if not raw.unreachable:
                patience.answered(node)
            elif patience.loses(node):
                self._tell(Kind.LOST, task, records, raw.error)
                return
            done.add(position)
            for own, part in parts_of(task, raw):
                if part.error and not raw.error:
                    where = f"round {records.number}, {self.names[own.partition]}"
                    self.folder.log_error(where, part.detail)
                if timed := records.timed(own, part, seconds):
                    self.emit(timed)

        patience.begin()
        order = self.largest_first(tasks)
        messages = self.messages([tasks[i] for i in order], records.number)
        for position, message in zip(order, messages, strict=True):
            post.send(position, message)
        while len(done) < awaited and (
            post.is_waiting(self.settings.reply_deadline_s) or patience.waits
        ):
            came = post.collect(keep)
            for node in patience.back(node for _, node in post.awaited()):
                position = position_of[node]
                (message,) = self.messages([tasks[position]], records.number)
                post.send(position, message)
                self._tell(Kind.SENT_AGAIN, tasks[position], records)
            for position, worker, why in post.repeated():
                self._tell(Kind.SENT_AGAIN, tasks[position], records, why, worker)
            if not came:
                post.pause()
        pairs = zip(tasks, answers, strict=True)
        return [self.checked(task, None) if a is None else a for task, a in pairs], done

    def checked(self, task: Task, raw: RawReply | None) -> Answer:
        """What a reply is worth to each client that it is from; None: nothing came in time. It may go to disk."""
        found = check_parts(task, raw, self.settings.reply_deadline_s, self.names)
        if task.summed:  # one of very many small ones, which no merge looks back at
            return found
        kept = [(own, c, c.reply and self.spill.kept(c.reply)) for own, c in found]
        return [(own, c if r is c.reply else replace(c, reply=r)) for own, c, r in kept]

    def _introduced(self, task: Task, raw: RawReply) -> RawReply:
        """The reply, unreadable if it has to say who sends it and does not; RunFailed if it says another than is known."""
        if raw.error or not self.introductions.expects(task.partition):
            return raw
        try:
            said = read_identity(raw.properties)
        except RunFailed as error:
            return RawReply(error=str(error), unreadable=True)
        self.introductions.answered(task.partition, said)
        return raw

    def largest_first(self, tasks: Sequence[Task]) -> list[int]:
        """Positions of the tasks in the order of sending: training by number of samples, all else as it stands."""
        if tasks[0].kind != "train":
            return list(range(len(tasks)))
        samples = [sum(self.samples[own.partition] for own in members_of(t)) for t in tasks]
        return sorted(range(len(tasks)), key=lambda i: -samples[i])

    def _tell(
        self, kind: Kind, task: Task, records: RoundRecords, why: str = "", worker: int = 0
    ) -> None:
        """An event about a client that was lost, or whose worker, from 1, has died."""
        about = event(records.number, kind, records.prefix)
        about |= {"client": self.names[task.partition], "reason": why}
        self.emit(about | ({"worker": worker} if worker else {}))

    def messages(
        self, tasks: Sequence[Task], number: int, packed: bool = True
    ) -> Iterator[Message]:
        """The tasks of round `number` with all that a client is told; packed: as TaskMessages says."""
        factory = TaskMessages(2 * self.settings.reply_deadline_s, packed)
        for task in tasks:
            known = self._known(task.partition)
            if task.summed:
                known.pop("last-trained")
            config = {**task.config, "round": number, **known}
            config |= self.introductions.asked(task.partition)
            if not task.summed:
                config |= self.best if task.kind == "train" else {}
                config |= told(task, self._known)
            yield factory.message(task, self.node_of[task.partition], config)

    def _known(self, partition: int) -> dict[str, Scalar]:
        """When a client has trained last, and the rounds whose version it must not drop.

        What it had before this task it needs again if its node or its worker is lost.
        """
        last = self.trained.get(partition, 0)
        needed = sorted({*self.checkpoint_rounds, last})
        return {"checkpoint-rounds": ",".join(map(str, needed)), "last-trained": last}

    def judged(
        self, tasks: Sequence[Task], answers: Sequence[Answer], records: RoundRecords
    ) -> list[Reply]:
        """The usable ones of the checked replies to `tasks`; RunFailed if they are too few."""
        least = self.settings.min_reply_fraction
        failed: list[tuple[str, CheckedReply]] = []
        dead, replies = [], []
        parts = [part for answer in answers for part in answer]
        for task, checked in sorted(parts, key=lambda part: part[0].partition):
            records.checked(task, checked)
            if checked.reply is not None:
                replies.append(checked.reply)
                continue
            name = self.names[task.partition]
            failed.append((name, checked))
            dead += [name] if checked.worker_died and not self.real else []
        where = f"round {records.number}, {tasks[0].aside or tasks[0].kind}"
        if dead:
            raise RunFailed(
                f"{where}: {', '.join(dead)}: {WORKER_DIED}; resume with fewer --workers or smaller batches"
            )
        if tasks[0].aside:
            records.passed_over += failed
            return replies
        if asked := tasks[0].in_turn:
            records.passed_over += failed
            failed = records.passed_over
        if reason := usable_or_reason(failed, asked or len(parts), least):
            raise RunFailed(f"{where}: {reason}")
        if tasks[0].kind == "train":
            records.trained += replies
            records.depth += deepest(replies)
        return replies

    def check(self, arrays: Arrays, records: RoundRecords) -> None:
        """RunFailed if nobody must get these arrays."""
        check_merged(records.number, arrays, records.trained, self.names)
