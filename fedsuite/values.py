"""Numbers in texts, and values chosen by configuration: a name from a table of the project, or `module:NAME` of anybody."""

import importlib
from collections.abc import Mapping
from typing import Any

from fedsuite.errors import InputError, suggestion


def chosen(key: str, name: str, table: Mapping[str, Any]) -> Any:
    """The value that `key = name` stands for; InputError with the key and the cure if there is none."""
    if name in table:
        return table[name]
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        hint = suggestion(name, table)
        raise InputError(f"{key}: unknown {name!r}; {hint} (or module:NAME of your own)")
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
    except (TypeError, ValueError):
        return False
    return True
