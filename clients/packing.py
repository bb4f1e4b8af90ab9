"""A message's arrays as one object: on the wire an ArrayRecord has one entry, whose bytes hold all arrays.

Flower's other tools (mods, wrappers, a ClientApp of somebody else's) want arrays one by one. So nobody answers packed who
was not asked so, and `plain_arrays` is a mod that unpacks for whatever comes after it.
"""

from collections.abc import Mapping

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message
from flwr.clientapp.typing import ClientAppCallable

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


def plain_arrays(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """A mod: what comes after it gets arrays one by one, and what it answers is packed if the question was."""
    asked = message.content.get("arrays")
    if not isinstance(asked, ArrayRecord) or not is_packed(asked):
        return call_next(message, context)
    message.content["arrays"] = plain_record(arrays_of(asked))
    reply = call_next(message, context)
    answer = None if reply.has_error() else reply.content.get("arrays")
    if isinstance(answer, ArrayRecord):
        reply.content["arrays"] = packed_record(arrays_of(answer))
    return reply
