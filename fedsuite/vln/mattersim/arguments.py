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


def _checked(expected: str, convert: Callable[[Any], T]) -> Callable[[str, Any], T]:
    """A check (name of the method, value) -> value as the type that is expected."""

    def check(method: str, value: Any) -> T:
        try:
            return convert(value)
        except (TypeError, ValueError, OverflowError):
            raise _refused(method, expected, value) from None

    return check


integer = _checked("int", _integer)
count = _checked("int >= 0", _count)
real = _checked("float", _real)
text = _checked("str", _text)
indices = _checked("list[int >= 0]", lambda value: _list(value, _count))
reals = _checked("list[float]", lambda value: _list(value, _real))
texts = _checked("list[str]", lambda value: _list(value, _text))


def flag(method: str, value: Any) -> bool:
    """True or False, or a number that stands for it."""
    if isinstance(value, str) or not hasattr(value, "__bool__"):
        raise _refused(method, "bool", value)
    return bool(value)


def cover_batch(size: int, **lists: list[Any]) -> None:
    """IndexError if a list has too few entries; extra ones are ignored."""
    for name, values in lists.items():
        n = len(values)
        if n < size:
            raise IndexError(
                f"vector::_M_range_check: __n (which is {n}) >= this->size() (which is {n}): "
                f"{name} needs one entry for each of the {size} environments"
            )
