"""Who takes part: the right number of nodes, and each the one that the roster has in its place."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedsuite.errors import RunFailed
from fedsuite.federation import ClientInfo
from strategies.runtime import membership
from tests.harness import Recorder, run_toy
from tests.strategies.runtime.loops import FakeTime


class Extra(Recorder):
    """Shows one node too many, or too few."""

    more = 1

    def get_node_ids(self) -> Iterable[int]:
        nodes = list(self.inner.get_node_ids())
        return [*nodes, 5] if self.more > 0 else nodes[1:]


def test_the_number_of_nodes_must_be_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many are refused at once, too few at the deadline."""
    clock = FakeTime()
    monkeypatch.setattr(membership, "time", clock)
    with pytest.raises(RunFailed, match="4 nodes are connected, the configuration needs 3"):
        run_toy(tmp_path / "a", Extra)
    assert clock.slept == []

    class Fewer(Extra):
        more = -1

    with pytest.raises(RunFailed, match=r"2 nodes are connected.*num-supernodes=3"):
        run_toy(tmp_path / "b", Fewer, node_deadline_s=30.0)
    assert 30 <= sum(clock.slept) <= 30.1


def test_a_node_that_comes_late_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeTime()
    monkeypatch.setattr(membership, "time", clock)

    class Late(Recorder):
        def get_node_ids(self) -> Iterable[int]:
            return list(self.inner.get_node_ids())[clock.now < 1020 :]

    run_toy(tmp_path, Late, node_deadline_s=30.0)
    assert 20 <= sum(clock.slept) <= 20.1


class Liar(Recorder):
    """Changes who clients say they are."""

    change: dict

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = list(super().pull_messages(message_ids))
        for reply in replies:
            if reply.metadata.message_type == "query":
                properties = reply.content["properties"]
                if properties["partition"] == 1:
                    properties.update(self.change)
        return replies


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"partition": 0}, "as partition 0 calls itself 'site-1', the roster has 'site-0'"),
        (
            {"partition": 7},
            "as partition 7 calls itself 'site-1', the roster has 'nobody'; give the node",
        ),
        (
            {"name": "site-0"},
            "as partition 1 calls itself 'site-0', the roster has 'site-1'; give the node the roster",
        ),
        ({"name": "site-9"}, "partition 1 calls itself 'site-9', the roster has 'site-1'"),
        ({"name": " "}, "bad name"),
        ({"name": 3}, "get_properties must return partition"),
        ({"num-examples": -1}, "bad name .* or num-examples -1"),
        ({"name": "site-1\x1b[2J"}, r"bad name 'site-1\\x1b\[2J' or num-examples 21$"),
        ({"name": "A" * 2**20}, r"bad name 'A{499} \(cut\) or num-examples 21$"),
        ({"name": 3, "text": "\x1b[2J" + "A" * 2**20}, r"got \{.{200,600} \(cut\)$"),
    ],
)
def test_identities_must_make_sense(tmp_path: Path, change: dict, complaint: str) -> None:
    grid = type("ThisLiar", (Liar,), {"change": change})
    with pytest.raises(RunFailed, match=complaint):
        run_toy(tmp_path, grid)


def foreign(kind: type, values: dict) -> Any:
    """A record of Flower's that holds what Flower would refuse."""
    record = kind()
    record.__dict__["_data"] = values
    return record


@pytest.mark.parametrize(
    "content",
    [
        RecordDict({}),
        RecordDict({"properties": MetricRecord({"partition": 1})}),
        RecordDict({"properties": ArrayRecord({"partition": Array("", (), "", b"")})}),
        RecordDict({"properties": foreign(ConfigRecord, {"partition": 10**5000})}),
        RecordDict({"properties": foreign(ConfigRecord, {"partition": 1, "num-examples": 10**400})}),
        RecordDict({"properties": foreign(ConfigRecord, {f"k{i}": i for i in range(10**5)})}),
        RecordDict({"properties": foreign(ConfigRecord, {"name": [[]], "partition": None})}),
        RecordDict({"arrays": ArrayRecord({"w": Array("float32", (10**30,), "numpy.ndarray", b"")})}),
    ],
)  # fmt: skip
def test_an_answer_that_is_no_identity_names_the_node(tmp_path: Path, content: RecordDict) -> None:
    class Strange(Recorder):
        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            replies = list(super().pull_messages(message_ids))
            for reply in replies:
                if reply.metadata.src_node_id == min(self.get_node_ids()):
                    reply.content = content
            return replies

    with pytest.raises(RunFailed, match=r"^node 10007(:| could not say who it is:)") as failed:
        run_toy(tmp_path, Strange)
    assert str(failed.value).isprintable() and len(str(failed.value)) < 700


@pytest.mark.parametrize("value", [None, "many", -1, 0.5, float("nan"), 10**15])
def test_a_count_that_a_client_does_not_say_is_missed_by_name(value: Any) -> None:
    said = {"houses": 3, "unseen": True} | ({} if value is None else {"steps": value})
    client = ClientInfo(0, "oak", 5, said)
    assert (client.count("houses"), client.count("unseen")) == (3, 1)
    with pytest.raises(RunFailed, match="oak: must say steps, a whole number >= 0, got"):
        client.count("steps")


def test_clients_that_have_changed_places_are_found_out(tmp_path: Path) -> None:
    """Everybody is there once, under a name of the roster, but two of them in the other's place."""

    class Swapped(Liar):
        change: ClassVar[dict] = {}

        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            replies = list(super().pull_messages(message_ids))
            for reply in replies:
                own = reply.content["properties"]
                own["partition"] = {0: 1, 1: 0}.get(own["partition"], own["partition"])
            return replies

    with pytest.raises(
        RunFailed, match="partition 0 calls itself 'site-1', the roster has 'site-0'"
    ):
        run_toy(tmp_path, Swapped)
