from collections.abc import Iterator

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from simulations.engines.inprocess import InProcessGrid, server_identity


@pytest.fixture(autouse=True)
def identity() -> Iterator[None]:
    with server_identity():
        yield


def counting(message: Message, context: Context) -> Message:
    """Adds one to what it got, in place, and counts in its own state."""
    state = context.state.setdefault("state", ConfigRecord({"count": 0}))
    state["count"] += 1
    if message.content["config"]["fail"]:
        raise ValueError("boom")
    array = message.content["arrays"]["w"].numpy()
    array += 1
    content = RecordDict({"arrays": ArrayRecord({"w": Array(array)}), "state": state})
    return Message(content, reply_to=message)


def message_to(node: int, array: np.ndarray, fail: bool = False) -> Message:
    record = ArrayRecord({"w": Array(array)})
    return Message(
        RecordDict({"arrays": record, "config": ConfigRecord({"fail": fail})}), node, "train"
    )


def test_nodes_know_their_partition_and_configuration() -> None:
    grid = InProcessGrid(counting, 3, {"a": 1})
    contexts = [grid.contexts[node] for node in grid.get_node_ids()]
    assert [c.node_config["partition-id"] for c in contexts] == [0, 1, 2]
    assert {c.node_config["num-partitions"] for c in contexts} == {3}
    assert all(c.run_config == {"a": 1} for c in contexts)
    assert sorted(grid.get_node_ids()) != list(grid.get_node_ids())  # order says nothing


def test_messages_are_copied_and_state_is_kept() -> None:
    grid = InProcessGrid(counting, 2, {})
    first, second = grid.get_node_ids()
    mine = np.zeros(2, np.float32)
    for count in (1, 2):
        (reply,) = grid.send_and_receive([message_to(first, mine)])
        assert reply.content["state"]["count"] == count
        np.testing.assert_array_equal(reply.content["arrays"]["w"].numpy(), [1, 1])
    np.testing.assert_array_equal(mine, [0, 0])
    (other,) = grid.send_and_receive([message_to(second, mine)])
    assert other.content["state"]["count"] == 1


def test_replies_belong_to_their_messages_and_come_one_by_one() -> None:
    grid = InProcessGrid(counting, 2, {})
    nodes = list(grid.get_node_ids())
    ids = list(grid.push_messages([message_to(n, np.zeros(1)) for n in nodes]))
    first = list(grid.pull_messages(ids))
    assert [m.metadata.reply_to_message_id for m in first] == ids[:1]
    assert first[0].metadata.src_node_id == nodes[0]
    rest = list(grid.pull_messages(ids))
    assert [m.metadata.reply_to_message_id for m in rest] == ids[1:]
    assert list(grid.pull_messages(ids)) == []


def test_an_exception_becomes_an_error_reply_and_leaves_the_state() -> None:
    grid = InProcessGrid(counting, 1, {})
    (node,) = grid.get_node_ids()
    (reply,) = grid.send_and_receive([message_to(node, np.zeros(1), fail=True)])
    assert reply.has_error() and "ValueError: boom" in str(reply.error.reason)
    (reply,) = grid.send_and_receive([message_to(node, np.zeros(1))])
    assert reply.content["state"]["count"] == 1


def test_the_identity_is_lent() -> None:
    lent = TaskIdentity._run_id
    with server_identity():
        assert TaskIdentity.run_id == lent
    assert TaskIdentity._run_id == lent
