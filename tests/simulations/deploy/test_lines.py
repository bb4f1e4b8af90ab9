"""Lines that are slow and lines that break, by Flower's own client of a SuperLink over HTTP and by ours."""

import importlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest, PullMessagesResponse
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import (
    Message,
    PullObjectRequest,
    PullObjectResponse,
    PushObjectRequest,
    PushObjectResponse,
)
from flwr.proto.node_pb2 import Node
from flwr.supernode.fleet_http_client import FleetHttpClient

from simulations.deploy import lines
from simulations.deploy.lines import SAID, LineClient
from tests.deployment import NAMES, new_kit
from tests.simulations.deploy.fake_superlink import LOST, NOTHING, SuperLink, serving

PULL = "pull-messages"
SOMETHING = PullMessagesResponse(messages_list=[Message()]).SerializeToString()
STORED = PushObjectResponse(stored=True).SerializeToString()


@pytest.fixture
def superlink() -> Iterator[SuperLink]:
    with serving() as server:
        yield server


def activated(superlink: SuperLink, kind: type[FleetHttpClient] = LineClient) -> FleetHttpClient:
    client = superlink.client(kind)
    client.ActivateNode(ActivateNodeRequest(public_key=b"key", heartbeat_interval=30))
    superlink.asked.clear()
    return client


def ask(client: FleetHttpClient) -> PullMessagesResponse:
    """As the SuperNode does it: again where no answer has come."""
    for _ in range(5):
        try:
            return client.PullMessages(PullMessagesRequest(node=Node(node_id=7)))
        except (httpx.TransportError, httpx.HTTPStatusError):
            continue
    raise AssertionError("five times no answer")


# --- lines that break -----------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [LOST, 502, 504])
def test_whoever_lost_an_answer_and_gets_no_message_says_anew_that_it_is_there(
    superlink: SuperLink, capsys: pytest.CaptureFixture[str], answer: int | None
) -> None:
    superlink.answers[PULL] = [answer, NOTHING]
    with activated(superlink) as client:
        ask(client)
        ask(client)
    assert superlink.asked == [PULL, PULL, "deactivate-node", "activate-node", PULL]
    assert capsys.readouterr().out == f"{SAID}\n"


def test_what_this_is_for(superlink: SuperLink) -> None:
    """Flower's client asks again and leaves it at that; where a version does more, ours can go."""
    superlink.answers[PULL] = [LOST, NOTHING]
    with activated(superlink, FleetHttpClient) as client:
        ask(client)
    assert superlink.asked == [PULL] * 2


@pytest.mark.parametrize("kind", [FleetHttpClient, LineClient])
@pytest.mark.parametrize("code", [500, 503, 404])
def test_an_error_inside_the_superlink_is_a_lost_answer_to_a_heartbeat(
    superlink: SuperLink, kind: type[FleetHttpClient], code: int
) -> None:
    """Flower's node goes on after those, and after errors 502 to 504; after any other it sends no more heartbeats."""
    own = kind is LineClient and code >= 500
    wanted = httpx.TransportError if own else httpx.HTTPStatusError
    superlink.answers["send-node-heartbeat"] = [code]
    with activated(superlink, kind) as client, pytest.raises(wanted, match=str(code)):
        client.SendNodeHeartbeat(SendNodeHeartbeatRequest(heartbeat_interval=30))


def test_nothing_was_lost_where_a_message_comes(superlink: SuperLink) -> None:
    superlink.answers[PULL] = [LOST, SOMETHING, NOTHING]
    with activated(superlink) as client:
        assert ask(client).messages_list
        assert not ask(client).messages_list
    assert superlink.asked == [PULL] * 3


@pytest.mark.parametrize("found", [True, False])
def test_a_message_that_misses_a_part_was_lost(superlink: SuperLink, found: bool) -> None:
    superlink.answers[PULL] = [SOMETHING, NOTHING]
    superlink.answers["pull-object"] = [PullObjectResponse(object_found=found).SerializeToString()]
    with activated(superlink) as client:
        assert ask(client).messages_list
        client.PullObject(PullObjectRequest(object_id="a"))
        ask(client)
    anew = [] if found else ["deactivate-node", "activate-node"]
    assert superlink.asked == [PULL, "pull-object", PULL, *anew]


def test_a_question_that_never_left_is_none(superlink: SuperLink) -> None:
    """As while a line is down: the SuperLink has handed out nothing."""
    with activated(superlink) as client:
        own, client._base_url = client._base_url, "http://127.0.0.1:1"
        with pytest.raises(httpx.ConnectError):
            client.PullMessages(PullMessagesRequest())
        client._base_url = own
        ask(client)
    assert superlink.asked == [PULL]


