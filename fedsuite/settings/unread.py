"""Keys that were set although nothing reads them with the other settings: a run goes on, and says so.

The same is said of single values that are read, and have nothing to act on.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from fedsuite.settings.config import Value, value_of
from fedsuite.settings.values import shown

Useless = Callable[[Value], bool]
# Another key, and whether with this value of it nothing reads the first.
Condition = tuple[str, Useless]


class Both(NamedTuple):
    """Two conditions that keep a key from being read together; the first is said."""

    first: Condition
    second: Condition


Rules = Condition | Both | list[Condition] | list[Condition | Both]
# Key -> what may keep it from being read; of several the first that holds is said. `key=value`: what may leave this value
# of it nothing to act on.
Unread = Mapping[str, Rules]


def among(*values: Value) -> Useless:
    """Nothing reads it with these values."""
    return lambda value: value in values


def but(*values: Value) -> Useless:
    """Nothing reads it with any other value of the project's; what `module:NAME` reads is not known."""
    return lambda value: value not in values and ":" not in str(value)


EVERYWHERE: Unread = {"precision": ("device", among("cpu"))}  # of settings that all systems have


def unread_lines(
    config: object, table: Unread, elsewhere: Collection[tuple[str, Value]] = ()
) -> list[str]:
    """One line for each key that has another value than its default and is read by nothing, or in vain.

    elsewhere: keys and values that runs beside this one read, so that they were set for those: nothing is said of them.
    """
    defaults, lines = type(config)(), []
    for name, rules in {**EVERYWHERE, **table}.items():
        key, _, only = name.partition("=")
        value, decisive = value_of(config, key), _decisive(config, rules)
        if not decisive or value == value_of(defaults, key) or only not in ("", value):
            continue
        if (name, value) not in elsewhere:
            why = "it has nothing to act on" if only else "nothing reads it"
            because = f"{decisive} = {shown(value_of(config, decisive))}"
            lines.append(f"{key} = {shown(value)}: {why} with {because}")
    return lines


def values_read(config: object, table: Unread) -> set[tuple[str, Value]]:
    """Keys of the table that something reads, with their values."""
    return {
        (key, value_of(config, key))
        for key, rules in table.items()
        if "=" not in key and not _decisive(config, rules)
    }


def _decisive(config: object, rules: Rules) -> str:
    """The other key whose value keeps this one from being read; "" if it is read."""
    for rule in rules if isinstance(rules, list) else [rules]:
        if all(useless(value_of(config, other)) for other, useless in _parts(rule)):
            return _parts(rule)[0][0]
    return ""


def conditions_of(rules: Rules) -> list[Condition]:
    """All of a key, in the order in which they are said."""
    return [
        part for rule in (rules if isinstance(rules, list) else [rules]) for part in _parts(rule)
    ]


def _parts(rule: Condition | Both) -> list[Condition]:
    return [rule.first, rule.second] if isinstance(rule, Both) else [rule]
