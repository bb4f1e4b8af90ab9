"""What a reply's fields may hold, byte for byte: reading and checking never raise, and only equal arrays are ok."""

import io
import json
import pickle
import time
import tracemalloc
import zipfile
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.app.error import Error
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedsuite.federation import Task
from fedsuite.messages.packing import pack
from simulations.engines.inprocess import server_identity
from strategies.runtime.messages import TaskMessages, read_reply
from strategies.runtime.packing import FORMAT, PACKED, arrays_of, packed_record, plain_record
from strategies.runtime.reply_checks import CheckedReply, check_reply

ARRAYS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "n": np.array(3),
    "bits": np.array([True, False]),
    "none": np.zeros((0, 2), np.float64),
}
TASK = Task(0, "train", ARRAYS)
GOOD = MetricRecord({"num-examples": 3, "loss": 0.5})
PLAIN = "numpy.ndarray"


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def header(text: str, version: bytes = b"\x01\x00", places: int = 2) -> bytes:
    """A .npy file's beginning."""
    return b"\x93NUMPY" + version + len(text).to_bytes(places, "little") + text.encode()


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("w.npy", npy(ARRAYS["w"]))
    return file.getvalue()


def archived() -> bytes:
    file = io.BytesIO()
    np.savez(file, w=ARRAYS["w"])
    return file.getvalue()


SAYS = "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}"
NOT_NUMBERS = {
    "nothing": b"",
    "10^13 numbers": header(SAYS.format("10000000000000,")),
    "10^30 numbers": header(SAYS.format(f"1{'0' * 30},")),
    "fewer than none": header(SAYS.format("-2, -3")) + bytes(24),
    "no end": header(SAYS.format("2, 3")[:-9]),
    "a header of 4 GB": header("", b"\x02\x00", 4)[:8] + b"\xff" * 4,
    "deep brackets": header("[" * 9000),
    "deep minus signs": header("-" * 9000 + "1"),
    "another version": npy(ARRAYS["w"]).replace(b"\x01\x00", b"\x03\x00", 1),
    "a zip": zipped(),
    "an npz": archived(),
    "a pickle": pickle.dumps(ARRAYS["w"]),
    "objects": npy(np.array([None, "text"])),
    "texts": npy(np.array([["a"] * 3] * 2)),
    "the other end first": npy(ARRAYS["w"].astype(">f4")),
    "doubles": npy(ARRAYS["w"].astype(float)),
    "another shape": npy(ARRAYS["w"].T),
    "one byte less": npy(ARRAYS["w"])[:-1],
    "one byte more": npy(ARRAYS["w"]) + b"\0",
}


def answered(content: RecordDict | Error, task: Task = TASK) -> CheckedReply:
    """What a reply is worth, read and checked as the loop does."""
    with server_identity():
        asked = TaskMessages(10.0).message(task, 7, {"round": 1})
        checked = check_reply(task, read_reply(Message(content, reply_to=asked), task), 10.0)
    assert (checked.status == "ok") == (checked.reason == "") == (checked.reply is not None)
    assert checked.reason.isprintable() and len(checked.reason) < 600
    return checked


def holding(record: Any, metrics: Any = GOOD, **others: Any) -> RecordDict:
    return RecordDict({"arrays": record, "metrics": metrics, **others})


def with_array(**fields: Any) -> ArrayRecord:
    """The plain record, its first array with other fields, whatever Flower would say to them."""
    record = plain_record(ARRAYS)
    for name, value in fields.items():
        setattr(record["w"], name, value)
    return record


def check_equal(checked: CheckedReply) -> None:
    """A reply that is ok has the very arrays that were sent."""
    if checked.reply is None:
        assert checked.status == "rejected"
        return
    for name, array in ARRAYS.items():
        found = checked.reply.arrays[name]
        assert (found.shape, found.dtype) == (array.shape, array.dtype)


@pytest.mark.parametrize("make", [plain_record, packed_record])
def test_honest_bytes_come_back_in_any_order_of_memory(make: Any) -> None:
    for arrays in (ARRAYS, {k: np.asarray(v, order="F") for k, v in ARRAYS.items()}):
        checked = answered(holding(make(arrays)))
        assert checked.reply is not None, checked.reason
        for name, array in ARRAYS.items():
            found = checked.reply.arrays[name]
            np.testing.assert_array_equal(found, array)
            assert found.dtype == array.dtype and found.flags.writeable


@pytest.mark.parametrize("case", NOT_NUMBERS)
def test_bytes_that_are_not_the_array_are_rejected_and_cost_nothing(case: str) -> None:
    record = with_array(data=NOT_NUMBERS[case])
    tracemalloc.start()
    checked = answered(holding(record))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert checked.status == "rejected" and "array w" in checked.reason
    assert peak < 2_000_000


@pytest.mark.parametrize(
    "fields",
    [
        {"dtype": "float64"}, {"dtype": "object"}, {"dtype": ""}, {"dtype": None}, {"dtype": ["f4"]},
        {"shape": (6,)}, {"shape": (10**30, 3)}, {"shape": (-2, -3)}, {"shape": ()}, {"shape": None}, {"shape": ("2", "3")},
        {"stype": ""}, {"stype": "pickle"}, {"stype": FORMAT}, {"stype": None}, {"data": None}, {"data": "text"},
        {"shape": (3, 2), "data": npy(ARRAYS["w"].T)}, {"dtype": "float64", "data": npy(ARRAYS["w"].astype(float))},
    ],
)  # fmt: skip
def test_what_an_array_says_of_itself_is_compared_with_the_task(fields: dict[str, Any]) -> None:
    assert answered(holding(with_array(**fields))).status == "rejected"


