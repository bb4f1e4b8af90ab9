"""Argument checks of the Matterport3D Simulator's Python binding: what it takes, and the TypeErrors for all else.

Lists may be any sequence but text; indices any non-negative integer (bool and NumPy integers too, floats not); angles any
real number (text not); names text.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

_LARGEST_INDEX = 2**32 - 1


def _count(value: Any) -> int:
    number = operator.index(value)
    if not 0 <= number <= _LARGEST_INDEX:
        raise TypeError("out of range")
    return number


def _real(value: Any) -> float:
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError("text")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return str(value)


def _flag(value: Any) -> bool:
    if isinstance(value, str) or not hasattr(value, "__bool__"):
        raise TypeError("not a truth value")
    return bool(value)


def _list(value: Any, convert: Callable[[Any], T]) -> list[T]:
    sequence = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    if not sequence or isinstance(value, (str, bytes, bytearray, Mapping)):
        raise TypeError("not a sequence")
    return [convert(item) for item in value]


def _checked(expected: str, convert: Callable[[Any], T]) -> Callable[[str, Any], T]:
    """A check (name of the method, value) -> value as the type that is expected."""

    def check(method: str, value: Any) -> T:
        try:
            return convert(value)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(
                f"{method}(): incompatible function arguments, expected {expected}, got {value!r}"
            ) from None

    return check


integer = _checked("int", operator.index)
count = _checked("int >= 0", _count)
real = _checked("float", _real)
text = _checked("str", _text)
flag = _checked("bool", _flag)
indices = _checked("list[int >= 0]", lambda value: _list(value, _count))
reals = _checked("list[float]", lambda value: _list(value, _real))
texts = _checked("list[str]", lambda value: _list(value, _text))


def cover_batch(size: int, **lists: list[Any]) -> None:
    """IndexError if a list has too few entries; extra ones are ignored."""
    for name, values in lists.items():
        n = len(values)
        if n < size:
            raise IndexError(
                f"vector::_M_range_check: __n (which is {n}) >= this->size() (which is {n}): "
                f"{name} needs one entry for each of the {size} environments"
            )
