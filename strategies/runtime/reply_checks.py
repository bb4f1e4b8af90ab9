"""The one place where replies are checked: nothing that a client sends reaches an average unchecked.

ok: usable; error: the client raised; missing: nothing came in time; rejected: something came that
must not be used.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsuite.arrays import LARGEST_COUNT, Arrays, extremes, forms_of, num_bytes, range_complaint
from fedsuite.errors import RunFailed, one_line
from fedsuite.federation import Reply, Task
from fedsuite.messages.packing import few, forms_complaint
from fedsuite.settings.metrics import COLUMNS
from strategies.runtime.messages import EXAMPLES, RawReply

LONGEST_NAME = 200
STEPS = "steps"
Status = Literal["ok", "error", "missing", "rejected"]


@dataclass(frozen=True)
class CheckedReply:
    """What a reply is worth. reason: one line, "" if ok; reply: only if ok; worker_died: why there is none."""

    status: Status
    reason: str = ""
    reply: Reply | None = None
    bytes_up: int = 0
    worker_died: bool = False


class ReplyMetrics(dict[str, float]):
    """Metrics of one client's reply; asked for one that it does not have, they say whose they are."""

    def __init__(self, metrics: Mapping[str, float], whose: str) -> None:
        super().__init__(metrics)
        self.whose = whose

    def __missing__(self, key: str) -> float:
        raise RunFailed(f"{self.whose}: rejected: the reply lacks the metric {key}")


def check_reply(
    task: Task, raw: RawReply | None, deadline_s: float, whose: str = ""
) -> CheckedReply:
    """Check one reply against its task; None: nothing came. whose: name of the client."""
    if raw is None:
        return CheckedReply("missing", f"no reply within {deadline_s:g} s")
    if raw.error:
        status: Status = "rejected" if raw.unreadable else "error"
        told: Status = "missing" if raw.unreachable else status
        return CheckedReply(told, raw.error, worker_died=raw.worker_died)
    size = num_bytes(raw.arrays.values())
    reason = (
        forms_complaint(forms_of(raw.arrays), task.expected)
        or range_complaint(raw.arrays)
        or _metrics_complaint(raw.metrics, task.needs)
        or _ranges_complaint(task, raw)
    )
    if reason:
        return CheckedReply("rejected", one_line(reason), bytes_up=size)
    plain = {k: float(v) for k, v in raw.metrics.items() if k != EXAMPLES}  # type: ignore[arg-type]
    metrics = ReplyMetrics(plain, whose or f"partition {task.partition}")
    examples = int(raw.metrics[EXAMPLES])  # type: ignore[call-overload]
    ordered = {name: raw.arrays[name] for name in task.expected}
    return CheckedReply("ok", "", Reply(task.partition, ordered, examples, metrics), size)


def usable_or_reason(failed: Sequence[tuple[str, CheckedReply]], asked: int, least: float) -> str:
    """One line that names who failed and why, or "" if without them the share `least` of those asked is usable."""
    usable = asked - len(failed)
    if usable >= least * asked:
        return ""
    name, first = failed[0]
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return (
        f"{usable} of {asked} replies usable, min-reply-fraction = {least:g}; "
        f"{name}: {first.status}: {first.reason}{more}"
    )


def check_merged(
    number: int, arrays: Arrays, replies: Sequence[Reply], names: Mapping[int, str] | Sequence[str]
) -> None:
    """RunFailed if `arrays`, made of a round's replies, hold what no reply may; names the reply with the largest number."""
    if not (complaint := range_complaint(arrays)):
        return
    found, cause = [(-1.0, "", "")], ""
    for r in replies:
        floats = {k: v for k, v in r.arrays.items() if v.dtype.kind == "f"}
        found += [(abs(x), k, names[r.partition]) for k, x in extremes(floats).items()]
    size, array, name = max(found)
    if name:
        cause = f"likely cause: {name}, whose reply has the largest number ({size:g} in {array}); "
    raise RunFailed(
        f"round {number}: the merged model: {complaint}; {cause}resume once it is put right, "
        "or start again with lower learning rates"
    )


def _metrics_complaint(metrics: Mapping[str, object], needs: Sequence[str]) -> str:
    examples = metrics.get(EXAMPLES)
    if not isinstance(examples, int) or not 0 <= examples <= LARGEST_COUNT:
        return (
            f"{EXAMPLES} must be a whole number >= 0, at most {LARGEST_COUNT:g}, got {examples!r}"
        )
    for key, value in metrics.items():
        if not key.isprintable() or len(key) > LONGEST_NAME:
            return f"metrics need printable names of at most {LONGEST_NAME} characters, got {key!r}"
        if key in COLUMNS and key != EXAMPLES:
            return f"metric {key} is called as a column of the history; rename it"
        if not isinstance(value, int | float) or not math.isfinite(value):
            return f"metric {key} must be a finite number, got {value!r}"
        if abs(value) > LARGEST_COUNT:
            return f"metric {key} is {value:g}, more than {LARGEST_COUNT:g} in size"
        if (key == STEPS or key.endswith("count")) and (value < 0 or value % 1):
            return f"metric {key} must be a whole number >= 0, got {value!r}"
    missing = sorted(set(needs) - metrics.keys())
    return f"metrics lack {few(missing)}" if missing else ""


def _ranges_complaint(task: Task, raw: RawReply) -> str:
    for name in task.not_negative:
        if (lowest := np.min(raw.arrays.get(name, 0), initial=0)) < 0:
            return f"array {name} holds {lowest:g}, expected no number below 0"
    for name, (low, high) in task.ranges.items():
        said = raw.arrays.get(name, raw.metrics.get(name, low))
        if isinstance(said, int | float) and low <= said <= high and not said % 1:
            continue  # as nearly all are, and NumPy takes its time over one number
        numbers = np.asarray(said)
        inside = numbers.size == 0 or (low <= numbers.min() and numbers.max() <= high)
        if not inside or (numbers % 1).any():
            found = f"{name} holds numbers from {numbers.min():g} to {numbers.max():g}"
            return f"{found}, expected whole ones from {low:g} to {high:g}"
    return ""
