"""A SuperNode's connection over lines that are slow, and over lines that break.

*Slow ones.* Flower (1.41, 1.42) sends a model in objects of up to 5 MB, two at a time, and gives each 30 s: first until the
operating system has taken it, then until the SuperLink has answered. An uplink of less than 2.8 Mbit/s may not do that, and
the node sends the same again and again. Here an object goes in pieces of PIECE bytes, each of which has 30 s of its own, and
the system takes no more than it sends soon (TCP_NOTSENT_LOWAT), so that those for the answer begin when all but UNSENT_BYTES
have left.

*Broken ones.* A SuperLink hands out a message once. Where its answer to "is there a message?" is lost on the way, so is the
message, while the node counts as there: its server waits for the reply until `reply-deadline-s`. Here a node whose
question was not answered, and that gets no message when it asks again, says anew that it is there (in Flower's words it is
activated once more). So does a node that cannot get a part of a message, which Flower's throws away without a word to the
server. The server (strategies/runtime/patience.py) then sends again what it waits for. A node that serves
several runs at once may get another run's message when it asks again; then nothing is said.

*Parts of a reply.* A SuperLink that could not store a part says so, and Flower's node throws the reply away. A part that is
there already is answered in the same way, as where the first answer was lost. Here a part is sent again for STORE_LIMIT_S,
and one that was sent before without an answer counts as stored. Should it not be, the SuperLink says after 3 minutes that
the reply is none, and the server sends the task again.

*Heartbeats.* Where one is answered by an error 500 (trying_again.py says when), Flower's node sends none any more, without a
word, and counts as gone from a minute later on. Here it goes on.
"""

import importlib
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    ActivateNodeResponse,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PullMessagesResponse,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest, SendNodeHeartbeatResponse
from flwr.proto.message_pb2 import (
    PullObjectRequest,
    PullObjectResponse,
    PushObjectRequest,
    PushObjectResponse,
)
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supernode.fleet_http_client import FleetHttpClient

from simulations.deploy.trying_again import CONNECTION, FAILED_INSIDE, pauses

PIECE, UNSENT_BYTES = 64 * 1024, 128 * 1024
STORE_LIMIT_S = 120.0  # after 180 s without a part Flower's SuperLink forgets the others
_CONNECTED = "connection.connect_tcp.complete"  # of httpcore, which makes httpx's connections
SAID = (
    "an answer of the SuperLink was lost, and perhaps a message with it: this node says anew that it is there, so that the "
    "message is sent again"
)
# A question that has not left is none.
_NOT_ASKED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class LineClient(FleetHttpClient):
    """Flower's client of a SuperLink, for such lines."""

    def __init__(self, *given: Any, interceptors: Any = (), **more: Any) -> None:
        super().__init__(*given, interceptors=(*interceptors, InPieces()), **more)
        self._activation: ActivateNodeRequest | None = None
        self._unanswered = False
        self._sent: set[tuple[str, str]] = set()  # parts to which no answer came

    def ActivateNode(self, request: ActivateNodeRequest) -> ActivateNodeResponse:
        self._activation = request
        return super().ActivateNode(request)

    def SendNodeHeartbeat(self, request: SendNodeHeartbeatRequest) -> SendNodeHeartbeatResponse:
        """An error inside the SuperLink counts as a lost answer: after any other, Flower's node sends no more of them."""
        try:
            return super().SendNodeHeartbeat(request)
        except httpx.HTTPStatusError as error:
            if error.response.is_server_error:
                raise httpx.RemoteProtocolError(str(error), request=error.request) from error
            raise

    def PullMessages(self, request: PullMessagesRequest) -> PullMessagesResponse:
        try:
            response = super().PullMessages(request)
            if self._unanswered and not response.messages_list:
                self._say_anew(request.node.node_id)
        except _NOT_ASKED:
            raise
        except (httpx.TransportError, httpx.HTTPStatusError):
            self._unanswered = True
            raise
        self._unanswered = False
        return response

    def PullObject(self, request: PullObjectRequest) -> PullObjectResponse:
        response = super().PullObject(request)
        self._unanswered |= not response.object_found  # Flower's node throws the message away
        return response

    def PushObject(self, request: PushObjectRequest) -> PushObjectResponse:
        part, left = (request.session_id, request.object_id), pauses(STORE_LIMIT_S)
        while True:
            try:
                response = super().PushObject(request)
            except (httpx.TransportError, httpx.HTTPStatusError) as error:
                if _was_lost(error):
                    self._sent.add(part)
                raise
            if response.stored or part in self._sent:
                self._sent.discard(part)
                return PushObjectResponse(stored=True)
            if (pause := next(left, None)) is None:
                return response
            time.sleep(pause)

    def _say_anew(self, node: int) -> None:
        if self._activation is None:
            return
        print(SAID, flush=True)
        with _unless_refused():  # it counts as gone already
            self.DeactivateNode(DeactivateNodeRequest(node_id=node))
        with _unless_refused():  # a heartbeat was quicker
            self.ActivateNode(self._activation)


def _was_lost(error: httpx.TransportError | httpx.HTTPStatusError) -> bool:
    """Whether a SuperLink may have done what it was asked, and its answer did not come: not where it says that it failed."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code > FAILED_INSIDE  # of a proxy before it
    return not isinstance(error, _NOT_ASKED)


class InPieces:
    """Sends a client's requests piece by piece, on connections that hold back little."""

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        context.request.stream = Pieces(context.request.content)
        context.request.extensions["trace"] = _bound
        return call_next(context)


class Pieces(httpx.SyncByteStream):
    """What a request carries."""

    def __init__(self, content: bytes) -> None:
        self._content = memoryview(content)

    def __iter__(self) -> Iterator[bytes]:
        for begin in range(0, len(self._content), PIECE):
            yield bytes(self._content[begin : begin + PIECE])


def over_any_line() -> bool:
    """Have the SuperNode's connection use this client; whether it has one to replace."""
    connection = importlib.import_module(CONNECTION)
    if getattr(connection, "FleetHttpClient", None) is not FleetHttpClient:
        return False
    connection.FleetHttpClient = LineClient  # type: ignore[attr-defined]
    return True


@contextmanager
def _unless_refused() -> Iterator[None]:
    """A refusal is no error; one of the SuperLink, or of a proxy before it, is."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        if error.response.is_server_error:
            raise


def _bound(event: str, about: dict[str, Any]) -> None:
    if event == _CONNECTED and hasattr(socket, "TCP_NOTSENT_LOWAT"):  # not on Windows
        connection = about["return_value"].get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
