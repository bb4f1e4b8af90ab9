"""SuperNode and server ask again where the SuperLink fails inside for a moment, by Flower's own clients over HTTP."""

import importlib
import time
from collections.abc import Iterable, Iterator

import httpx
import pytest
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.superlink.grid import HttpGrid
from flwr.supernode.fleet_http_client import FleetHttpClient

from simulations.deploy import trying_again
from tests.simulations.deploy.fake_superlink import NOTHING, SuperLink, serving

PULL, NODES = "pull-messages", "get-nodes"  # what is asked for here
CONNECTION = importlib.import_module(trying_again.CONNECTION)


@pytest.fixture
def superlink() -> Iterator[SuperLink]:
    with serving() as server:
        yield server


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CONNECTION, trying_again.MAKER, getattr(CONNECTION, trying_again.MAKER))
    assert trying_again.try_again()


def ask(superlink: SuperLink) -> object:
    """One request as the SuperNode makes it, without pauses."""
    invoker = getattr(CONNECTION, trying_again.MAKER)()
    invoker.wait_function = lambda _: None
    with superlink.client(FleetHttpClient) as client:
        return invoker.invoke(client.PullMessages, PullMessagesRequest())


def test_flower_itself_gives_up(superlink: SuperLink) -> None:
    """What this is for: where a version asks again by itself, it can go."""
    superlink.answers[PULL] = [500]
    with pytest.raises(httpx.HTTPStatusError, match="500"):
        ask(superlink)


def test_errors_of_a_moment_are_survived(superlink: SuperLink, patient: None) -> None:
    superlink.answers[PULL] = [500, 503, 500, 500, NOTHING]
    assert ask(superlink) is not None and superlink.asked == [PULL] * 5


@pytest.mark.parametrize("code", [400, 404])
def test_other_errors_are_what_they_were(superlink: SuperLink, patient: None, code: int) -> None:
    superlink.answers[PULL] = [code, NOTHING]
    with pytest.raises(httpx.HTTPStatusError, match=str(code)):
        ask(superlink)
    assert superlink.asked == [PULL]


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by 100 s whenever somebody looks, and pauses that are over at once."""
    now = iter(range(0, 10_000_000, 100))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(time, "sleep", lambda _: None)


def test_a_node_has_all_the_time(superlink: SuperLink, patient: None, hours: None) -> None:
    superlink.answers[PULL] = [*[500] * 100, NOTHING]
    assert ask(superlink) is not None and superlink.asked == [PULL] * 101


def test_a_flower_without_such_an_invoker_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        CONNECTION, trying_again.MAKER, lambda: object.__new__(type("Other", (), {}))
    )
    before = getattr(CONNECTION, trying_again.MAKER)
    assert not trying_again.try_again()
    assert getattr(CONNECTION, trying_again.MAKER) is before


def grid_of(superlink: SuperLink) -> HttpGrid:
    """A server's grid, without pauses."""
    grid = HttpGrid(superlink.address, insecure=True, token="of the run")
    grid._retry_invoker.wait_function = lambda _: None
    return grid


@pytest.mark.parametrize("patient", [False, True])
def test_a_server_asks_again_where_flower_itself_gives_up(
    superlink: SuperLink, patient: bool
) -> None:
    grid = grid_of(superlink)
    superlink.answers[NODES] = [500, 503, 500, NOTHING]
    if patient:
        assert trying_again.try_again_over(grid)
        assert list(grid.get_nodes()) == [] and superlink.asked == [NODES] * 4
    else:
        with pytest.raises(httpx.HTTPStatusError, match="500"):
            grid.get_nodes()
        assert superlink.asked == [NODES]
    grid.close()


def test_an_error_that_stays_ends_a_servers_run(
    superlink: SuperLink, monkeypatch: pytest.MonkeyPatch, hours: None
) -> None:
    """After the limit, counted from the first of the errors."""
    monkeypatch.setattr(trying_again, "LIMIT_S", 1000.0)
    grid = grid_of(superlink)
    assert trying_again.try_again_over(grid)
    superlink.answers[NODES] = [500]
    with pytest.raises(httpx.HTTPStatusError, match="500"):
        grid.get_nodes()
    assert 1 < len(superlink.asked) < 50


class Unable:
    """A grid whose SuperLink can store no parts, so many times."""

    def __init__(self, times: int, error: Exception) -> None:
        self._retry_invoker = make_simple_http_retry_invoker()
        self.times, self.error, self.pushed = times, error, list[list[str]]()

    def push_messages(self, messages: Iterable[str]) -> list[str]:
        self.pushed.append(list(messages))
        if len(self.pushed) <= self.times:
            raise self.error
        return [f"number of {m}" for m in messages]


NOT_STORED = ObjectPushError("object", 7, "session")


def test_a_message_that_was_not_stored_is_sent_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paused: list[float] = []
    monkeypatch.setattr(time, "sleep", paused.append)
    grid = Unable(6, NOT_STORED)
    assert trying_again.try_again_over(grid)
    assert grid.push_messages(iter(["a", "b"])) == ["number of a", "number of b"]
    assert grid.pushed == [["a", "b"]] * 7 and paused == [1, 2, 4, 8, 10, 10]
    assert capsys.readouterr().out.count("the SuperLink could not store a message") == 6


@pytest.mark.parametrize("error", [NOT_STORED, ValueError("no message")])
def test_a_message_that_cannot_be_stored_is_given_up(
    monkeypatch: pytest.MonkeyPatch, hours: None, error: Exception
) -> None:
    monkeypatch.setattr(trying_again, "LIMIT_S", 1000.0)
    grid = Unable(100, error)
    assert trying_again.try_again_over(grid)
    with pytest.raises(type(error), match=str(error)):
        grid.push_messages(["a"])
    assert len(grid.pushed) == (11 if error is NOT_STORED else 1)


def test_a_grid_without_such_an_invoker_is_left_alone() -> None:
    assert not trying_again.try_again_over(object())
