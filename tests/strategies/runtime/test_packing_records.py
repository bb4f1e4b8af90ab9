"""A message's arrays as one entry: what stays in a process is copied, what leaves it is the bytes of `pack`."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from fedsuite.arrays import forms_of
from fedsuite.messages.packing import Misfit, pack
from strategies.runtime.packing import FORMAT, PACKED, Block, arrays_of, packed_record


def given() -> dict[str, np.ndarray]:
    return {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3).T,  # not in C order
        "n": np.array(7),
        "big": np.array([1.5, -2.0], ">f8"),
    }


def in_bytes(record: ArrayRecord) -> ArrayRecord:
    """As it comes from a wire."""
    read: ArrayRecord = pickle.loads(pickle.dumps(record))
    assert type(read[PACKED]) is Array and read[PACKED].stype == FORMAT
    return read


def test_a_wire_gets_the_bytes_and_both_ends_have_the_same_arrays() -> None:
    record, block = packed_record(given()), pack(given())
    here, there = arrays_of(record), arrays_of(in_bytes(record))
    plain = Array("uint8", (len(block),), FORMAT, block)
    found = record[PACKED]
    assert (found.data, found.shape) == (block, (len(block),))
    assert found.deflate() == plain.deflate() and found.object_id == plain.object_id
    for arrays in (here, there, arrays_of(record)):  # the last after its bytes were asked for
        assert list(arrays) == ["w", "n", "big"] and forms_of(arrays) == forms_of(there)
        for name, array in given().items():
            np.testing.assert_array_equal(arrays[name], array)
            assert arrays[name].flags.c_contiguous and arrays[name].flags.writeable


def test_threads_that_write_one_block_at_once_get_its_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those of Flower's simulation do, of which each hands messages to a worker."""
    record, block, many = packed_record(given()), pack(given()), 4
    there = threading.Barrier(many)

    def slow(arrays: dict[str, np.ndarray]) -> bytes:
        there.wait(10)  # until all have found that there are no bytes yet
        return pack(arrays)

    monkeypatch.setattr("strategies.runtime.packing.pack", slow)
    with ThreadPoolExecutor(many) as threads:
        found = [threads.submit(pickle.dumps, record) for _ in range(many)]
    assert {pickle.loads(f.result())[PACKED].data for f in found} == {block}


@pytest.mark.parametrize("wired", [False, True])
def test_no_holder_can_change_what_another_one_holds(wired: bool) -> None:
    own = given()
    record = packed_record(own)
    handed = in_bytes(record) if wired else ArrayRecord({PACKED: copy(record[PACKED])})
    own["w"][:] = 99  # the sender goes on training
    arrays_of(record)["n"][()] = 99  # so does a receiver
    for name, array in given().items():
        np.testing.assert_array_equal(arrays_of(handed)[name], array)
    block: Any = record[PACKED]
    assert isinstance(block, Block)
    for name in ("data", "shape"):
        with pytest.raises(AttributeError):
            setattr(block, name, b"")


@pytest.mark.parametrize("wired", [False, True])
def test_other_arrays_than_expected_are_refused_alike(wired: bool) -> None:
    record = packed_record(given())
    record = in_bytes(record) if wired else record
    forms = forms_of(arrays_of(record))
    assert list(arrays_of(record, forms)) == list(forms)
    with pytest.raises(Misfit, match="array w has shape"):
        arrays_of(record, {**forms, "w": ((6,), "float32")})
    with pytest.raises(Misfit, match="missing x"):
        arrays_of(record, {**forms, "x": ((), "float32")})


def test_what_is_no_number_is_refused_where_it_is_packed() -> None:
    with pytest.raises(ValueError, match="array w has type <U1, expected numbers"):
        packed_record({"w": np.array(["a"])})
