"""A message's arrays as one object: on the wire an ArrayRecord has one entry, whose bytes hold all arrays.

Flower's other tools (mods, wrappers, a ClientApp of somebody else's) want arrays one by one. So nobody answers packed who
was not asked so, and clients/packing.py has a mod that unpacks.
"""

from collections.abc import Mapping

import numpy as np
from flwr.app import Array, ArrayRecord

from fedsuite.arrays import Arrays, Form, forms_of
from fedsuite.messages.packing import Misfit, check_numbers, forms_complaint, from_npy, pack, unpack

PACKED, FORMAT = "packed", "safetensors"
_PLAIN = "numpy.ndarray"  # Flower's name for the format of .npy files


class Block(Array):
    """All arrays of a message: the arrays themselves until somebody asks for `data`, as every wire does, then their bytes.

    Nobody can change it: it takes copies, and gives copies. So what stays in a process is never written as bytes.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        given = {name: np.asarray(value) for name, value in arrays.items()}
        check_numbers(given)
        kinds = {
            k: v.dtype if v.dtype.isnative else v.dtype.newbyteorder() for k, v in given.items()
        }
        held = {k: np.array(v, kinds[k], order="C") for k, v in given.items()}
        self.__dict__.update(dtype="uint8", stype=FORMAT, _held=held)

    @property
    def data(self) -> bytes:  # type: ignore[override]
        own = self.__dict__
        if (held := own.get("_held")) is not None:
            own["_block"] = pack(held)  # threads that ask at once get equal bytes
            own.pop("_held", None)
        block: bytes = own["_block"]
        return block

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return (len(self.data),)

    def arrays(self, expected: Mapping[str, Form] | None) -> Arrays:
        """Copies of all; Misfit where they are not as expected."""
        if (held := self.__dict__.get("_held")) is None:
            return unpack(self.data, expected)
        if expected is not None and (complaint := forms_complaint(forms_of(held), expected)):
            raise Misfit(complaint)
        return {name: value.copy() for name, value in held.items()}

    def deflate(self) -> bytes:
        """What goes to a SuperLink, which knows Flower's own classes."""
        plain = Array("uint8", self.shape, FORMAT, self.data)
        plain.__dict__["_chunks"] = self.slice_array()  # Flower's own cache; they are hashed once
        return plain.deflate()

    def __copy__(self) -> "Block":
        return self

    def __reduce__(self) -> tuple[type[Array], tuple[object, ...]]:
        return Array, ("uint8", self.shape, FORMAT, self.data)


def packed_record(arrays: Mapping[str, np.ndarray]) -> ArrayRecord:
    """All arrays as one entry. Array.numpy() refuses it by naming the format."""
    record = ArrayRecord()  # which is quicker filled than made of a dict
    record[PACKED] = Block(arrays)
    return record


def record_of(block: bytes) -> ArrayRecord:
    """The same of bytes that came from elsewhere, which `arrays_of` reads."""
    record = ArrayRecord()
    record[PACKED] = Array("uint8", (len(block),), FORMAT, block)
    return record


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
        block = record[PACKED]
        return block.arrays(expected) if isinstance(block, Block) else unpack(block.data, expected)
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