WHOLE = [npy(ARRAYS["w"]), pack(ARRAYS)]
CHANGES = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=4)
QUICK = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@QUICK
@given(st.integers(0, 1), CHANGES, st.integers(0, 2**16), st.binary(max_size=12))
def test_changed_bytes_never_raise(which: int, flips: Any, cut: int, tail: bytes) -> None:
    """Truncated, flipped, lengthened: the numbers may be others, names, shapes and types are those of the task."""
    data = bytearray(WHOLE[which])
    for place, bits in flips:
        data[place % len(data)] ^= bits
    kept = len(data) if cut % 3 else cut % len(data)
    block = bytes(data[:kept]) + (tail if cut % 2 else b"")
    packed = ArrayRecord({PACKED: Array("uint8", (len(block),), FORMAT, block)})
    checked = answered(holding(with_array(data=block) if which == 0 else packed))
    check_equal(checked)
    if block == WHOLE[which]:
        assert checked.status == "ok"
    if len(block) != len(WHOLE[which]):
        assert checked.status == "rejected"


ANY_TEXT = st.text(max_size=8) | st.sampled_from(["", "w", "\ud800", "a\nb", "x" * 10**4])
ANY_NUMBER = (
    st.integers(-(2**63), 2**64) | st.floats() | st.sampled_from([10**400, -(10**5000), 2**64])
)
ANY_VALUE = ANY_NUMBER | st.booleans() | ANY_TEXT | st.binary(max_size=9) | st.none()
ANY_VALUES = st.dictionaries(
    ANY_TEXT | st.sampled_from(["num-examples", "loss", "seconds", "partition", "name"]),
    ANY_VALUE | st.lists(ANY_NUMBER, max_size=3),
    max_size=5,
)


def unchecked(kind: type, values: dict[str, Any]) -> Any:
    """A record of Flower's that holds what Flower would refuse."""
    record = kind()
    record.__dict__["_data"] = values
    return record


@pytest.mark.slow
@QUICK
@given(ANY_VALUES, ANY_VALUES, ANY_VALUES, st.sampled_from([MetricRecord, ConfigRecord]))
def test_any_metrics_properties_and_timing(
    metrics: Any, properties: Any, timing: Any, kind: type
) -> None:
    content = holding(
        packed_record(ARRAYS),
        unchecked(kind, metrics),
        properties=unchecked(ConfigRecord, properties),
        timing=unchecked(ConfigRecord, timing),
    )
    check_equal(answered(content))
    good = unchecked(
        MetricRecord, {"num-examples": 1, **{k: 1.0 for k in metrics if k != "num-examples"}}
    )
    check_equal(
        answered(holding(packed_record(ARRAYS), good, timing=unchecked(ConfigRecord, timing)))
    )


@QUICK
@given(st.integers(-(2**31), 2**31), st.text(max_size=30) | ANY_TEXT)
def test_any_error_has_one_line(code: int, text: str) -> None:
    assert answered(Error(code, text)).status in ("error", "missing")


@QUICK
@given(
    st.dictionaries(ANY_TEXT, st.sampled_from([npy(ARRAYS["w"]), b"", b"\x93NUMPY"]), max_size=4)
)
def test_names_that_were_not_asked_for(named: dict[str, bytes]) -> None:
    entries = {name: Array("float32", (2, 3), PLAIN, data) for name, data in named.items()}
    assert answered(holding(ArrayRecord(entries))).status == "rejected"
    ok = answered(
        RecordDict({"arrays": ArrayRecord(entries), "metrics": GOOD}), Task(0, "evaluate", ARRAYS)
    )
    assert (ok.status == "ok") == (not named)


def test_nothing_is_decoded_of_what_nobody_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("fedsuite.messages.packing.safetensors.numpy.load", refuse)
    monkeypatch.setattr("strategies.runtime.packing.from_npy", refuse)
    more = {**ARRAYS, "extra": np.zeros(3)}
    for make in (plain_record, packed_record):
        reason = answered(holding(make(more))).reason
        assert reason.endswith("array names differ: missing none, unknown extra")


@pytest.mark.slow
def test_a_great_many_names_take_no_time() -> None:
    """In a block that the server gets, in one that a client gets, as metrics, and as lines of an error."""
    many = {
        f"{'x' * 30}{i}": {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
        for i in range(200_000)
    }
    header = json.dumps({"__metadata__": {"order": json.dumps(list(many))}, **many}).encode()
    data = len(header).to_bytes(8, "little") + header + bytes(4 * len(many))
    block = ArrayRecord({PACKED: Array("uint8", (len(data),), FORMAT, data)})
    content = holding(block)
    begin = time.process_time()
    assert answered(content).status == "rejected"
    with pytest.raises(ValueError, match="a header of"):
        arrays_of(block)
    assert answered(Error(2, " \n" * 10**6)).reason == "no reason given"
    metrics = unchecked(MetricRecord, {f"m{i}": 1.0 for i in range(200_000)})
    assert "200000 values" in answered(holding(packed_record(ARRAYS), metrics)).reason
    assert time.process_time() - begin < 2


def test_records_of_another_kind() -> None:
    for record in (MetricRecord({"w": 1.0}), ConfigRecord({"w": b""})):
        assert answered(holding(record)).reason == (
            f"unreadable reply: expected an ArrayRecord, got a {type(record).__name__}"
        )
