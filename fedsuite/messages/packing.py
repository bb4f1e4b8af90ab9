"""Named arrays as one block of bytes, in their order: safetensors, whose header names, types, shapes and places every one.

Flower moves each array of a message as an object of its own, with several queries of a database; a network has dozens.

Bytes that came from elsewhere are read against what was asked for: names, shapes and types first, and only what has all of
these is decoded, so that what a sender claims costs neither time nor memory.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from fedsuite.arrays import Arrays, Form, arrays_to_bytes

ORDER = "order"  # safetensors sorts; this entry of its metadata holds the names as they stood
METADATA = "__metadata__"
_LENGTH = 8  # bytes that say how long the header is
_LONGEST = 2**21  # bytes of a header of which nothing is known; some ten thousand arrays
# Types of numbers that travel, by their names in safetensors.
_TYPES = {
    "F16": "float16", "F32": "float32", "F64": "float64", "BOOL": "bool",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
}  # fmt: skip
_NUMBERS = frozenset(_TYPES.values())


class Misfit(ValueError):
    """Arrays that can be read, of other names, shapes or types than were asked for."""


def pack(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The arrays in one block; ValueError for what are no numbers."""
    check_numbers(arrays)
    return arrays_to_bytes(arrays, {ORDER: _order(tuple(arrays))})


def check_numbers(arrays: Mapping[str, np.ndarray]) -> None:
    """ValueError, which names the first array that `pack` does not take."""
    for name, array in arrays.items():
        if _name_of(array.dtype) not in _NUMBERS:
            raise ValueError(f"array {name} has type {array.dtype}, expected numbers")


@lru_cache(maxsize=64)
def _name_of(kind: np.dtype) -> str:
    return kind.name


@lru_cache(maxsize=64)
def _order(names: tuple[str, ...]) -> str:
    return json.dumps(names)


def unpack(block: bytes, expected: Mapping[str, Form] | None = None) -> Arrays:
    """The arrays of a block, copied out of it; ValueError with one line if it is not one that `pack` makes.

    expected: what it must hold, nothing else is decoded; None: whatever it holds, with a header of 2 MiB at most. Every
    byte behind the header must belong to exactly one array.
    """
    try:
        header = _header(block, _LONGEST if expected is None else _longest(expected))
        order = json.loads(header.pop(METADATA)[ORDER])
        found = {name: _form(entry) for name, entry in header.items()}
        if sorted(order) != sorted(found):
            raise ValueError(
                f"an order of {len(order)} names for {len(found)} arrays, or other names"
            )
        if not (complaint := forms_complaint(found, found if expected is None else expected)):
            arrays = safetensors.numpy.load(block)
            return {name: arrays[name] for name in order}
    except (
        SafetensorError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"expected arrays packed as safetensors with their order: {why}"
        ) from error
    raise Misfit(complaint)


def from_npy(data: bytes, form: Form) -> np.ndarray:
    """The array of .npy bytes as NumPy writes them for this shape and type, a copy; ValueError for all others."""
    shape, kind = form
    dtype = np.dtype(kind)
    begin = 10 + int.from_bytes(data[8:10], "little")
    header = data[:8] + data[10:begin].rstrip()
    for order in ("C", "F"):
        said = {"descr": dtype.str, "fortran_order": order == "F", "shape": shape}
        if header == b"\x93NUMPY\x01\x00" + str(said).removesuffix("}").encode() + b", }":
            break
    else:
        raise ValueError(f"expected the .npy bytes of {kind} {shape}, got {len(data)} others")
    if len(data) - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{len(data) - begin} bytes of numbers for {kind} {shape}")
    numbers = np.frombuffer(memoryview(data)[begin:], dtype).copy()
    return numbers.reshape(shape, order=order)


def forms_complaint(found: Mapping[str, Form], expected: Mapping[str, Form]) -> str:
    """How the names differ, or else the first shape or type that does; "" if all is as expected."""
    missing = sorted(expected.keys() - found.keys())
    unknown = sorted(found.keys() - expected.keys())
    if missing or unknown:
        return f"array names differ: missing {few(missing)}, unknown {few(unknown)}"
    for name, (shape, kind) in expected.items():
        its_shape, its_kind = found[name]
        if its_shape != shape:
            return f"array {name} has shape {its_shape}, expected {shape}"
        if its_kind not in _NUMBERS:
            return f"array {name} has type {its_kind}, expected numbers"
        if kind and its_kind != kind:
            return f"array {name} has type {its_kind}, expected {kind}"
    return ""


def few(names: Sequence[str], most: int = 3) -> str:
    """The first of these names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more


def _header(block: bytes, longest: int) -> dict[str, Any]:
    length = int.from_bytes(block[:_LENGTH], "little")
    if length > min(longest, len(block) - _LENGTH):
        raise ValueError(f"a header of {length} bytes, more than there can be")
    header = json.loads(block[_LENGTH : _LENGTH + length])
    if not isinstance(header, dict):
        raise TypeError(f"a header that is a {type(header).__name__}")
    return header


def _longest(expected: Mapping[str, Form]) -> int:
    """Bytes of the longest header for these arrays: a name stands there twice, each of its characters as up to 14 bytes."""
    return 1000 + sum(200 + 28 * len(name) + 22 * len(s) for name, (s, _) in expected.items())


def _form(entry: Mapping[str, Any]) -> Form:
    """What a header says of an array."""
    return tuple(entry["shape"]), _TYPES.get(entry["dtype"], str(entry["dtype"]))
