"""Keys that were set although nothing reads them with the other settings: a run goes on, and says so."""

from collections.abc import Callable, Mapping

from fedsuite.config import Value, value_of
from fedsuite.values import shown

Useless = Callable[[Value], bool]
Condition = tuple[
    str, Useless
]  # another key, and whether with this value of it nothing reads the first
Unread = Mapping[
    str, Condition | list[Condition]
]  # key -> what may keep it from being read; of several the first is said


def among(*values: Value) -> Useless:
    """Nothing reads it with these values."""
    return lambda value: value in values


def but(*values: Value) -> Useless:
    """Nothing reads it with any other value."""
    return lambda value: value not in values


def unread_lines(config: object, table: Unread) -> list[str]:
    """One line for each key that has another value than its default and is read by nothing."""
    defaults, lines = type(config)(), []
    for key, rules in table.items():
        value, conditions = value_of(config, key), rules if isinstance(rules, list) else [rules]
        met = [other for other, useless in conditions if useless(value_of(config, other))]
        if met and value != value_of(defaults, key):
            reason = f"{met[0]} = {shown(value_of(config, met[0]))}"
            lines.append(f"{key} = {shown(value)}: nothing reads it with {reason}")
    return lines
