"""Keys that were set although nothing reads them with the other settings: a run goes on, and says so."""

from collections.abc import Callable, Mapping

from fedsuite.config import Value, value_of
from fedsuite.values import shown

Useless = Callable[[Value], bool]
# Key -> another key, and whether with this value of it nothing reads the first.
Unread = Mapping[str, tuple[str, Useless]]


def among(*values: Value) -> Useless:
    """Nothing reads it with these values."""
    return lambda value: value in values


def but(*values: Value) -> Useless:
    """Nothing reads it with any other value."""
    return lambda value: value not in values


def unread_lines(config: object, table: Unread) -> list[str]:
    """One line for each key that has another value than its default and is read by nothing."""
    defaults, lines = type(config)(), []
    for key, (other, useless) in table.items():
        value, decisive = value_of(config, key), value_of(config, other)
        if value != value_of(defaults, key) and useless(decisive):
            lines.append(
                f"{key} = {shown(value)}: nothing reads it with {other} = {shown(decisive)}"
            )
    return lines
