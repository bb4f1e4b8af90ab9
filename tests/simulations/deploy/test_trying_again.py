"""SuperNode and server ask again where the SuperLink fails inside for a moment, by Flower's own clients over HTTP."""

import importlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.superlink.grid import HttpGrid
from flwr.supernode.fleet_http_client import FleetHttpClient

from simulations.deploy import trying_again

CONNECTION = importlib.import_module(trying_again.CONNECTION)


@pytest.fixture
def superlink() -> Iterator[tuple[str, list[int]]]:
    """Its address, and what it answers one request after another, 200 in the end."""
    answers: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(answers.pop(0) if answers else 200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", answers
    server.shutdown()
    server.server_close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CONNECTION, trying_again.MAKER, getattr(CONNECTION, trying_again.MAKER))
    assert trying_again.try_again()


def asked(address: str) -> object:
    """One request as the SuperNode makes it, without pauses."""
    invoker = getattr(CONNECTION, trying_again.MAKER)()
    invoker.wait_function = lambda _: None
    with FleetHttpClient.from_server_address(address, True, None, interceptors=[]) as client:
        return invoker.invoke(client.PullMessages, PullMessagesRequest())


def test_flower_itself_gives_up(superlink: tuple[str, list[int]]) -> None:
    """What this is for: where a version asks again by itself, it can go."""
    address, answers = superlink
    answers += [500]
    with pytest.raises(httpx.HTTPStatusError, match="500"):
        asked(address)


def test_errors_of_a_moment_are_survived(superlink: tuple[str, list[int]], patient: None) -> None:
    address, answers = superlink
    answers += [500, 503, 500, 500]
    assert asked(address) is not None and answers == []


@pytest.mark.parametrize("code", [400, 404])
def test_other_errors_are_what_they_were(
    superlink: tuple[str, list[int]], patient: None, code: int
) -> None:
    address, answers = superlink
    answers += [code, 200]
    with pytest.raises(httpx.HTTPStatusError, match=str(code)):
        asked(address)
    assert answers == [200]


def test_an_error_that_stays_is_raised(
    superlink: tuple[str, list[int]], patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the limit, counted from the first of the errors."""
    address, answers = superlink
    now = iter(range(0, 10_000, 100))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(trying_again, "LIMIT_S", 1000.0)
    answers += [500] * 100
    with pytest.raises(httpx.HTTPStatusError, match="500"):
        asked(address)
    assert 50 < len(answers) < 99


def test_a_flower_without_such_an_invoker_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        CONNECTION, trying_again.MAKER, lambda: object.__new__(type("Other", (), {}))
    )
    before = getattr(CONNECTION, trying_again.MAKER)
    assert not trying_again.try_again()
    assert getattr(CONNECTION, trying_again.MAKER) is before


def grid_of(address: str) -> HttpGrid:
    """A server's grid, without pauses."""
    grid = HttpGrid(address, insecure=True, token="of the run")
    grid._retry_invoker.wait_function = lambda _: None
    return grid


@pytest.mark.parametrize("patient", [False, True])
def test_a_server_asks_again_where_flower_itself_gives_up(
    superlink: tuple[str, list[int]], patient: bool
) -> None:
    address, answers = superlink
    grid = grid_of(address)
    answers += [500, 503, 500]
    if patient:
        assert trying_again.try_again_over(grid)
        assert list(grid.get_nodes()) == [] and answers == []
    else:
        with pytest.raises(httpx.HTTPStatusError, match="500"):
            grid.get_nodes()
        assert answers == [503, 500]
    grid.close()


def test_a_grid_without_such_an_invoker_is_left_alone() -> None:
    assert not trying_again.try_again_over(object())
