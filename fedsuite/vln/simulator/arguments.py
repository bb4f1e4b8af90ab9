"""Argument checks of the Matterport3D Simulator's Python binding: what it takes, and the TypeErrors
for all else.

Lists may be any sequence but text; indices any non-negative integer (bool and NumPy integers too,
floats not); angles any real number (text not); names text.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

_LARGEST_INDEX = 2**32 - 1


def _refused(method: str, expected: str, got: Any) -> TypeError:
    return TypeError(
        f"{method}(): incompatible function arguments, expected {expected}, got {got!r}"
    )


def _integer(value: Any) -> int:
    return value if type(value) is int else operator.index(value)


def _count(value: Any) -> int:
    number = _integer(value)
    if not 0 <= number <= _LARGEST_INDEX:
        raise TypeError("out of range")
    return number


def _real(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError("text")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return str(value)


def _list(value: Any, convert: Callable[[Any], T]) -> list[T]:
    sequence = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    if not sequence or isinstance(value, (str, bytes, bytearray, Mapping)):
        raise TypeError("not a sequence")
    return [convert(item) for item in value]


def _converted(method: str, expected: str, value: Any, convert: Callable[[Any], T]) -> T:
    try:
        return convert(value)
    except (TypeError, ValueError, OverflowError):
        raise _refused(method, expected, value) from None


def integer(method: str, value: Any) -> int:
    """Any integer."""
    return _converted(method, "int", value, _integer)


def count(method: str, value: Any) -> int:
    """An integer >= 0."""
    return _converted(method, "int >= 0", value, _count)


def real(method: str, value: Any) -> float:
    """Any real number."""
    return _converted(method, "float", value, _real)


def text(method: str, value: Any) -> str:
    """A string."""
    return _converted(method, "str", value, _text)


def flag(method: str, value: Any) -> bool:
    """True or False, or a number that stands for it."""
    if isinstance(value, str) or not hasattr(value, "__bool__"):
        raise _refused(method, "bool", value)
    return bool(value)


def indices(method: str, value: Any) -> list[int]:
    """A list of integers >= 0."""
    return _converted(method, "list[int >= 0]", value, lambda v: _list(v, _count))


def reals(method: str, value: Any) -> list[float]:
    """A list of real numbers."""
    return _converted(method, "list[float]", value, lambda v: _list(v, _real))


def texts(method: str, value: Any) -> list[str]:
    """A list of strings."""
    return _converted(method, "list[str]", value, lambda v: _list(v, _text))


def cover_batch(size: int, **lists: list[Any]) -> None:
    """IndexError if a list has too few entries; extra ones are ignored."""
    for name, values in lists.items():
        n = len(values)
        if n < size:
            raise IndexError(
                f"vector::_M_range_check: __n (which is {n}) >= this->size() (which is {n}): "
                f"{name} needs one entry for each of the {size} environments"
            )
