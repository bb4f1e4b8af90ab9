"""Keys that were set although nothing reads them with the other settings: a run goes on, and says so.

The same is said of single values that are read, and have nothing to act on.
"""

from collections.abc import Callable, Mapping

from fedsuite.config import Value, value_of
from fedsuite.values import shown

Useless = Callable[[Value], bool]
# Key -> another key, and whether with this value of it nothing reads the first; `key=value`: whether this value of it has
# nothing to act on.
Unread = Mapping[str, tuple[str, Useless]]


def among(*values: Value) -> Useless:
    """Nothing reads it with these values."""
    return lambda value: value in values


def but(*values: Value) -> Useless:
    """Nothing reads it with any other value."""
    return lambda value: value not in values


def unread_lines(config: object, table: Unread) -> list[str]:
    """One line for each key that has another value than its default and is read by nothing, or in vain."""
    defaults, lines = type(config)(), []
    for name, (other, useless) in table.items():
        key, _, only = name.partition("=")
        value, decisive = value_of(config, key), value_of(config, other)
        if value == value_of(defaults, key) or not useless(decisive) or only not in ("", value):
            continue
        why = "it has nothing to act on" if only else "nothing reads it"
        lines.append(f"{key} = {shown(value)}: {why} with {other} = {shown(decisive)}")
    return lines
