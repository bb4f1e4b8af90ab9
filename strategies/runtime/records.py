"""The lines that a round leaves behind: one per client and exchange, or one per client where messages are very many.

A task that says `summed` is one of many small messages of a round. What such a client sent and got is added
up: one line in the history and one in the timings, with the number of its messages. A reply that could not be
used always has a line of its own.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from fedsuite.arrays import num_bytes
from fedsuite.federation import Reply, Task
from fedsuite.history import LATE, Kind, event
from strategies.runtime.messages import RawReply
from strategies.runtime.reply_checks import CheckedReply

Event = dict[str, Any]
PROGRESS_EVERY_S = 0.5


class RoundRecords:
    """Lines of round `number`; `prefix` is "closing-" after the last round, else ""; names: partition -> name.

    metrics: the round's own; trained: replies to its training tasks; depth: of optimizer steps,
    exchanges taken as a chain; passed_over: who failed of those asked in turn; seconds: of the server's clock that went into
    waiting for replies, the strategy's own work, and evaluation, which has both.
    """

    def __init__(self, number: int, prefix: str, names: Mapping[int, str]) -> None:
        self.number, self.prefix, self.names = number, prefix, names
        self.history: list[Event] = []
        self.metrics: dict[str, float] = {}
        self.trained: list[Reply] = []
        self.depth = 0
        self.seconds = dict.fromkeys(("waiting", "merging", "evaluation"), 0.0)
        self.passed_over: list[tuple[str, CheckedReply]] = []
        self._sums: dict[tuple[int, str], Event] = {}
        self._times: dict[tuple[int, str], Event] = {}
        self._messages, self._emitted = 0, 0.0
        self._evaluating = False

    def checked(self, task: Task, checked: CheckedReply) -> None:
        """The history's line of one reply."""
        row = self._head(task) | {
            "status": checked.status, "reason": checked.reason,
            "num-examples": checked.reply.num_examples if checked.reply else 0,
            "bytes-down": num_bytes(task.arrays.values()), "bytes-up": checked.bytes_up,
            "metrics": dict(checked.reply.metrics) if checked.reply else {},
        }  # fmt: skip
        if not task.summed or checked.status != "ok":
            self.history.append(row)
            return
        key = (task.partition, row["task"])
        if key not in self._sums:
            self._sums[key] = row | {"messages": 0, "bytes-down": 0, "bytes-up": 0, "metrics": {}}
            self.history.append(self._sums[key])
        total = self._sums[key]
        total["messages"] += 1
        for name in ("bytes-down", "bytes-up"):
            total[name] += row[name]
        if self._evaluating:  # the round has them, by what they were measured on
            return
        # What the step goes by from message to message is no measure of the round.
        total["metrics"] |= {k: v for k, v in row["metrics"].items() if k not in task.needs}

    def late(self, task: Task) -> None:
        """The history's line of a client whose reply the step did not wait for."""
        row = self._head(task) | {"status": LATE, "reason": "the step went on without it"}
        sent = {"bytes-down": num_bytes(task.arrays.values()), "bytes-up": 0}
        self.history.append(row | {"num-examples": 0, **sent, "metrics": {}})

    def admitted(self, shares: Mapping[int, float]) -> None:
        """Add to a client's line of training how much of its say a merge let it have, by partition."""
        for row in self.history:
            if row["task"] == "train" and row["status"] == "ok" and row["partition"] in shares:
                row["admitted"] = shares[row["partition"]]

    def timed(self, task: Task, raw: RawReply, seconds: float) -> Event | None:
        """The timing of one reply, to be emitted; None if it is added to a sum."""
        row = self._head(task) | {
            "status": "error" if raw.error else "ok",
            "seconds": seconds, "compute-seconds": raw.compute_s,
        }  # fmt: skip
        if not task.summed or raw.error:
            return row
        key = (task.partition, row["task"])
        total = self._times.setdefault(
            key, row | {"seconds": 0.0, "compute-seconds": 0.0, "messages": 0}
        )
        total["seconds"] += seconds
        total["compute-seconds"] += raw.compute_s or 0.0
        total["messages"] += 1
        self._messages += 1
        return None

    @property
    def totals(self) -> dict[str, float]:
        """Of all clients: bytes down and up, and how many of their replies could not be used."""
        sums = {k: sum(row[k] for row in self.history) for k in ("bytes-down", "bytes-up")}
        return sums | {"rejected": sum(row["status"] not in ("ok", LATE) for row in self.history)}

    def sums(self) -> list[Event]:
        return list(self._times.values())

    @contextmanager
    def spent(self, name: str, whole: bool = False) -> Iterator[None]:
        """Count what happens meanwhile as seconds of `name`, without what another `spent` counts inside; whole: with it."""
        begin, before = time.monotonic(), dict(self.seconds)
        self._evaluating = whole or self._evaluating
        try:
            yield
        finally:
            self._evaluating = self._evaluating and not whole
            elapsed = time.monotonic() - begin
            if whole:
                self.seconds = before
            else:
                elapsed -= sum(self.seconds.values()) - sum(before.values())
            self.seconds[name] += elapsed

    def emit_progress(self, on_event: Callable[[Mapping[str, Any]], None]) -> None:
        """Now and then, how many of the small messages are through."""
        if time.monotonic() - self._emitted >= PROGRESS_EVERY_S:
            self._emitted = time.monotonic()
            on_event(event(self.number, Kind.MESSAGES) | {"done": self._messages})

    def _head(self, task: Task) -> Event:
        # What is done to evaluate is none of training, whatever messages are used: parties score with those of training.
        kind = "evaluate" if self._evaluating else task.kind
        about = {"name": self.names[task.partition], "task": task.aside or kind}
        head = event(self.number, Kind.CLIENT, self.prefix)
        return head | {"partition": task.partition, **about}


def deepest(replies: Sequence[Reply]) -> int:
    """Optimizer steps of the longest visit; 0 where clients count none."""
    return max((int(r.metrics.get("steps", 0)) for r in replies), default=0)
