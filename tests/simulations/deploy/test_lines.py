"""Lines that are slow and lines that break, by Flower's own client of a SuperLink over HTTP and by ours."""

import importlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest, PullMessagesResponse
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import Message, PushObjectRequest, PushObjectResponse
from flwr.proto.node_pb2 import Node
from flwr.supernode.fleet_http_client import FleetHttpClient

from simulations.deploy import lines
from simulations.deploy.lines import SAID, LineClient
from tests.deployment import NAMES, new_kit

NOTHING = PullMessagesResponse().SerializeToString()
SOMETHING = PullMessagesResponse(messages_list=[Message()]).SerializeToString()
STORED = PushObjectResponse(stored=True).SerializeToString()
UNSTORED = PushObjectResponse(stored=False).SerializeToString()
LOST = None  # the request has come, its answer does not arrive
Answers = list[bytes | int | None]


class SuperLink(HTTPServer):
    """answers: to questions for messages, one after another, none in the end; stores: to parts of replies, stored at last;
    codes: to other paths; asked: paths."""

    def __init__(self) -> None:
        self.answers: Answers = []
        self.stores: Answers = []
        self.codes: dict[str, int] = {}
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)

    def client(self, kind: type[FleetHttpClient]) -> FleetHttpClient:
        address = f"127.0.0.1:{self.server_port}"
        return kind.from_server_address(address, True, None, interceptors=[])


class Handler(BaseHTTPRequestHandler):
    server: SuperLink

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        what, server = self.path.rpartition("/")[2], self.server
        server.asked.append(what)
        answer: bytes | int | None = NOTHING
        if what == "pull-messages" and server.answers:
            answer = server.answers.pop(0)
        if what == "push-object":
            answer = server.stores.pop(0) if server.stores else STORED
        if answer is LOST:
            self.close_connection = True
            return
        body, code = (b"", answer) if isinstance(answer, int) else (answer, 200)
        self.send_response(server.codes.get(what, code))
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def superlink() -> Iterator[SuperLink]:
    with SuperLink() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


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
    superlink.answers = [answer, NOTHING, NOTHING]
    with activated(superlink) as client:
        ask(client)
        ask(client)
    pull = "pull-messages"
    assert superlink.asked == [pull, pull, "deactivate-node", "activate-node", pull]
    assert capsys.readouterr().out == f"{SAID}\n"


def test_what_this_is_for(superlink: SuperLink) -> None:
    """Flower's client asks again and leaves it at that; where a version does more, ours can go."""
    superlink.answers = [LOST, NOTHING]
    with activated(superlink, FleetHttpClient) as client:
        ask(client)
    assert superlink.asked == ["pull-messages"] * 2


@pytest.mark.parametrize("kind", [FleetHttpClient, LineClient])
@pytest.mark.parametrize("code", [500, 503, 404])
def test_an_error_inside_the_superlink_is_a_lost_answer_to_a_heartbeat(
    superlink: SuperLink, kind: type[FleetHttpClient], code: int
) -> None:
    """Flower's node goes on after those, and after errors 502 to 504; after any other it sends no more heartbeats."""
    own = kind is LineClient and code >= 500
    wanted = httpx.TransportError if own else httpx.HTTPStatusError
    superlink.codes = {"send-node-heartbeat": code}
    with activated(superlink, kind) as client, pytest.raises(wanted, match=str(code)):
        client.SendNodeHeartbeat(SendNodeHeartbeatRequest(heartbeat_interval=30))


def test_nothing_was_lost_where_a_message_comes(superlink: SuperLink) -> None:
    superlink.answers = [LOST, SOMETHING, NOTHING]
    with activated(superlink) as client:
        assert ask(client).messages_list
        assert not ask(client).messages_list
    assert superlink.asked == ["pull-messages"] * 3


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses between two attempts to send a part, which are over at once."""
    found: list[float] = []
    now = time.monotonic()
    monkeypatch.setattr(lines.time, "sleep", found.append)
    monkeypatch.setattr(lines.time, "monotonic", lambda: now + sum(found))
    return found


def test_a_part_that_was_not_stored_is_sent_again(
    superlink: SuperLink, paused: list[float]
) -> None:
    superlink.stores = [UNSTORED, UNSTORED, UNSTORED]
    with superlink.client(LineClient) as client:
        assert client.PushObject(PushObjectRequest(object_id="a")).stored
    assert superlink.asked == ["push-object"] * 4 and paused == [1, 2, 4]


@pytest.mark.parametrize("answer", [LOST, 500])
def test_a_part_is_there_already_where_an_answer_was_lost(
    superlink: SuperLink, paused: list[float], answer: int | None
) -> None:
    """Only that part, and only once."""
    superlink.stores = [answer, UNSTORED, UNSTORED]
    with superlink.client(LineClient) as client:
        with pytest.raises((httpx.TransportError, httpx.HTTPStatusError)):
            client.PushObject(PushObjectRequest(object_id="a"))
        assert client.PushObject(PushObjectRequest(object_id="a")).stored
        assert paused == []
        assert client.PushObject(PushObjectRequest(object_id="a")).stored
        assert paused == [1]


def test_a_part_that_cannot_be_stored_is_given_up(
    superlink: SuperLink, paused: list[float]
) -> None:
    superlink.stores = [UNSTORED] * 100
    with superlink.client(LineClient) as client:
        assert not client.PushObject(PushObjectRequest(object_id="a")).stored
    assert lines.STORE_LIMIT_S < sum(paused) < lines.STORE_LIMIT_S + 10


def test_a_question_that_never_left_is_none(superlink: SuperLink) -> None:
    """As while a line is down: the SuperLink has handed out nothing."""
    with activated(superlink) as client:
        own, client._base_url = client._base_url, "http://127.0.0.1:1"
        with pytest.raises(httpx.ConnectError):
            client.PullMessages(PullMessagesRequest())
        client._base_url = own
        ask(client)
    assert superlink.asked == ["pull-messages"]


@pytest.mark.parametrize("refused", ["deactivate-node", "activate-node"])
def test_the_superlink_may_have_been_quicker(superlink: SuperLink, refused: str) -> None:
    """It refuses one of the two where it has missed the node already, or where a heartbeat came in between."""
    superlink.answers = [LOST]
    with activated(superlink) as client:
        superlink.codes = {refused: 412}
        ask(client)
        ask(client)
    pull = "pull-messages"
    assert superlink.asked == [pull, pull, "deactivate-node", "activate-node", pull]


def test_an_error_on_the_way_is_no_refusal(superlink: SuperLink) -> None:
    superlink.answers = [LOST]
    with activated(superlink) as client:
        superlink.codes = {"deactivate-node": 502}
        with pytest.raises(AssertionError, match="five times"):
            ask(client)
        superlink.codes = {}
        ask(client)
        ask(client)
    assert superlink.asked[-4:] == [
        "pull-messages",
        "deactivate-node",
        "activate-node",
        "pull-messages",
    ]


def test_it_is_said_again_where_that_was_lost_too(superlink: SuperLink) -> None:
    """The line breaks once more between the two requests."""
    superlink.answers = [LOST]
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
