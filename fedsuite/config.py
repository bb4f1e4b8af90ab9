"""Settings of a run: one frozen dataclass per system, read from one flat table of kebab-case keys.

A field is declared with `setting(default, help, ...)`; its key is its name with "-" for "_". The
table may come from a TOML file, the command line or Flower's run-config: scalars only (bool, int,
float, str). Every complaint is an InputError that names the key, what was expected, what came, and
the nearest valid key.
"""

import dataclasses
import difflib
import hashlib
import json
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

from fedsuite.errors import InputError

Value = bool | int | float | str
Settings = TypeVar("Settings")
_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True)
class Limits:
    """What a field's value must satisfy, and what to tell people about it.

    may_change: the value may differ when a run is resumed, because no result depends on it.
    path: a file or folder; the command line makes it absolute before anything is launched.
    """

    help: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    choices: tuple[Value, ...] | None = None
    may_change: bool = False
    path: bool = False

    def complaint(self, value: Value) -> str | None:
        """What was expected, if `value` is outside; None if it is inside."""
        if self.choices is not None and value not in self.choices:
            return "one of " + ", ".join(_shown(c) for c in self.choices)
        if isinstance(value, bool | str):
            return None
        for bound, sign, holds in (
            (self.ge, ">=", operator.ge),
            (self.gt, ">", operator.gt),
            (self.le, "<=", operator.le),
            (self.lt, "<", operator.lt),
        ):
            if bound is not None and not holds(value, bound):
                return f"a value {sign} {bound:g}"
        return None


def setting(
    default: Value,
    help: str,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    choices: tuple[Value, ...] | None = None,
    may_change: bool = False,
    path: bool = False,
) -> Any:
    """A dataclass field with a default, a help text and limits."""
    limits = Limits(help, ge, gt, le, lt, choices, may_change, path)
    return field(default=default, metadata={"limits": limits})


@dataclass(frozen=True)
class RunSettings:
    """What every system's run has, whatever it learns."""

    system: str = setting(
        "fedvln", "system to run: fedvln, cdl, fedrl, or module:attribute of your own System"
    )
    name: str = setting(
        "", "run folder inside results-dir; empty = after the TOML", may_change=True
    )
    seed: int = setting(0, "the one seed of all randomness", ge=0)
    num_rounds: int = setting(10, "federated rounds", ge=0, may_change=True)
    results_dir: str = setting("runs", "folder of run folders", may_change=True, path=True)
    resume: str = setting(
        "", "run folder to continue; empty = a new run", may_change=True, path=True
    )
    evaluate_every: int = setting(1, "rounds between evaluations; 0 = only after the last", ge=0)
    checkpoint_every: int = setting(1, "rounds between checkpoints", ge=1, may_change=True)
    min_reply_fraction: float = setting(
        1.0, "share of usable replies below which an exchange fails the run", gt=0, le=1
    )
    node_deadline_s: float = setting(
        120.0, "seconds to wait for all clients to connect", gt=0, may_change=True
    )
    reply_deadline_s: float = setting(
        3600.0, "seconds to wait for the replies of one exchange", gt=0, may_change=True
    )
    client_threads: int = setting(
        1, "torch threads of a client; results may differ in the last bits between counts", ge=1
    )


def key_of(field_name: str) -> str:
    """The kebab-case key of a field."""
    return field_name.replace("_", "-")


def limits_of(cls: type) -> dict[str, Limits]:
    """Key -> limits of every field of a settings class, in declaration order."""
    found = {}
    for f in dataclasses.fields(cls):
        if "limits" not in f.metadata:
            raise TypeError(f"{cls.__name__}.{f.name}: declare the field with setting(...)")
        found[key_of(f.name)] = f.metadata["limits"]
    return found


def types_of(cls: type) -> dict[str, type]:
    """Key -> bool, int, float or str of every field of a settings class."""
    hints = get_type_hints(cls)
    return {key_of(f.name): hints[f.name] for f in dataclasses.fields(cls)}


def read_config(
    cls: type[Settings], mapping: Mapping[str, object], source: str = "configuration"
) -> Settings:
    """Build a settings object from flat kebab-case keys; missing keys take their defaults.

    `source` (a file name, say) opens every complaint.
    """
    limits, types = limits_of(cls), types_of(cls)
    values = {}
    for key, raw in mapping.items():
        if key not in limits:
            raise InputError(f"{source}: unknown key {key!r}{_suggestion(key, limits)}")
        value = _checked_type(key, raw, types[key], source)
        expected = limits[key].complaint(value)
        if expected is not None:
            raise InputError(f"{source}: {key} must be {expected}, got {_shown(value)}")
        values[key.replace("-", "_")] = value
    return cls(**values)


def parse_text(cls: type, key: str, text: str, source: str = "--set") -> Value:
    """The value of `key` written as text on a command line; strings need no quotes."""
    types = types_of(cls)
    if key not in types:
        raise InputError(f"{source}: unknown key {key!r}{_suggestion(key, types)}")
    kind = types[key]
    if kind is str:
        return text
    if kind is bool and text in ("true", "false"):
        return text == "true"
    try:
        if kind is int:
            return int(text)
        if kind is float:
            return float(text)
    except ValueError:
        pass
    raise InputError(f"{source}: {key} must be {_TYPE_NAMES[kind]}, got {text!r}")


def to_flat(config: object) -> dict[str, Value]:
    """Sorted kebab-case keys and values of a settings object."""
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        raise TypeError(f"expected a settings object, got {config!r}")
    return {
        key_of(f.name): getattr(config, f.name)
        for f in sorted(dataclasses.fields(config), key=lambda f: f.name)
    }


def config_digest(config: object) -> str:
    """SHA-256 of all that results depend on, that is every key but those that may change on resuming."""
    limits = limits_of(type(config))
    kept = {k: v for k, v in to_flat(config).items() if not limits[k].may_change}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def check_resumable(stored: object, wanted: object, source: str) -> None:
    """Refuse to resume a run (`stored`, named by `source`) with settings that would change its results."""
    limits = limits_of(type(wanted))
    before, now = to_flat(stored), to_flat(wanted)
    for key, value in now.items():
        if not limits[key].may_change and before[key] != value:
            raise InputError(
                f"{source}: cannot resume with {key} = {_shown(value)}, the run was made with "
                f"{_shown(before[key])}; put the old value back or start a new run"
            )


def _checked_type(key: str, raw: object, kind: type, source: str) -> Value:
    right = type(raw) is kind or (kind is float and type(raw) is int)
    if not right:
        hint = "; keys are flat, without tables" if isinstance(raw, Mapping) else ""
        raise InputError(f"{source}: {key} must be {_TYPE_NAMES[kind]}, got {_shown(raw)}{hint}")
    value: Value = float(raw) if kind is float else raw  # type: ignore[arg-type,assignment]
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{source}: {key} must be a finite number, got {value}")
    if isinstance(value, str) and ("\n" in value or "\0" in value):
        raise InputError(f"{source}: {key} must be text on one line, got {value!r}")
    return value


def _suggestion(key: str, known: Mapping[str, object]) -> str:
    kebab = key.replace("_", "-")
    near = difflib.get_close_matches(kebab, known, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    return "; valid keys: " + ", ".join(sorted(known))


def _shown(value: object) -> str:
    """A value as a TOML file would write it."""
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