@pytest.mark.parametrize("refused", ["deactivate-node", "activate-node"])
def test_the_superlink_may_have_been_quicker(superlink: SuperLink, refused: str) -> None:
    """It refuses one of the two where it has missed the node already, or where a heartbeat came in between."""
    superlink.answers[PULL] = [LOST, NOTHING]
    with activated(superlink) as client:
        superlink.answers[refused] = [412]
        ask(client)
        ask(client)
    assert superlink.asked == [PULL, PULL, "deactivate-node", "activate-node", PULL]


def test_an_error_on_the_way_is_no_refusal(superlink: SuperLink) -> None:
    superlink.answers[PULL] = [LOST, NOTHING]
    with activated(superlink) as client:
        superlink.answers["deactivate-node"] = [502]
        with pytest.raises(AssertionError, match="five times"):
            ask(client)
        superlink.answers["deactivate-node"] = [NOTHING]
        ask(client)
        ask(client)
    assert superlink.asked[-4:] == [PULL, "deactivate-node", "activate-node", PULL]


def test_it_is_said_again_where_that_was_lost_too(superlink: SuperLink) -> None:
    """The line breaks once more between the two requests."""
    superlink.answers[PULL] = [LOST, NOTHING]
    with activated(superlink) as client:
        activate, tries = client.ActivateNode, []

        def breaks_once(request: ActivateNodeRequest) -> object:
            tries.append(request)
            if len(tries) == 1:
                raise httpx.ReadError("broken")
            return activate(request)

        client.ActivateNode = breaks_once  # type: ignore[assignment,method-assign]
        ask(client)
    assert [t.public_key for t in tries] == [b"key", b"key"]
    assert superlink.asked.count("deactivate-node") == 2


# --- lines that are slow --------------------------------------------------------------------------

SIZE, PIECE, PAUSE_S, PATIENCE_S = 3_000_000, 60_000, 0.05, 1.0  # 2.5 s for all of it


@pytest.fixture
def slow_line(tmp_path: Path) -> Iterator[tuple[str, bytes]]:
    """Address and authority of a SuperLink that takes PIECE bytes in PAUSE_S, and answers when it has all."""
    kit = new_kit(tmp_path / "kit")
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2 * PIECE)
        server.bind(("127.0.0.1", 0))
        server.listen()
        secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        secure.load_cert_chain(kit / "server" / "server.pem", kit / "server" / "server.key")
        thread = threading.Thread(target=take_slowly, args=(server, secure), daemon=True)
        thread.start()
        authority = (kit / "nodes" / NAMES[0] / "ca.crt").read_bytes()
        yield f"localhost:{server.getsockname()[1]}", authority
        thread.join(20)


def take_slowly(server: socket.socket, secure: ssl.SSLContext) -> None:
    accepted, _ = server.accept()
    accepted.settimeout(10)
    with suppress(OSError), secure.wrap_socket(accepted, server_side=True) as connection:
        got = 0
        while got < SIZE:
            data = connection.recv(PIECE)
            if not data:
                return
            got += len(data)
            time.sleep(PAUSE_S * len(data) / PIECE)
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(STORED)}\r\n\r\n"
        connection.sendall(head.encode() + STORED)


def push(slow_line: tuple[str, bytes], kind: type[FleetHttpClient]) -> None:
    """An object that takes longer than the client's patience."""
    address, authority = slow_line
    with kind.from_server_address(address, False, authority, interceptors=[]) as client:
        client._client.timeout = httpx.Timeout(PATIENCE_S)
        client.PushObject(PushObjectRequest(object_content=b"\0" * SIZE))


def test_flower_gives_up_what_takes_long_to_send(slow_line: tuple[str, bytes]) -> None:
    """Where a version does not, ours can go."""
    with pytest.raises(httpx.TimeoutException):
        push(slow_line, FleetHttpClient)


def test_what_takes_long_to_send_arrives(slow_line: tuple[str, bytes]) -> None:
    began = time.monotonic()
    push(slow_line, LineClient)
    assert time.monotonic() - began > PATIENCE_S


# --- how a SuperNode comes to it --------------------------------------------------------------------


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    module = importlib.import_module(lines.CONNECTION)
    monkeypatch.setattr(module, "FleetHttpClient", FleetHttpClient)
    return lambda: module.FleetHttpClient


def test_a_supernode_uses_it(connection: Callable[[], object]) -> None:
    assert lines.over_any_line()
    assert connection() is LineClient


def test_another_flower_keeps_its_own(
    connection: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module(lines.CONNECTION), "FleetHttpClient", None)
    assert not lines.over_any_line()
    assert connection() is None
