"""What is told of a run while it goes on: the lines of timings.jsonl, which displays get too, and their kinds.

Whoever writes an event makes it with `event`, so that no kind is written that is not declared here; whoever shows events
goes by `kind_of`. Kinds of the evaluations after the last round have "closing-" before them; "closing" is their end.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any

from fedsuite.errors import one_line

AFTER_THE_ROUNDS = "closing-"
OnEvent = Callable[[Mapping[str, Any]], None]  # is told every event of a run when it happens


class Kind(StrEnum):
    WAITING = "waiting"  # for something that must start first; this one alone is never written down
    READY = "ready"  # all clients have said who they are
    EXCHANGE = "exchange"  # tasks are sent
    MESSAGES = "messages"  # how many of a round's many small messages are through
    CLIENT = "client"  # one has answered, or all of its small messages together
    LOST = "lost"  # a node is gone, and is waited for
    SENT_AGAIN = "sent-again"  # it is back; or a simulation's worker has died with a client's task
    ROUND = "round"  # a round is over
    ENDS = "ends"  # the strategy wants no further rounds, although more were asked for
    CLOSING = "closing"  # so are the evaluations after the last one


def event(round: int, kind: Kind, prefix: str = "") -> dict[str, Any]:
    """The beginning of an event, to which its own fields are added; prefix: "closing-" after the last round."""
    return {"round": round, "kind": f"{prefix}{kind}"}


def kind_of(event: Mapping[str, Any]) -> Kind | None:
    """Without the prefix; None for a kind that another version has written."""
    with suppress(ValueError):
        return Kind(str(event.get("kind")).removeprefix(AFTER_THE_ROUNDS))
    return None


def line_about(event: Mapping[str, Any]) -> str:
    """A sentence on what numbers do not show: who is lost or back, and what is not known here; "" for all else."""
    where, who = f"round {event.get('round')}", one_line(str(event.get("client")), 40)
    match kind_of(event):
        case Kind.READY if "unlike" in event:
            unlike = one_line(str(event["unlike"]), 1000)
            return f"nodes differ, so that last digits may, and random draws of torch: {unlike}"
        case Kind.LOST:
            reason = one_line(str(event.get("reason")), 200)
            return f"{where}: {who} is lost ({reason}); waiting for it to come back"
        case Kind.SENT_AGAIN if "worker" in event:
            reason = one_line(str(event.get("reason")), 400)
            return f"{where}: worker {event['worker']} died ({reason}); the task of {who} was sent again"
        case Kind.SENT_AGAIN:
            return f"{where}: {who} is back and was sent its task again"
        case Kind.ENDS:
            return f"after round {event.get('round')}: {one_line(str(event.get('reason')), 400)}"
        case Kind.WAITING:
            return f"waiting for {event.get('for')}, {event.get('seconds')} s"
        case None:
            said = one_line(str(event.get("kind")), 40)
            return f"{where}: {said} (of another version of fedsuite, not known to this one)"
        case _:
            return ""
