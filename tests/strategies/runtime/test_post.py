"""Messages of real nodes, whose bytes Flower reads before anybody else does: one that is none costs no other its reply."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message
from flwr.app.error import Error
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from fedsuite.errors import RunFailed
from fedsuite.history import HISTORY, read_rows
from strategies.runtime import exchange, one_record, post
from strategies.runtime.messages import WORKER_DIED
from tests.harness import Recorder, run_toy
from tests.strategies.runtime.loops import FakeTime


class Wire(Recorder):
    """A SuperLink: replies go as objects of bytes, each once; one node's answers to training are other bytes."""

    spoil: Any

    def get_nodes(self) -> list[Any]:
        return []

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        ids = list(message_ids)
        # All that are waiting are handed over, and none of them again.
        replies = [reply for i in ids for reply in super(Wire, self).pull_messages([i])]
        return [self._inflated(reply) for reply in replies]

    def _inflated(self, reply: Message) -> Message:
        objects = {key: thing.deflate() for key, thing in get_all_nested_objects(reply).items()}
        hostile = reply.metadata.src_node_id == max(self.get_node_ids())
        if hostile and reply.metadata.message_type == "train":
            objects = type(self).spoil(reply, objects)
        found = inflate_object_from_contents(reply.object_id, objects)
        assert isinstance(found, Message)
        return found


def of_kind(kind: bytes, change: Any) -> Any:
    """Another body of the first object of a kind."""

    def spoil(reply: Message, objects: dict[str, bytes]) -> dict[str, bytes]:
        key = next(k for k, v in objects.items() if v.startswith(kind + b" "))
        head, _, body = objects[key].partition(b"\x00")
        return objects | {key: head + b"\x00" + change(body)}

    return spoil


def as_another(field: str, value: Any) -> Any:
    """The reply says that it is another node's, or to another message."""

    def spoil(reply: Message, objects: dict[str, bytes]) -> dict[str, bytes]:
        reply.metadata.__dict__[field] = value
        objects[reply.object_id] = reply.deflate()
        return objects

    return spoil


def body_of(entries: dict[str, Any]) -> bytes:
    """What the bytes of a ConfigRecord hold after their head."""
    return ConfigRecord(entries).deflate().partition(b"\x00")[2]


OF_LARGE = {
    "an array that is no JSON": of_kind(b"Array", lambda body: b"{"),
    "an array that is null": of_kind(b"Array", lambda body: b"null"),
    "an array of chunks that are not there": of_kind(b"Array", lambda b: b.replace(b"[0]", b"[7]")),
    "a shape that is text": of_kind(b"Array", lambda b: b.replace(b'"shape": [', b'"shape": ["x",')),
    "a record that is a list": of_kind(b"ArrayRecord", lambda body: b"[]"),
    "metrics that are noise": of_kind(b"MetricRecord", lambda body: b"\xff" * 9),
}  # fmt: skip
OF_SMALL = {
    "a record that is noise": of_kind(b"ConfigRecord", lambda body: b"\xff" * 9),
    "records without names": of_kind(b"ConfigRecord", lambda body: body_of({"metrics/num-examples": 1})),
    "a record of no name": of_kind(b"ConfigRecord", lambda body: body_of({"records": ["mine"], "mine/x": 1})),
    "arrays that are a number": of_kind(b"ConfigRecord", lambda body: body_of({"records": ["arrays"], "arrays": 1})),
    "metrics that are text": of_kind(
        b"ConfigRecord", lambda body: body_of({"records": ["metrics"], "metrics/num-examples": "1"})
    ),
    "content that is deep": of_kind(b"RecordDict", lambda body: b"[" * 10**5),
    "a message that is noise": of_kind(b"Message", lambda body: b"\xff" * 9),
    "another node": as_another("_src_node_id", 10_007),
    "another message": as_another("_reply_to_message_id", "0" * 64),
}  # fmt: skip


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are taken for real ones; waiting costs nothing."""
    for module in (post, exchange):
        monkeypatch.setattr(module, "is_real", lambda grid: True)
    monkeypatch.setattr(post, "time", FakeTime())


@pytest.mark.slow
@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("case", [*OF_LARGE, *OF_SMALL])
def test_a_message_that_cannot_be_read_is_its_senders_alone(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_record, "LARGEST", 0 if case in OF_LARGE else 10**9)
    grid = type("ThisWire", (Wire,), {"spoil": staticmethod((OF_LARGE | OF_SMALL)[case])})
    folder = run_toy(tmp_path, grid, num_rounds=2, min_reply_fraction=0.5)
    rows = [row for row in read_rows(folder.path / HISTORY) if "status" in row]
    bad = {(row["name"], row["status"]) for row in rows if row["status"] != "ok"}
    assert bad == {("site-0", "rejected")}
    assert all(row["reason"].startswith("unreadable reply: ") for row in rows if row["reason"])
    with pytest.raises(RunFailed, match="site-0: rejected: unreadable reply: "):
        run_toy(tmp_path / "all", grid, num_rounds=2)


@pytest.mark.usefixtures("real")
def test_a_real_node_cannot_say_that_the_machine_is_too_small(tmp_path: Path) -> None:
    """What ends a simulation, whose worker processes die with what they hold, is one lost reply of a real node."""

    class Died(Wire):
        def _inflated(self, reply: Message) -> Message:
            first = reply.metadata.src_node_id == max(self.get_node_ids())
            if first and reply.metadata.message_type == "train":
                reply.__dict__ |= {"_content": None, "_error": Error(0, "ActorDiedError: lies")}
            return reply

    folder = run_toy(tmp_path, Died, num_rounds=2, min_reply_fraction=0.5)
    bad = [r for r in read_rows(folder.path / HISTORY) if r.get("status", "ok") != "ok"]
    assert {(r["name"], r["status"], r["reason"]) for r in bad} == {
        ("site-0", "error", WORKER_DIED)
    }


def test_those_that_wait_longest_are_asked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look is a few requests, however many nodes there are, and all have their turn."""
    monkeypatch.setattr(post, "is_real", lambda grid: True)
    asked: list[str] = []

    class Asked:
        def pull_messages(self, message_ids: list[str]) -> list[Message]:
            asked.extend(message_ids)
            return []

    own = post.Post(Asked(), None)  # type: ignore[arg-type]
    own._waiting = {str(n): (n, n, 0.0) for n in range(25)}
    assert not own.collect(lambda *_: None) and not asked  # nothing can have come so soon
    own._sent -= post.REAL_FIRST_S
    for _ in range(3):
        assert not own.collect(lambda *_: None)
    assert asked == [str(n % 25) for n in range(30)]


@pytest.mark.parametrize(
    ("real", "elapsed_s", "wait_s"),
    [(True, 0, 0.5), (True, 50, 1), (True, 9000, 5), (False, 0, 0.01), (False, 5, 0.1), (False, 99, 0.25)],
)  # fmt: skip
def test_who_computes_long_is_asked_seldom(
    real: bool, elapsed_s: float, wait_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(post, "is_real", lambda grid: real)
    own = post.Post(None, None)  # type: ignore[arg-type]
    monkeypatch.setattr(own, "_since_sent", lambda: elapsed_s)
    monkeypatch.setattr(post.time, "sleep", waited.append)
    own.pause()
    assert waited == [wait_s]
    own._waiting = {str(n): (n, n, 0.0) for n in range(50)}
    own.pause()  # a fifth of them is looked for at a time
    assert waited[1] == (min(wait_s, 1) if real else wait_s)
