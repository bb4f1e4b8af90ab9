"""Between a task and a Flower message: what goes on the wire, and what comes back from it, unchecked.

Down: "arrays" (ArrayRecord, in our own loop with all arrays in one entry: packing.py) and "config" (ConfigRecord).
Up: "arrays", "metrics" (MetricRecord that holds num-examples), "timing" (ConfigRecord). The identity query and its answer
are ConfigRecords only.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedsuite.arrays import Arrays
from fedsuite.errors import one_line
from fedsuite.federation import Scalar, Task
from strategies.runtime.packing import arrays_of, packed_record, plain_record

EXAMPLES = "num-examples"
# Flower's error codes for a node that is gone or did not answer in time, and for a client process that died there.
_UNREACHABLE, _CLIENT_DIED = (3, 4, 5, 8), 8
_UNKNOWN = 0
_DEAD_WORKER = re.compile(r"ActorDied|ActorUnavailable|WorkerCrashed|OutOfMemory|NodeDied")
WORKER_DIED = "the worker process died (out of memory, or a crash in native code)"
CLIENT_DIED = "the node's client process died (out of memory, or a crash in native code)"


@dataclass(frozen=True)
class RawReply:
    """Content of a reply as it came. error: one line, "" if there is content; detail: the full error text."""

    arrays: Arrays = field(default_factory=dict)
    metrics: Mapping[str, object] = field(default_factory=dict)
    properties: Mapping[str, object] = field(default_factory=dict)
    compute_s: float | None = None
    error: str = ""
    detail: str = ""
    unreachable: bool = False
    worker_died: bool = False


class TaskMessages:
    """Makes the messages of one exchange; arrays sent to several clients are converted once.

    packed: all arrays of a message are one object; clients answer likewise.
    """

    def __init__(self, ttl_s: float, packed: bool = True) -> None:
        self.ttl_s = ttl_s
        self._record = packed_record if packed else plain_record
        self._records: dict[int, ArrayRecord] = {}

    def message(self, task: Task, node_id: int, config: Mapping[str, Scalar]) -> Message:
        """The message of a task with its full config."""
        key = id(task.arrays)
        if key not in self._records:
            self._records[key] = self._record(task.arrays)
        content = RecordDict({"arrays": self._records[key], "config": ConfigRecord(dict(config))})
        group = str(config["round"])
        return Message(content, node_id, task.kind, ttl=self.ttl_s, group_id=group)


def identity_message(
    node_id: int, resume_round: int, ttl_s: float, facts: Mapping[str, str] | None = None
) -> Message:
    """Asks a client who it is, and to drop private state newer than the round that the run goes on from.

    facts: what a real node must know of the run before that; "run-key": it keeps its state under it (RunFolder.run_key).
    """
    asked = ConfigRecord({"resume-round": resume_round, **(facts or {})})
    content = RecordDict({"config": asked})
    return Message(content, node_id, "query", ttl=ttl_s, group_id=str(resume_round))


def read_reply(message: Message) -> RawReply:
    """Unpack a reply; anything unreadable becomes an error."""
    if message.has_error():
        code, reason = message.error.code, message.error.reason or ""
        died = code == _UNKNOWN and bool(_DEAD_WORKER.search(reason))
        known = WORKER_DIED if died else CLIENT_DIED if code == _CLIENT_DIED else ""
        line = known or last_line(reason)
        return RawReply(
            error=line, detail=reason, unreachable=code in _UNREACHABLE, worker_died=died
        )
    try:
        return _read_content(message.content)
    except (KeyError, TypeError, ValueError) as error:
        return RawReply(error=f"unreadable reply: {last_line(repr(error))}", detail=repr(error))


def last_line(text: str) -> str:
    """The last line of an error text that says something, made fit to be shown, without Flower's wrapping."""
    lines = (one_line(line).strip() for line in reversed(text.splitlines()))
    return next(filter(None, lines), "no reason given").removesuffix("'>")


def _read_content(content: RecordDict) -> RawReply:
    arrays: Arrays = {}
    if isinstance(record := content.get("arrays"), ArrayRecord):
        arrays = arrays_of(record)
    timing = content.get("timing")
    seconds = timing.get("seconds") if isinstance(timing, ConfigRecord) else None
    timed = isinstance(seconds, int | float) and math.isfinite(seconds)
    return RawReply(
        arrays=arrays,
        metrics=_as_dict(content.get("metrics"), MetricRecord),
        properties=_as_dict(content.get("properties"), ConfigRecord),
        compute_s=float(seconds) if timed else None,  # type: ignore[arg-type]
    )


def _as_dict(record: object, kind: type[MetricRecord] | type[ConfigRecord]) -> dict[str, object]:
    if record is None:
        return {}
    if not isinstance(record, kind):
        raise TypeError(f"expected a {kind.__name__}, got {type(record).__name__}")
    return {str(key): value for key, value in record.items()}
