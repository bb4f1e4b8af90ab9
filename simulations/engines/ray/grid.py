"""Flower's Grid interface over workers that are Ray actors of this process.

Messages wait in the order in which the server made them, which is largest first, and go to whichever worker is idle. A
worker that dies costs the message that it had: another takes its place, and the message is sent again before all others.
What a client keeps is by round, so that a visit that is made twice leaves what one leaves (fedsuite/runs/versions.py). A
message that kills three workers is answered with an error.
"""

import re
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import ray
from flwr.app import Context, Message
from flwr.app.error import Error
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from clients.numpy_client_app import CLIENT_RAISED
from fedsuite.errors import RunFailed, one_line
from simulations.engines.inprocess import LocalGrid
from simulations.engines.ray.hands import Actor, Hands
from simulations.engines.ray.keeping import Kept
from simulations.engines.ray.worker import opened, packed

LOOK_S = 2.0  # the longest that one look for replies waits
GROW_S = 5.0  # between two looks for new hosts
MOST_DEATHS = 3
STORED = 65_536  # bytes; shorter blocks go along with every message
_UNKNOWN = 0  # Flower's code for what it has no other for
_DETAIL = re.compile(r"(?:exit detail: |creation task, )([^\n]*?\.)(?: |$)", re.MULTILINE)


@dataclass
class _Sent:
    """A message that has not been answered: as it was made, and as it travels."""

    message: Message
    small: bytes
    blocks: list[bytes]
    deaths: int = 0


@dataclass(frozen=True)
class _Place:
    """One of the workers, which may be replaced. number: from 1; pid: a reference to it; apart: without the run's folder."""

    number: int
    actor: Actor
    pid: Any
    apart: bool = False


