"""A message's arrays as one object: on the wire an ArrayRecord has one entry, whose bytes hold all arrays.

Flower's other tools (mods, wrappers, a ClientApp of somebody else's) want arrays one by one. So nobody answers packed who
was not asked so, and clients/packing.py has a mod that unpacks.
"""

from collections.abc import Mapping

import numpy as np
from flwr.app import Array, ArrayRecord

from fedsuite.arrays import Arrays
from fedsuite.packing import pack, unpack

PACKED, FORMAT = "packed", "safetensors"


def packed_record(arrays: Mapping[str, np.ndarray]) -> ArrayRecord:
    """All arrays as one entry. Array.numpy() refuses it by naming the format."""
    block = pack({name: np.asarray(value) for name, value in arrays.items()})
    return ArrayRecord({PACKED: Array("uint8", (len(block),), FORMAT, block)})


def plain_record(arrays: Mapping[str, np.ndarray]) -> ArrayRecord:
    """An entry for each array, as Flower has them."""
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})


def is_packed(record: ArrayRecord) -> bool:
    return any(array.stype == FORMAT for array in record.values())


def arrays_of(record: ArrayRecord) -> Arrays:
    """The arrays of either form, by name; ValueError or TypeError for what is neither."""
    if not is_packed(record):
        return {str(name): array.numpy() for name, array in record.items()}
    if list(record) != [PACKED]:
        raise ValueError(f"expected packed arrays alone, got {len(record)} entries")
    return unpack(record[PACKED].data)
