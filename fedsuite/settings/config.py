"""Settings of a run: one frozen dataclass per system, with a frozen dataclass for each of its sections.

A field is declared with `setting(default, help, ...)`, a section with `section(ItsClass)`. The key of a field is its name
with "-" for "_" after its section's: `seed`, `federation.participation-rate`. Tables (TOML, command line, Flower's
run-config) may nest or have dotted keys; values are bool, int, float or str. Every complaint is an InputError that names the
key, what was expected, what came, and the nearest valid key.
"""

import dataclasses
import hashlib
import json
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar, get_type_hints

from fedsuite.errors import InputError, one_line, unknown_key
from fedsuite.settings.values import Value as Value  # noqa: PLC0414
from fedsuite.settings.values import from_text, of_type, shown

Settings = TypeVar("Settings")
Section = TypeVar("Section")
_HOLDS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
_LARGEST = 10**9  # of numbers whose field says nothing else


@dataclass(frozen=True)
class Limits:
    """What a field's value must satisfy, and what to tell people about it.

    may_change: the value may differ when a run is resumed, because no result depends on it.
    path: a file or folder, made absolute before anything is launched; filled: never "", which would be the working folder.
    added: after there were runs, which its default leaves as they are and which can go on.
    """

    help: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    choices: tuple[Value, ...] | None = None
    may_change: bool = False
    path: bool = False
    filled: bool = False
    added: bool = False

    def complaint(self, value: Value) -> str | None:
        """What was expected, if `value` is outside; None if it is inside."""
        if self.choices is not None and value not in self.choices:
            return "one of " + ", ".join(shown(c) for c in self.choices)
        if isinstance(value, bool | str):
            return "a text that is not empty" if self.filled and value == "" else None
        for sign, bound in self.bounds().items():
            if not _HOLDS[sign](value, bound):
                return f"a value {sign} {bound:g}"
        return None

    def bounds(self) -> dict[str, float]:
        """The bounds that there are, by sign."""
        found = {">=": self.ge, ">": self.gt, "<=": self.le, "<": self.lt}.items()
        return {sign: bound for sign, bound in found if bound is not None}


def setting(default: Value, help: str, **limits: Any) -> Any:
    """A dataclass field with a default, a help text and the limits that `Limits` has; numbers have 10^9 if no others."""
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    if is_number and "choices" not in limits:
        limits = limits if {"le", "lt"} & limits.keys() else {**limits, "le": _LARGEST}
        limits = limits if {"ge", "gt"} & limits.keys() else {**limits, "ge": -_LARGEST}
    return field(default=default, metadata={"limits": Limits(help, **limits)})


def section(cls: type[Section]) -> Section:
    """A dataclass field that holds the settings of a section, a frozen dataclass of `setting(...)` fields."""
    return field(default=cls(), metadata={"section": cls})


@dataclass(frozen=True)
class RunSettings:
    """What every system's run has, whatever it learns."""

    system: str = setting(
        "fedvln", "system to run: fedvln, cdl, fedrl, or module:attribute of your own System"
    )
    name: str = setting(
        "",
        "run folder inside results-dir; empty = SYSTEM-TOML, numbered if that is taken",
        may_change=True,
    )
    seed: int = setting(0, "the one seed of all randomness", ge=0, le=2**63 - 1)
    num_rounds: int = setting(10, "federated rounds", ge=0, may_change=True)
    results_dir: str = setting("runs", "folder of run folders", may_change=True, path=True)
    resume: str = setting(
        "", "run folder to continue; empty = a new run", may_change=True, path=True
    )
    roster: str = setting(
        "",
        "file that lists who takes part, for a server without data; empty = made from the data at hand",
        may_change=True,
        path=True,
    )
    evaluate_every: int = setting(1, "rounds between evaluations; 0 = only after the last", ge=0)
    evaluation_clients: int = setting(
        0,
        "clients of each kind that an evaluation asks, drawn anew every time; others are not opened; 0 = all",
        ge=0,
    )
    open_clients: int = setting(
        128, "clients whose data one process keeps open at most", ge=1, le=512, may_change=True
    )
    checkpoint_every: int = setting(1, "rounds between checkpoints", ge=1, may_change=True)
    spill_above: int = setting(
        256, "MB of a round's replies held in memory; others wait on disk", ge=0, may_change=True
    )
    min_reply_fraction: float = setting(
        1.0, "share of usable replies below which an exchange fails the run", gt=0, le=1
    )
    node_deadline_s: float = setting(
        120.0, "seconds to wait for all clients to connect", gt=0, may_change=True
    )
    reply_deadline_s: float = setting(
        3600.0, "seconds to wait for the replies of one exchange", gt=0, may_change=True
    )
    lost_node_patience_s: float = setting(
        600.0, "seconds that a real node may be lost before it is given up", ge=0, may_change=True
    )
    client_threads: int = setting(
        1, "torch threads of a client; last bits may differ between counts", ge=1, le=1024
    )
    device: str = setting(
        "cpu", "where networks run: cpu, cuda, or auto", choices=("cpu", "cuda", "auto")
    )
    precision: str = setting(
        "float32", "of products on a GPU: tf32 is quicker and coarser", choices=("float32", "tf32")
    )

    @property
    def paced_by(self) -> str:
        """The key whose value spreads something over all rounds, so that num-rounds may not change either; "" if none."""
        return ""


