"""Named arrays as one block of bytes, in their order: safetensors, whose header names, types, shapes and places every one.

Flower moves each array of a message as an object of its own, with several queries of a database; a network has dozens.
"""

import json
from collections.abc import Mapping

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from fedsuite.arrays import Arrays, arrays_to_bytes

ORDER = "order"  # safetensors sorts; this entry of its metadata holds the names as they stood
_LENGTH = 8  # bytes that say how long the header is


def pack(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The arrays in one block; ValueError for what are no numbers."""
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise ValueError(f"array {name} has type {array.dtype}, expected numbers")
    return arrays_to_bytes(arrays, {ORDER: json.dumps(list(arrays))})


def unpack(block: bytes) -> Arrays:
    """The arrays of a block, copied out of it; ValueError with one line if it is not one that `pack` makes.

    Every byte behind the header must belong to exactly one array.
    """
    try:
        arrays = safetensors.numpy.load(block)
        length = int.from_bytes(block[:_LENGTH], "little")
        header = json.loads(block[_LENGTH : _LENGTH + length])
        order = json.loads(header["__metadata__"][ORDER])
        if sorted(order) != sorted(arrays):
            raise ValueError(
                f"an order of {len(order)} names for {len(arrays)} arrays, or other names"
            )
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"expected arrays packed as safetensors with their order: {why}"
        ) from error
    return {name: arrays[name] for name in order}
