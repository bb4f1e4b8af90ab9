"""A small message's records travel as one: three objects of a SuperLink, the same content, and nothing else is taken."""

from collections.abc import Iterator

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from clients.numpy_client_app import numpy_client_app
from strategies.runtime.one_record import LARGEST, ONE, in_one, is_in_one, parted
from strategies.runtime.packing import arrays_of, packed_record, plain_record
from tests.harness import server_identity

ARRAYS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array([2**40, -1])}


@pytest.fixture(autouse=True)
def identity() -> Iterator[None]:
    with server_identity():
        yield


def content(arrays: ArrayRecord) -> RecordDict:
    return RecordDict(
        {
            "arrays": arrays,
            "config": ConfigRecord(
                {"round": 3, "rate": 0.5, "on": True, "a/b": "x\ny", "raw": b"\0"}
            ),
            "metrics": MetricRecord({"num-examples": 5, "loss": [0.1, 0.2]}),
            "timing": ConfigRecord({}),
            "properties": ConfigRecord({"names": ["a", "b"]}),
        }
    )


def over_a_wire(given: RecordDict) -> RecordDict:
    """The content of a message as its objects' bytes have it."""
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

    message = Message(given, 7, "train")
    objects = get_all_nested_objects(message)
    found = inflate_object_from_contents(
        message.object_id, {name: own.deflate() for name, own in objects.items()}
    )
    assert isinstance(found, Message)
    return found.content


def test_all_comes_back_from_one_record() -> None:
    sent = content(packed_record(ARRAYS))
    assert len(get_all_nested_objects(Message(in_one(sent), 7, "train"))) == 3
    assert len(get_all_nested_objects(Message(sent, 7, "train"))) > 8
    came = over_a_wire(in_one(sent))
    assert is_in_one(came)
    found = parted(came)
    assert list(found) == list(sent)
    for name in ("config", "metrics", "timing", "properties"):
        assert found[name] == sent[name] and type(found[name]) is type(sent[name])
        assert [type(v) for v in found[name].values()] == [type(v) for v in sent[name].values()]
    for name, value in arrays_of(found["arrays"]).items():
        assert value.dtype == ARRAYS[name].dtype and np.array_equal(value, ARRAYS[name])


def test_large_plain_and_unknown_records_keep_their_form() -> None:
    large = {"w": np.zeros(LARGEST // 4 + 1, np.float32)}
    for kept in (
        content(packed_record(large)),
        content(plain_record(ARRAYS)),
        {**content(packed_record(ARRAYS)), "mine": ConfigRecord({"x": 1})},
        RecordDict({"metrics": ConfigRecord({"num-examples": 1})}),
    ):
        given = RecordDict(dict(kept))
        assert in_one(given) is given and parted(given) is given


@pytest.mark.parametrize(
    "lie",
    [
        {},
        {"records": 3},
        {"records": ["config", "config"]},
        {"records": ["arrays"]},
        {"records": ["arrays"], "arrays": 3},
        {"records": ["mine"], "mine/x": 1},
        {"records": ["config"], "metrics/x": 1},
        {"records": ["config"], "x": 1},
        {"records": ["arrays"], "arrays": b"", "arrays/x": b""},
        {"records": ["metrics"], "metrics/x": "no number"},
    ],
)
def test_what_nobody_writes_is_refused(lie: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        parted(RecordDict({ONE: ConfigRecord(lie)}))
    with pytest.raises(ValueError):
        parted(RecordDict({ONE: MetricRecord({"x": 1})}))


def test_a_client_answers_as_it_was_asked() -> None:
    class Twice(NumPyClient):
        def fit(self, parameters, config):
            return [2 * p for p in parameters], 5, {"steps": config["round"]}

    app = numpy_client_app(lambda _: Twice())
    asked = RecordDict({"arrays": packed_record(ARRAYS), "config": ConfigRecord({"round": 3})})
    context = Context(1, 77, {}, RecordDict(), {})
    plain = app(Message(RecordDict(dict(asked)), 77, "train"), context).content
    one = app(Message(in_one(asked), 77, "train"), context).content
    assert is_in_one(one) and not is_in_one(plain)
    found = parted(one)
    assert found["metrics"] == plain["metrics"] == MetricRecord({"num-examples": 5, "steps": 3})
    for own in (found, plain):
        for name, value in arrays_of(own["arrays"]).items():
            assert np.array_equal(value, 2 * ARRAYS[name])