def limits_of(cls: type) -> dict[str, Limits]:
    """Key -> limits of every field of a settings class, in declaration order."""
    return {key: limits for key, limits, _ in _fields(cls)}


def types_of(cls: type) -> dict[str, type]:
    """Key -> bool, int, float or str of every field of a settings class."""
    return {key: kind for key, _, kind in _fields(cls)}


def read_config(
    cls: type[Settings], mapping: Mapping[str, object], source: str = "configuration"
) -> Settings:
    """Settings from nested tables or dotted keys; missing keys take their defaults. `source` opens every complaint."""
    limits, types = limits_of(cls), types_of(cls)
    values = {}
    for key, raw in flatten(mapping, source).items():
        if raw == {} and any(known.startswith(f"{key}.") for known in limits):
            continue  # a section without keys
        if key not in limits:
            raise InputError(f"{source}: {unknown_key(key, limits)}")
        try:
            value = of_type(raw, types[key])
        except ValueError as error:
            raise InputError(f"{source}: {key} must be {error}, got {shown(raw)}") from None
        if (expected := limits[key].complaint(value)) is not None:
            raise InputError(f"{source}: {key} must be {expected}, got {shown(value)}")
        values[key] = value
    return with_keys(cls(), values)


def flatten(mapping: Mapping[str, object], source: str = "configuration") -> dict[str, object]:
    """Dotted keys of a table that may nest; InputError if a key is there in both forms."""
    flat: dict[str, object] = {}
    for key, value in mapping.items():
        try:
            inner = flatten(value, source) if isinstance(value, Mapping) and value else None
        except RecursionError:
            raise InputError(f"{source}: {key}: tables inside tables without end") from None
        for k, v in (
            [(key, value)] if inner is None else [(f"{key}.{k}", v) for k, v in inner.items()]
        ):
            if k in flat:
                raise InputError(f"{source}: {k} is given twice; leave one of them out")
            flat[k] = v
    return flat


def parse_text(cls: type, key: str, text: str, source: str = "--set") -> Value:
    """The value of `key` written as text on a command line; strings need no quotes."""
    types = types_of(cls)
    if key not in types:
        raise InputError(f"{source}: {unknown_key(key, types)}")
    try:
        return from_text(text, types[key])
    except ValueError as error:
        got = one_line(repr(text), 100)
        raise InputError(f"{source}: {key} must be {error}, got {got}") from None


def with_keys(config: Settings, values: Mapping[str, Value]) -> Settings:
    """The settings with other values at some keys, unchecked."""
    assert dataclasses.is_dataclass(config) and not isinstance(config, type)
    by_section: dict[str, dict[str, Any]] = {"": {}}
    for key, value in values.items():
        name, _, last = key.replace("-", "_").rpartition(".")
        by_section.setdefault(name, {})[last] = value
    own = by_section.pop("")
    own |= {n: dataclasses.replace(getattr(config, n), **v) for n, v in by_section.items()}
    return dataclasses.replace(config, **own)


def value_of(config: object, key: str) -> Value:
    """The value at a key."""
    value: Value = operator.attrgetter(key.replace("-", "_"))(config)
    return value


def to_flat(config: object) -> dict[str, Value]:
    """Sorted keys and values of a settings object."""
    return {key: value_of(config, key) for key in sorted(limits_of(type(config)))}


def config_digest(config: object) -> str:
    """SHA-256 of all that results depend on, that is every key but those that may change on resuming."""
    limits, usual = limits_of(type(config)), to_flat(type(config)())
    told = {k: v for k, v in to_flat(config).items() if not limits[k].may_change}
    kept = {k: v for k, v in told.items() if not (limits[k].added and v == usual[k])}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=64)
def _fields(cls: type) -> tuple[tuple[str, Limits, type], ...]:
    return tuple(_found_fields(cls))


def _found_fields(cls: type, prefix: str = "") -> Iterator[tuple[str, Limits, type]]:
    """Key, limits and type of every field, those of sections in their place."""
    hints = get_type_hints(cls)
    for f in dataclasses.fields(cls):
        key = prefix + f.name.replace("_", "-")
        if "section" in f.metadata and not prefix:
            yield from _found_fields(f.metadata["section"], f"{key}.")
        elif "limits" in f.metadata:
            yield key, f.metadata["limits"], hints[f.name]
        else:
            raise TypeError(f"{cls.__name__}.{f.name}: declare the field with setting(...)")
