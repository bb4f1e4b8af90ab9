"""Flower's Grid interface without a SuperLink: what every engine of this host has, and the one of the caller's process.

In process one message is answered after another: for tests, notebooks and protocols of many tiny messages, since an exchange
costs under a millisecond and nothing is started. Messages and state are copied both ways, their bytes shared, so that no
side can change the other's arrays. What a client raises comes back as an error reply. Clients that compute for long gain
from the Ray engine, which uses all cores.
"""

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any
from uuid import uuid4

from flwr.app import Array, Context, Message, RecordDict
from flwr.app.error import Error
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from clients.numpy_client_app import CLIENT_RAISED
from fedsuite.history import OnEvent
from fedsuite.storage.progress import silent
from simulations.app.in_turn import in_turn

ClientCall = Callable[[Message, Context], Message]
RUN_ID, SERVER = 1, (1, 1, 1)  # the server's task, run and node


class LocalGrid(Grid):
    """`num_nodes` simulated nodes and their contexts; `more` goes into the node-config of each."""

    def __init__(self, num_nodes: int, run_config: Mapping[str, Any], **more: Any) -> None:
        self.contexts: dict[int, Context] = {}
        config = dict(run_config)
        self._run = Run.create_empty(RUN_ID)
        for partition in range(num_nodes):
            # Unlike the partition and not in its order, as on a real grid.
            node_id = 10_007 * (num_nodes - partition)
            own = {"partition-id": partition, "num-partitions": num_nodes, **more}
            self.contexts[node_id] = Context(RUN_ID, node_id, own, RecordDict(), config)

    def set_run(self, run: Run) -> None:
        self._run = run

    @property
    def run(self) -> Run:
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """All replies, in the order of the messages; nothing can be late here."""
        ids, replies = list(self.push_messages(messages)), dict[str, Message]()
        while missing := [i for i in ids if i not in replies]:
            for reply in self.pull_messages(missing):
                replies[reply.metadata.reply_to_message_id] = reply
        return [replies[i] for i in ids]


class InProcessGrid(LocalGrid):
    """The nodes answer with `client_app`; a reply is computed when it is pulled."""

    def __init__(
        self, client_app: ClientCall, num_nodes: int, run_config: Mapping[str, Any]
    ) -> None:
        super().__init__(num_nodes, run_config, resident=True)
        self.client_app = client_app
        self._pending: dict[str, Message] = {}

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Queue copies of the messages; their ids."""
        ids = []
        for message in messages:
            sent = _handed_over(message)
            message_id = str(uuid4())
            sent.metadata.__dict__["_message_id"] = message_id
            self._pending[message_id] = sent
            ids.append(message_id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The reply to the first of these messages that is still open, or nothing."""
        for message_id in message_ids:
            if message_id in self._pending:
                return [self._reply(self._pending.pop(message_id))]
        return []

    def _reply(self, message: Message) -> Message:
        node_id = message.metadata.dst_node_id
        context = _with_own_state(self.contexts[node_id])
        reply = answered(self.client_app, message, context)
        if reply.has_error():
            return reply
        self.contexts[node_id] = _with_own_state(context)
        return _handed_over(reply)


def answered(client_app: ClientCall, message: Message, context: Context) -> Message:
    """The reply; an error reply where the app raises, as on a real grid: the server is told."""
    try:
        return client_app(message, context)
    except Exception:
        return Message(Error(CLIENT_RAISED, traceback.format_exc()), reply_to=message)


@contextmanager
def server_identity() -> Iterator[None]:
    """Message() asks Flower's process-wide identity who is sending; lend it one for a while."""
    before = (TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id)
    TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = SERVER
    try:
        yield
    finally:
        TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = before


@in_turn()
def run_inprocess(
    run_config: Mapping[str, Any], on_event: OnEvent = lambda _: None, launched: bool = False
) -> None:
    """Run server and clients of a resolved run-config here, in turn with other threads.

    launched: the caller has put the settings through all checks, and writes the tables when this has ended.
    """
    from fedsuite.roster.members import read_roster
    from simulations.client_app import app as client_app
    from simulations.server_app import serve
    from simulations.systems import settings_of

    system, settings = settings_of(run_config)
    if not launched:
        system.validate(settings)
    given = Path(settings.roster) if settings.roster else None
    members = len(read_roster(given) if given else system.prepare(settings, silent))
    nodes = system.simulated_nodes(settings, members)
    grid = InProcessGrid(client_app, nodes, run_config)
    with server_identity():
        placement = {"engine": "inprocess"}
        serve(grid, run_config, on_event, placement=placement, validated=True, tables=not launched)


def _with_own_state(context: Context) -> Context:
    """A copy: settings are plain values, which nobody can change in place."""
    node, run = dict(context.node_config), dict(context.run_config)
    return Context(context.run_id, context.node_id, node, _own(context.state), run)


def _handed_over(message: Message) -> Message:
    """A copy of a message. The bytes of arrays are shared: nobody can change them in place."""
    handed = copy(message)
    handed.__dict__["_metadata"] = copy(message.metadata)
    if message.has_content():
        handed.content = _own(message.content)
    return handed


def _own(content: RecordDict) -> RecordDict:
    """Copies of all records, with what they hold but for bytes and numbers."""
    own = content.copy()
    for key, record in content.items():
        values: Any = record.copy()
        for name, value in record.items():
            if isinstance(value, (Array, list)):
                values[name] = copy(value)
        own[key] = values
    return own
