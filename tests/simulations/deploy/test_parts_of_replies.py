"""Parts of a reply that the SuperLink could not store, or has stored without being able to say so."""

import time
from collections.abc import Iterator

import httpx
import pytest
from flwr.proto.message_pb2 import PushObjectRequest, PushObjectResponse

from simulations.deploy import lines
from simulations.deploy.lines import LineClient
from tests.simulations.deploy.fake_superlink import LOST, SuperLink, serving

PUSH = "push-object"
STORED = PushObjectResponse(stored=True).SerializeToString()
UNSTORED = PushObjectResponse(stored=False).SerializeToString()


@pytest.fixture
def superlink() -> Iterator[SuperLink]:
    with serving() as server:
        yield server


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
    superlink.answers[PUSH] = [UNSTORED, UNSTORED, UNSTORED, STORED]
    with superlink.client(LineClient) as client:
        assert client.PushObject(PushObjectRequest(object_id="a")).stored
    assert superlink.asked == [PUSH] * 4 and paused == [1, 2, 4]


@pytest.mark.parametrize("answer", [LOST, 502])
def test_a_part_is_there_already_where_an_answer_was_lost(
    superlink: SuperLink, paused: list[float], answer: int | None
) -> None:
    """Only that part, and only once."""
    superlink.answers[PUSH] = [answer, UNSTORED, UNSTORED, STORED]
    with superlink.client(LineClient) as client:
        with pytest.raises((httpx.TransportError, httpx.HTTPStatusError)):
            client.PushObject(PushObjectRequest(object_id="a"))
        assert client.PushObject(PushObjectRequest(object_id="a")).stored
        assert paused == []
        assert client.PushObject(PushObjectRequest(object_id="a")).stored
        assert paused == [1]


@pytest.mark.parametrize("error", [500, 413, "unreachable"])
def test_a_part_is_not_there_where_the_superlink_says_so(
    superlink: SuperLink, paused: list[float], error: int | str
) -> None:
    """By an error of its own, or where nobody was asked."""
    errors = [] if error == "unreachable" else [int(error)]
    superlink.answers[PUSH] = [*errors, UNSTORED, STORED]
    with superlink.client(LineClient) as client:
        own = client._base_url
        client._base_url = "http://127.0.0.1:1" if error == "unreachable" else own
        with pytest.raises((httpx.TransportError, httpx.HTTPStatusError)):
            client.PushObject(PushObjectRequest(object_id="a"))
        client._base_url = own
        assert client.PushObject(PushObjectRequest(object_id="a")).stored
    assert paused == [1]


def test_a_part_that_cannot_be_stored_is_given_up(
    superlink: SuperLink, paused: list[float]
) -> None:
    superlink.answers[PUSH] = [UNSTORED]
    with superlink.client(LineClient) as client:
        assert not client.PushObject(PushObjectRequest(object_id="a")).stored
    assert lines.STORE_LIMIT_S < sum(paused) < lines.STORE_LIMIT_S + 10