class RayGrid(LocalGrid):
    """hands: where workers come from; logs: where Ray keeps what they print; kept: what clients keep, for workers without
    the run's folder. `stop` ends the workers.
    """

    def __init__(
        self,
        hands: Hands,
        workers: int,
        num_nodes: int,
        run_config: Mapping[str, Any],
        logs: Path,
        kept: Kept,
    ) -> None:
        super().__init__(num_nodes, run_config)
        self.logs, self.gave_up = logs, False
        self._hands, self._kept, self._workers = hands, kept, workers
        self._looked = time.monotonic()
        self._idle: list[_Place] = []
        self._employ(range(1, workers + 1))
        self._queue: deque[str] = deque()
        self._open: dict[str, _Sent] = {}
        self._running: dict[Any, tuple[_Place, str]] = {}
        self._done: dict[str, Message] = {}
        self._repeated: list[tuple[str, int, str]] = []
        self._uses: Counter[int] = Counter()  # by id of a block, messages that are not answered
        self._stored: dict[int, Any] = {}

    def ready(self) -> None:
        """Wait until all workers have imported what they need; RayError for one that cannot."""
        ray.get([place.pid for place in self._idle])

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Queue the messages; their ids."""
        ids = []
        for message in messages:
            message_id = str(uuid4())
            message.metadata.__dict__["_message_id"] = message_id
            context = self.contexts[message.metadata.dst_node_id]
            small, blocks = packed((message, context))
            self._open[message_id] = _Sent(message, small, blocks)
            self._uses.update(map(id, blocks))
            self._queue.append(message_id)
            ids.append(message_id)
        self._dispatch()
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that there are to these; where there are none, those that come within two seconds."""
        wanted = list(message_ids)
        self._collect(0 if any(i in self._done for i in wanted) else LOOK_S)
        return [self._done.pop(i) for i in wanted if i in self._done]

    def take_repeated(self) -> list[tuple[str, int, str]]:
        """Since the last call: ids of messages that were sent again, the worker that had died, and of what."""
        taken, self._repeated = self._repeated, []
        return taken

    def stop(self) -> None:
        """End all workers."""
        for place in [*self._idle, *(place for place, _ in self._running.values())]:
            ray.kill(place.actor)

    def _employ(self, numbers: Iterable[int]) -> None:
        """Workers of these numbers, as far as there is room for them."""
        for number in numbers:
            if (hired := self._hands.worker(number)) is not None:
                actor, apart = hired
                self._kept.anew(number)
                self._idle.append(_Place(number, actor, actor.pid.remote(), apart))

    def _grow(self) -> None:
        """Employ what hosts that have joined bring."""
        if time.monotonic() - self._looked < GROW_S:
            return
        self._looked = time.monotonic()
        more = self._hands.more()
        self._employ(range(self._workers + 1, self._workers + more + 1))
        self._workers += more
        if not (self._idle or self._running):
            self.gave_up = True
            raise RunFailed(
                "no host of the cluster is left; start one, and go on with fedsuite run --resume"
            )

    def _dispatch(self) -> None:
        """Messages to idle workers, the first of both."""
        while self._queue and self._idle:
            message_id, place = self._queue.popleft(), self._idle.pop(0)
            sent = self._open[message_id]
            blocks = [self._as_argument(block) for block in sent.blocks]
            if place.apart:
                context = self.contexts[sent.message.metadata.dst_node_id]
                files = self._kept.sent(place.number, sent.message, context)
                reference = place.actor.answer_elsewhere.remote(files, sent.small, *blocks)
            else:
                reference = place.actor.answer.remote(sent.small, *blocks)
            self._running[reference] = (place, message_id)

    def _as_argument(self, block: bytes) -> Any:
        """A reference to the block in Ray's store, the same one for all messages; a short one itself."""
        if len(block) < STORED:
            return block
        if id(block) not in self._stored:
            self._stored[id(block)] = ray.put(block)
        return self._stored[id(block)]

    def _collect(self, wait_s: float) -> None:
        """Take in what has come, hand out what waits."""
        self._grow()
        self._dispatch()
        if not self._running:
            return
        for at_least, limit_s in ((1, wait_s), (len(self._running), 0)):
            came, _ = ray.wait(list(self._running), num_returns=at_least, timeout=limit_s)
        for reference in came:
            place, message_id = self._running.pop(reference)
            try:
                found = ray.get(reference)
                if place.apart:
                    found, files = found
                    self._kept.received(place.number, files)
                self._answered(message_id, *found)
            except (
                RayTaskError
            ) as error:  # of our own side of the actor: a reply that nothing can pickle
                self._settle(message_id, self._error(message_id, CLIENT_RAISED, str(error)))
            except RayError as error:
                self._replaced(place, message_id, error)
                self._employ([place.number])
                continue
            self._idle.append(place)
        self._dispatch()

    def _answered(self, message_id: str, small: bytes, blocks: list[Any]) -> None:
        reply, state = opened(small, blocks)
        if state is not None:
            node_id = self._open[message_id].message.metadata.dst_node_id
            had = self.contexts[node_id]
            self.contexts[node_id] = Context(
                had.run_id, node_id, had.node_config, state, had.run_config
            )
        self._settle(message_id, reply)

    def _settle(self, message_id: str, reply: Message) -> None:
        for block in map(id, self._open.pop(message_id).blocks):
            self._uses[block] -= 1
            if not self._uses[block]:
                del self._uses[block]
                self._stored.pop(block, None)
        self._done[message_id] = reply

    def _replaced(self, place: _Place, message_id: str, error: RayError) -> None:
        """The message of a dead worker waits again, or has killed its last."""
        sent, why = self._open[message_id], self._why(place, error)
        if self._hands.lost(place.number):  # which is no fault of the message
            lost = [own for own in self._idle if self._hands.lost(own.number)]
            self._idle = [own for own in self._idle if own not in lost]
            self._employ(own.number for own in lost)
        else:
            sent.deaths += 1
        ray.kill(place.actor)  # where Ray only cannot reach it
        if sent.deaths < MOST_DEATHS:
            self._queue.appendleft(message_id)
            self._repeated.append((message_id, place.number, why))
        else:
            self.gave_up = True
            told = f"{type(error).__name__}: {MOST_DEATHS} workers died one after another: {why}"
            self._settle(message_id, self._error(message_id, _UNKNOWN, told))

    def _error(self, message_id: str, code: int, reason: str) -> Message:
        return Message(Error(code, reason), reply_to=self._open[message_id].message)

    def _why(self, place: _Place, error: RayError) -> str:
        """What Ray says of a worker's death, and what the worker itself said last, one line."""
        told = _DETAIL.search(str(error))
        try:
            pid = ray.get(place.pid, timeout=0)
        except (RayError, GetTimeoutError):  # it died before it could say it
            return one_line(told[1] if told else type(error).__name__, 200)
        said = [
            line
            for file in self.logs.glob(f"worker-*-{pid}.err")
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines()
            if line.strip() and not line.startswith(":")  # Ray's own marks
        ]
        last = f"; it said: {said[-1]}" if said else ""
        return one_line(f"{told[1] if told else type(error).__name__}{last}", 400)
