"""One exchange over a Flower grid: push all messages, pull replies until all are there or time is up.

Flower's own send_and_receive looks every 0.1 s, which together with the simulation's timer costs up
to 0.2 s an exchange. Here waiting starts at 10 ms and grows with the time already waited (2 % of
it, up to 0.25 s), so that short exchanges are quick and long ones do not keep a core busy.
"""

import time
from collections.abc import Callable, Iterable

from flwr.app import Message
from flwr.serverapp import Grid

FIRST_WAIT_S, LONGEST_WAIT_S, SHARE_OF_ELAPSED = 0.01, 0.25, 0.02
OnReply = Callable[[int, Message, float], None]


def exchange(
    grid: Grid, messages: Iterable[Message], deadline_s: float, on_reply: OnReply
) -> set[int]:
    """Call on_reply(position of the message, reply, seconds since it was sent) as replies come.

    Returns the positions that got no reply. Messages are pushed one by one, so that each is freed
    once it is sent and a refused one is known.
    """
    waiting: dict[str, int] = {}
    sent_at: dict[int, float] = {}
    unanswered: set[int] = set()
    for position, message in enumerate(messages):
        sent_at[position] = time.monotonic()
        unanswered.add(position)
        for message_id in grid.push_messages([message]):
            if message_id:
                waiting[message_id] = position
    begin = time.monotonic()
    while waiting and (elapsed := time.monotonic() - begin) < deadline_s:
        replies = list(grid.pull_messages(list(waiting)))
        for reply in replies:
            position = waiting.pop(reply.metadata.reply_to_message_id)
            unanswered.discard(position)
            on_reply(position, reply, time.monotonic() - sent_at[position])
        if not replies:
            time.sleep(min(LONGEST_WAIT_S, max(FIRST_WAIT_S, SHARE_OF_ELAPSED * elapsed)))
    return unanswered
