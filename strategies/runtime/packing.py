"""A message's arrays as one object: on the wire an ArrayRecord has one entry, whose bytes hold all arrays.

Flower's other tools (mods, wrappers, a ClientApp of somebody else's) want arrays one by one. So nobody answers packed who
was not asked so, and clients/packing.py has a mod that unpacks.
"""

from collections.abc import Mapping

import numpy as np
from flwr.app import Array, ArrayRecord

from fedsuite.arrays import Arrays, Form
from fedsuite.messages.packing import Misfit, forms_complaint, from_npy, pack, unpack

PACKED, FORMAT = "packed", "safetensors"
_PLAIN = "numpy.ndarray"  # Flower's name for the format of .npy files


def packed_record(arrays: Mapping[str, np.ndarray]) -> ArrayRecord:
    """All arrays as one entry. Array.numpy() refuses it by naming the format."""
    block = pack({name: np.asarray(value) for name, value in arrays.items()})
    return ArrayRecord({PACKED: Array("uint8", (len(block),), FORMAT, block)})


def plain_record(arrays: Mapping[str, np.ndarray]) -> ArrayRecord:
    """An entry for each array, as Flower has them."""
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})


def is_packed(record: ArrayRecord) -> bool:
    return any(array.stype == FORMAT for array in record.values())


def arrays_of(record: ArrayRecord, expected: Mapping[str, Form] | None = None) -> Arrays:
    """The arrays of either form, by name; ValueError with one line for what is neither.

    expected: what must be there, and nothing else is decoded; None: whatever the record says of itself.
    """
    if is_packed(record):
        if list(record) != [PACKED]:
            raise ValueError(f"expected packed arrays alone, got {len(record)} entries")
        return unpack(record[PACKED].data, expected)
    found = {name: (array.shape, array.dtype) for name, array in record.items()}
    if complaint := forms_complaint(found, found if expected is None else expected):
        raise Misfit(complaint)
    return {name: _plain(name, array) for name, array in record.items()}


def _plain(name: str, array: Array) -> np.ndarray:
    if array.stype != _PLAIN:
        raise ValueError(f"array {name} is written as {array.stype!r}, expected {_PLAIN!r}")
    try:
        return from_npy(array.data, (tuple(map(int, array.shape)), array.dtype))
    except ValueError as error:
        raise ValueError(f"array {name}: {error}") from error
