"""Between a task and a Flower message: what goes on the wire, and what comes back from it, unchecked.

Down: "arrays" (ArrayRecord, in our own loop with all arrays in one entry: packing.py) and "config" (ConfigRecord).
Up: "arrays", "metrics" (MetricRecord that holds num-examples), "timing" (ConfigRecord). The identity query and its answer
are ConfigRecords only.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedsuite.arrays import LARGEST_COUNT, Arrays, Form
from fedsuite.averaging.several_clients import FAILED
from fedsuite.errors import one_line
from fedsuite.federation import Scalar, Task
from fedsuite.messages.packing import Misfit
from strategies.runtime.packing import arrays_of, packed_record, plain_record

EXAMPLES = "num-examples"
# Flower's error codes for a node that is gone or did not answer in time, and for a client process that died there.
_UNREACHABLE, _CLIENT_DIED = (3, 4, 5, 8), 8
_UNKNOWN = 0
MOST_VALUES = 1000  # that a client may say in one record
_LAST_LINES = 1000  # of an error text, among which its last words are looked for
_DEAD_WORKER = re.compile(r"ActorDied|ActorUnavailable|WorkerCrashed|OutOfMemory|NodeDied")
WORKER_DIED = "the worker process died (out of memory, or a crash in native code)"
CLIENT_DIED = "the node's client process died (out of memory, or a crash in native code)"


@dataclass(frozen=True)
class RawReply:
    """Content of a reply as it came. error: one line, "" if there is content; detail: the full error text.

    unreadable: something came that is none of the content that was asked for; the error says why. failed: error texts of
    clients that have no part in a reply of several, by partition.
    """

    arrays: Arrays = field(default_factory=dict)
    metrics: Mapping[str, object] = field(default_factory=dict)
    properties: Mapping[str, object] = field(default_factory=dict)
    compute_s: float | None = None
    error: str = ""
    detail: str = ""
    unreachable: bool = False
    worker_died: bool = False
    unreadable: bool = False
    failed: Mapping[int, str] = field(default_factory=dict)


class TaskMessages:
    """Makes the messages of one exchange; arrays sent to several clients, one after another, are converted once.

    packed: all arrays of a message are one object; clients answer likewise.
    """

    def __init__(self, ttl_s: float, packed: bool = True) -> None:
        self.ttl_s = ttl_s
        self._record = packed_record if packed else plain_record
        self._last: tuple[Mapping[str, object], ArrayRecord] | None = None

    def message(self, task: Task, node_id: int, config: Mapping[str, Scalar]) -> Message:
        """The message of a task with its full config."""
        if self._last is None or self._last[0] is not task.arrays:
            self._last = (task.arrays, self._record(task.arrays))
        content = RecordDict({"arrays": self._last[1], "config": ConfigRecord(dict(config))})
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


def read_reply(message: Message | Exception, task: Task | None = None) -> RawReply:
    """Unpack a reply, its arrays as the task asks for them (without a task for none); what cannot be read is unreadable.

    message: an exception where Flower itself could not read what had come.
    """
    try:
        if isinstance(message, Exception):
            raise message
        if message.has_error():
            return _error(message.error.code, message.error.reason or "")
        return _content(message.content, task)
    except Misfit as error:
        return RawReply(error=one_line(str(error)), unreadable=True)
    except Exception as error:
        # The last guard. This is a function of the message alone: whatever it raises, memory and recursion included, the
        # sender is the cause.
        what = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        return RawReply(error=one_line(f"unreadable reply: {what}{error}"), unreadable=True)


def last_line(text: str) -> str:
    """The last line of an error text that says something, made fit to be shown, without Flower's wrapping."""
    lines = (one_line(line).strip() for line in reversed(text.splitlines()[-_LAST_LINES:]))
    return next(filter(None, lines), "no reason given").removesuffix("'>")


def _error(code: int, reason: str) -> RawReply:
    died = code == _UNKNOWN and bool(_DEAD_WORKER.search(reason))
    known = WORKER_DIED if died else CLIENT_DIED if code == _CLIENT_DIED else ""
    line = known or last_line(reason)
    return RawReply(error=line, detail=reason, unreachable=code in _UNREACHABLE, worker_died=died)


def _content(content: RecordDict, task: Task | None) -> RawReply:
    members = max(1, len(task.together)) if task else 1
    timing = _as_dict(content.get("timing"), ConfigRecord)
    failed = _failed(content, task) if task and task.apart else {}
    gone = tuple(f"{partition}." for partition in failed)
    asked = task.expected if task else {}
    expected = {k: form for k, form in asked.items() if not k.startswith(gone)} if gone else asked
    return RawReply(
        arrays=_arrays(content.get("arrays"), expected),
        metrics=_as_dict(content.get("metrics"), MetricRecord, members * MOST_VALUES),
        properties=_as_dict(content.get("properties"), ConfigRecord),
        compute_s=seconds_of(timing.get("seconds")),
        failed=failed,
    )


def _failed(content: RecordDict, task: Task) -> dict[int, str]:
    """Of a reply of several clients: what those say that have no part in it."""
    said = _as_dict(content.get(FAILED), ConfigRecord)
    numbers = [own.partition for own in task.together]
    return {number: str(said[str(number)]) for number in numbers if str(number) in said}


def seconds_of(value: object) -> float | None:
    """How long a client says that it computed; None for what is no time."""
    good = isinstance(value, int | float) and 0 <= value <= LARGEST_COUNT
    return float(value) if good else None  # type: ignore[arg-type]


def _arrays(record: object, expected: Mapping[str, Form]) -> Arrays:
    if record is None:  # the complaint about missing names is that of the checks
        return {}
    if not isinstance(record, ArrayRecord):
        raise ValueError(f"expected an ArrayRecord, got a {type(record).__name__}")
    return arrays_of(record, expected)


def _as_dict(
    record: object, kind: type[MetricRecord] | type[ConfigRecord], most: int = MOST_VALUES
) -> dict[str, object]:
    """The values of a record; whole ones have 64 bits, as on a wire."""
    if record is None:
        return {}
    if not isinstance(record, kind):
        raise ValueError(f"expected a {kind.__name__}, got a {type(record).__name__}")
    if len(record) > most:
        raise ValueError(f"a {kind.__name__} of {len(record)} values, expected at most {most}")
    for key, value in record.items():
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and number.bit_length() > 64:
                raise ValueError(f"{key} is a number of {number.bit_length()} bits")
    return {str(key): value for key, value in record.items()}
