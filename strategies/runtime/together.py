"""One message for several clients of a simulation, and its reply taken apart, so that history and counts are of each.

Bytes are those of the message: what several start from, and a sum, stands in the line of the first, the others have 0. If
one client's part of a sum is of no use, no part is; a reply of its own is judged by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fedsuite.arrays import under_prefix
from fedsuite.averaging.several_clients import MEMBERS, SECONDS, for_member, of_member
from fedsuite.federation import Scalar, Task
from strategies.runtime.messages import RawReply, last_line, seconds_of
from strategies.runtime.reply_checks import CheckedReply, check_reply


def members_of(task: Task) -> Sequence[Task]:
    """The tasks of all clients that a message is for."""
    return task.together or (task,)


def told(task: Task, known: Callable[[int], Mapping[str, Scalar]]) -> dict[str, Scalar]:
    """What a message says of each of its clients; known: by partition what every message says of one."""
    said: dict[str, Scalar] = {}
    if task.together:
        said[MEMBERS] = ",".join(str(own.partition) for own in task.together)
    for own in task.together:
        said |= for_member({**own.config, **known(own.partition)}, own.partition)
    return said


def parts_of(task: Task, raw: RawReply) -> list[tuple[Task, RawReply]]:
    """Every client's task and what the reply says of it; the first one has the arrays of a sum."""
    if not task.together or raw.error:
        return [(own, raw) for own in members_of(task)]
    parts = []
    for own in task.together:
        metrics, prefix = of_member(raw.metrics, own.partition), f"{own.partition}."
        compute_s = seconds_of(metrics.pop(SECONDS, None))
        if task.apart and (why := raw.failed.get(own.partition)):
            parts.append((own, RawReply(compute_s=compute_s, error=last_line(why), detail=why)))
            continue
        summed = raw.arrays if own is task.together[0] else {}
        arrays = under_prefix(raw.arrays, prefix) if task.apart else summed
        parts.append((own, replace(raw, arrays=arrays, metrics=metrics, compute_s=compute_s)))
    return parts


def check_parts(
    task: Task, raw: RawReply | None, deadline_s: float, names: Mapping[int, str]
) -> list[tuple[Task, CheckedReply]]:
    """Each client's task with what its part of the reply is worth."""
    own_of = [(own, None) for own in members_of(task)] if raw is None else parts_of(task, raw)
    found = [
        (own, check_reply(own, part, deadline_s, names[own.partition])) for own, part in own_of
    ]
    bad = [(names[own.partition], c) for own, c in found if c.reply is None]
    if task.apart or not bad or len(bad) == len(found):
        return found
    name, first = bad[0]
    why = f"sent in one sum with {name}: {first.reason}"
    return [
        (own, c if c.reply is None else CheckedReply(first.status, why, None, c.bytes_up))
        for own, c in found
    ]
