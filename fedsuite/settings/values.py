"""Numbers in texts, and values chosen by configuration: a name from a table of the project, or `module:NAME` of anybody."""

import importlib
import inspect
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fedsuite.errors import InputError, one_line, suggestion

Value = bool | int | float | str
LONGEST_TEXT = 4096  # characters; no path is longer
_READERS: Mapping[type, Callable[[str], Value]] = {
    str: str, bool: {"true": True, "false": False}.__getitem__, int: int, float: float
}  # fmt: skip
_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_UNFIT = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
)  # control characters, no characters


def from_text(text: str, kind: type) -> Value:
    """The value that a text on a command line stands for; ValueError says what was expected."""
    try:
        return _READERS[kind](text)
    except (KeyError, ValueError):
        raise ValueError(_TYPE_NAMES[kind]) from None


def of_type(raw: object, kind: type) -> Value:
    """A value of a table as bool, int, float or str; ValueError says what was expected."""
    if type(raw) is not kind and (kind is not float or type(raw) is not int):
        raise ValueError(_TYPE_NAMES[kind])
    if isinstance(raw, str) and (_UNFIT.search(raw) or len(raw) > LONGEST_TEXT):
        raise ValueError(f"text on one line, at most {LONGEST_TEXT} characters long")
    try:
        value: Value = float(raw) if kind is float else raw  # type: ignore[arg-type, assignment]
    except OverflowError:  # of whole numbers with hundreds of digits
        value = math.inf
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a finite number")
    return value


def shown(value: object) -> str:
    """A value as a TOML file would write it, cut where it is long."""
    if isinstance(value, bool | str):
        return one_line(json.dumps(value, ensure_ascii=False), 100)
    try:
        return one_line(str(value), 100)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "a number of thousands of digits"


# What configuration may have this process import, as `module:NAME`; None: anything.
_importable: ContextVar[Collection[str] | None] = ContextVar("importable", default=None)


@contextmanager
def importing_only(names: Collection[str]) -> Iterator[None]:
    """Meanwhile `chosen` imports nothing but these."""
    token = _importable.set(names)
    try:
        yield
    finally:
        _importable.reset(token)


def chosen(key: str, name: str, table: Mapping[str, Any], takes: Sequence[str] = ()) -> Any:
    """The value that `key = name` stands for; InputError with the key and the cure if there is none.

    takes: what it will be called with, for functions.
    """
    if name in table:
        return table[name]
    allowed = _importable.get()
    if ":" in name and allowed is not None and name not in allowed:
        raise InputError(
            f"{key}: the run wants {shown(name)}, which is not imported here; allowed: {', '.join(allowed)}"
        )
    found = imported(key, name, table)
    if takes:
        check_callable(key, name, found, takes)
    return found


def check_callable(key: str, name: str, found: object, takes: Sequence[str]) -> None:
    """InputError unless `found`, which `key = name` stands for, can be called with these arguments, by their position."""
    try:
        inspect.signature(found).bind(*takes)  # type: ignore[arg-type]
    except (
        TypeError,
        ValueError,
    ) as error:  # ValueError: code in C that does not say what it takes
        raise InputError(
            f"{key}: {shown(name)} is a {type(found).__name__}, expected a Python function of ({', '.join(takes)}) "
            f"({one_line(str(error), 100)}); name another one"
        ) from None


@contextmanager
def tried(key: str, name: str) -> Iterator[None]:
    """What `key = name` stands for is used once before any training: its exceptions are InputErrors."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        why = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(
            f"{key}: {shown(name)} fails when it is tried on tiny arrays ({why}); correct it"
        ) from error


def imported(key: str, name: str, table: Mapping[str, Any]) -> Any:
    """What stands at `module:NAME`; InputError with the key, and names of the table, if there is none."""
    module_name, colon, attribute = name.partition(":")
    if not (colon and attribute and all(part.isidentifier() for part in module_name.split("."))):
        hint = suggestion(name, table)
        raise InputError(
            f"{key}: unknown {one_line(repr(name), 100)}; {hint} (or module:NAME of your own)"
        )
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ModuleNotFoundError, AttributeError) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else module_name
        if not f"{module_name}.".startswith(f"{missing}."):
            raise  # a module that the value's own needs
        raise InputError(
            f"{key}: {name!r} cannot be imported ({error}); install its package or set PYTHONPATH"
        ) from None


def is_number(value: object) -> bool:
    """Whether a text or value reads as a number (NaN and infinity included)."""
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True
