"""Keys that were set although nothing reads them with the other settings: a run goes on, and says so.

The same is said of single values that are read, and have nothing to act on.
"""

from collections.abc import Callable, Mapping

from fedsuite.settings.config import Value, value_of
from fedsuite.settings.values import shown

Useless = Callable[[Value], bool]
# Another key, and whether with this value of it nothing reads the first.
Condition = tuple[str, Useless]
# Key -> what may keep it from being read; of several conditions the first that holds is said. `key=value`: what may leave
# this value of it nothing to act on.
Unread = Mapping[str, Condition | list[Condition]]


def among(*values: Value) -> Useless:
    """Nothing reads it with these values."""
    return lambda value: value in values


def but(*values: Value) -> Useless:
    """Nothing reads it with any other value of the project's; what `module:NAME` reads is not known."""
    return lambda value: value not in values and ":" not in str(value)


EVERYWHERE: Unread = {"precision": ("device", among("cpu"))}  # of settings that all systems have


def unread_lines(config: object, table: Unread) -> list[str]:
    """One line for each key that has another value than its default and is read by nothing, or in vain."""
    defaults, lines = type(config)(), []
    for name, rules in {**EVERYWHERE, **table}.items():
        key, _, only = name.partition("=")
        value, conditions = value_of(config, key), rules if isinstance(rules, list) else [rules]
        met = [other for other, useless in conditions if useless(value_of(config, other))]
        if not met or value == value_of(defaults, key) or only not in ("", value):
            continue
        why = "it has nothing to act on" if only else "nothing reads it"
        decisive = shown(value_of(config, met[0]))
        lines.append(f"{key} = {shown(value)}: {why} with {met[0]} = {decisive}")
    return lines
