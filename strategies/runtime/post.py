"""Messages on their way over a Flower grid, and when to look for replies.

Flower's own send_and_receive looks every 0.1 s, which together with the simulation's timer costs up to 0.2 s an exchange.
Where clients are simulated, waiting starts at 10 ms and grows with the time already waited (2 % of it, up to 0.25 s): short
exchanges are quick, and long ones do not keep a core busy. Real nodes need seconds for every message, and each look costs
their SuperLink a request over TLS: there it is every half second.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid
from flwr.superlink.grid import HttpGrid

from fedsuite.run_folder import RunFolder

FIRST_WAIT_S, LONGEST_WAIT_S, SHARE_OF_ELAPSED = 0.01, 0.25, 0.02
REAL_WAIT_S = 0.5
STRAY = "a reply that nobody waits for was ignored: a second one, or of a node that was not asked"
OnReply = Callable[[int, Message, float], None]
OnEvent = Callable[[Mapping[str, Any]], None]


def is_real(grid: Grid) -> bool:
    """Whether nodes are real ones, behind a SuperLink; simulated ones live beside the server."""
    return isinstance(grid, HttpGrid)


class Post:
    """Messages, each with a number of the caller's, and the replies to them.

    Second replies, and those of nodes that were not asked, are left out and noted in the folder's errors.log.
    """

    def __init__(self, grid: Grid, folder: RunFolder) -> None:
        self.grid, self.folder, self.real = grid, folder, is_real(grid)
        self.unanswered: set[int] = set()
        self._waiting: dict[str, tuple[int, int, float]] = {}  # number, node, when it was sent
        self._began = self._sent = time.monotonic()

    def send(self, number: int, message: Message) -> None:
        """Push one message, so that it is freed once it is sent; it takes the place of an earlier one of this number."""
        self.unanswered.add(number)
        self._forget(number)
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

    def awaited(self) -> Iterator[tuple[int, int]]:
        """Number and node of the messages whose replies may still come."""
        yield from ((number, node) for number, node, _ in self._waiting.values())

    def is_waiting(self, deadline_s: float) -> bool:
        """Whether replies are missing that may still come: `deadline_s` after the last message it is over."""
        return bool(self._waiting) and time.monotonic() - self._sent < deadline_s

    def elapsed(self) -> float:
        """Seconds since this was made."""
        return time.monotonic() - self._began

    def pause(self) -> None:
        elapsed = time.monotonic() - self._sent
        quick = min(LONGEST_WAIT_S, max(FIRST_WAIT_S, SHARE_OF_ELAPSED * elapsed))
        time.sleep(REAL_WAIT_S if self.real else quick)

    def _forget(self, number: int) -> None:
        self._waiting = {k: sent for k, sent in self._waiting.items() if sent[0] != number}
