"""Messages on their way over a Flower grid, and when to look for replies.

Flower's own send_and_receive looks every 0.1 s, which together with the simulation's timer costs up to 0.2 s an exchange.
Where clients are simulated, waiting starts at 10 ms and grows with the time already waited (2 % of it, up to 0.25 s): short
exchanges are quick, and long ones do not keep a core busy. Real nodes need seconds for every message, and each look costs
their SuperLink a request over TLS: there it starts half a second after the last message was sent, grows from half a second
to 5 s in the same way (less where more than ten are awaited), and is for the ten that have waited longest.
"""

import sys
import time
from collections.abc import Callable, Iterator

from flwr.app import Message
from flwr.serverapp import Grid
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from fedsuite.runs.folder import RunFolder
from strategies.runtime.one_record import in_one, parted

FIRST_WAIT_S, LONGEST_WAIT_S, SHARE_OF_ELAPSED = 0.01, 0.25, 0.02
REAL_FIRST_S, REAL_LONGEST_S = 0.5, 5.0
STRAY = "a reply that nobody waits for was ignored: a second one, or of a node that was not asked"
MOST_LOOKS = 10  # requests of one look; who waits longest for one comes first
# What Flower raises where the bytes of a message are none. Errors of the network are others.
_NOT_A_MESSAGE = (
    ValueError, TypeError, LookupError, AttributeError, AssertionError, MemoryError, RecursionError, DecodeError,
)  # fmt: skip
OnReply = Callable[[int, Message | Exception, float], None]


def is_real(grid: Grid) -> bool:
    """Whether nodes are real ones, behind a SuperLink; simulated ones live beside the server.

    Whoever made a grid for real ones has loaded Flower's; loading it to ask takes a second.
    """
    flower = sys.modules.get("flwr.superlink.grid")
    return flower is not None and isinstance(grid, flower.HttpGrid)


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
        if number in self.unanswered:
            self._forget(number)
        self.unanswered.add(number)
        self._sent = time.monotonic()
        if self.real:
            message.content = in_one(message.content)
        sent = number, message.metadata.dst_node_id, self._sent
        for message_id in filter(None, self.grid.push_messages([message])):
            self._waiting[message_id] = sent

    def collect(self, on_reply: OnReply) -> bool:
        """Call on_reply(number, reply, seconds since it was sent) for what has come; whether anything has."""
        return self._collect_one_by_one(on_reply) if self.real else self._collect_all(on_reply)

    def _collect_all(self, on_reply: OnReply) -> bool:
        replies = list(self.grid.pull_messages(list(self._waiting))) if self._waiting else []
        for reply in replies:
            about = reply.metadata
            _, node, _ = self._waiting.get(about.reply_to_message_id, (-1, 0, 0.0))
            # An error may be Flower's own, about a node that it cannot reach.
            if not node or not (reply.has_error() or about.src_node_id == node):
                self.folder.log_error(f"node {about.src_node_id}", STRAY)
                continue
            self._answered(about.reply_to_message_id, reply, on_reply)
        return bool(replies)

    def _collect_one_by_one(self, on_reply: OnReply) -> bool:
        """Real nodes write their messages themselves. One that Flower cannot read takes along those that come with it, and
        the SuperLink alone knows whom one is from: so each is asked for alone."""
        came = False
        if self._since_sent() < REAL_FIRST_S:
            return came
        for message_id in list(self._waiting)[:MOST_LOOKS]:
            reply = self._look(message_id)
            if reply is None:  # the next look begins with others
                self._waiting[message_id] = self._waiting.pop(message_id)
                continue
            self._answered(message_id, reply, on_reply)
            came = True
        return came

    def _look(self, message_id: str) -> Message | Exception | None:
        """The reply to a message if it has come; an exception if that is none."""
        try:
            replies = list(self.grid.pull_messages([message_id]))
            for reply in replies:
                if reply.has_content():
                    reply.content = parted(reply.content)
        except _NOT_A_MESSAGE as error:
            return error
        for reply in replies:
            about, (_, node, _) = reply.metadata, self._waiting[message_id]
            ours = reply.has_error() or about.src_node_id == node
            if about.reply_to_message_id == message_id and ours:
                return reply
            return ValueError("it says that it is another node's, or the reply to another message")
        return None

    def _answered(self, message_id: str, reply: Message | Exception, on_reply: OnReply) -> None:
        number, _, sent_at = self._waiting.pop(message_id)
        self.unanswered.discard(number)
        on_reply(number, reply, time.monotonic() - sent_at)

    def awaited(self) -> Iterator[tuple[int, int]]:
        """Number and node of the messages whose replies may still come."""
        yield from ((number, node) for number, node, _ in self._waiting.values())

    def repeated(self) -> Iterator[tuple[int, int, str]]:
        """Numbers of messages that a grid with workers has sent again since the last call, each dead worker, and its end."""
        taken = self.grid.take_repeated() if hasattr(self.grid, "take_repeated") else []
        for message_id, worker, why in taken:
            if message_id in self._waiting:
                yield self._waiting[message_id][0], worker, why

    def is_waiting(self, deadline_s: float) -> bool:
        """Whether replies are missing that may still come: `deadline_s` after the last message it is over."""
        return bool(self._waiting) and self._since_sent() < deadline_s

    def elapsed(self) -> float:
        """Seconds since this was made."""
        return time.monotonic() - self._began

    def pause(self) -> None:
        first, longest = FIRST_WAIT_S, LONGEST_WAIT_S
        if self.real:  # all that wait have been looked for after so many pauses
            looks = max(1.0, len(self._waiting) / MOST_LOOKS)
            first, longest = REAL_FIRST_S, max(REAL_FIRST_S, REAL_LONGEST_S / looks)
        time.sleep(min(longest, max(first, SHARE_OF_ELAPSED * self._since_sent())))

    def _since_sent(self) -> float:
        return time.monotonic() - self._sent

    def _forget(self, number: int) -> None:
        self._waiting = {k: sent for k, sent in self._waiting.items() if sent[0] != number}
