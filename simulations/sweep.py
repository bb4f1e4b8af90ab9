"""Sweeps: one configuration, some keys varied over lists of values, every combination a run.

    [sweep]
    metric = "val_unseen.sr"                 # of the round rows; higher is better unless lower = true
    targets = [0.25, 0.30]                   # optional
    [sweep.vary]
    server-learning-rate = [1.0, 2.0, 6.0]
    local-epochs = [1, 2, 5]

A combination is a variant, named "server-learning-rate-1_local-epochs-2" after its keys and values;
variants come in product order, the last key changing fastest.
"""

import difflib
import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedsuite.config import Value
from fedsuite.errors import InputError

SWEEP, VARY = "sweep", "vary"
_KEYS = ("metric", "targets", "lower", VARY)
_FIXED = ("name", "results-dir", "resume", "system", "seed", "seeds")
_LONGEST_VALUE, _LONGEST_NAME = 40, 200  # letters; file systems take 255
At = Callable[[str], str]  # part of a sweep -> the opening of a complaint about it


@dataclass(frozen=True)
class Sweep:
    """What is varied and how it is judged.

    metric: name of a round metric; vary: key -> its values, in order; targets: values of the metric
    to be reached; lower: smaller is better; where: opens complaints about the values.
    """

    metric: str
    vary: Mapping[str, tuple[Value, ...]]
    targets: tuple[float, ...] = ()
    lower: bool = False
    where: str = "[sweep.vary] "

    @property
    def record(self) -> dict[str, Any]:
        """For experiment.json, which sorts tables by key: `vary` is a list of pairs, since its order counts."""
        vary = [[key, list(values)] for key, values in self.vary.items()]
        targets = {"targets": list(self.targets)} if self.targets else {}
        return {"metric": self.metric, **targets, "lower": self.lower, VARY: vary}

    def combinations(self) -> dict[str, dict[str, Value]]:
        """Name -> the varied keys' values, in product order."""
        names = {key: _value_names(values) for key, values in self.vary.items()}
        found: dict[str, dict[str, Value]] = {}
        for places in itertools.product(*(range(len(v)) for v in self.vary.values())):
            at = dict(zip(self.vary, places, strict=True))
            name = "_".join(f"{key}-{names[key][i]}" for key, i in at.items())
            found[name] = {key: self.vary[key][i] for key, i in at.items()}
        return found


def read_sweep(raw: Any, source: str) -> Sweep:
    """The content of a [sweep] table; whether the keys exist and take these values is checked elsewhere."""
    if not isinstance(raw, Mapping):
        raise InputError(f"{source}: sweep must be a table [sweep], got {raw!r}")
    for key in raw:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "valid: " + ", ".join(_KEYS)
            raise InputError(f"{source}: [sweep] unknown key {key!r}; {hint}")
    lower = raw.get("lower", False)
    if not isinstance(lower, bool):
        raise InputError(f"{source}: [sweep] lower must be true or false, got {lower!r}")

    def at(part: str) -> str:
        return f"{source}: [sweep] {part}"

    vary = checked_vary(raw.get(VARY), lambda key: f"{source}: [sweep.vary] {key}")
    targets = checked_targets(raw["targets"], at) if "targets" in raw else ()
    return Sweep(checked_metric(raw.get("metric"), at), vary, targets, lower)


def recorded_sweep(record: Mapping[str, Any], source: str) -> Sweep | None:
    """The sweep in the content of experiment.json; None if the experiment is none."""
    if SWEEP not in record:
        return None
    try:
        raw = dict(record[SWEEP])
        raw[VARY] = {str(key): values for key, values in raw[VARY]}
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{source}: no record of a sweep; give the experiment another name"
        ) from None
    return read_sweep(raw, source)


def checked_metric(raw: Any, at: At) -> str:
    """The name of a metric; whether a system has it shows after the first run only."""
    if not (isinstance(raw, str) and raw.strip() == raw and raw and "\n" not in raw):
        raise InputError(
            f'{at("metric")} must name a metric of the rounds, such as "val_unseen.sr", got {raw!r}; '
            "`fedsuite show RUN` lists those of a run"
        )
    return raw


def checked_targets(raw: Any, at: At) -> tuple[float, ...]:
    """Different finite numbers, at least one."""
    plain = isinstance(raw, list | tuple) and all(type(t) in (int, float) for t in raw)
    if not (plain and raw and all(map(math.isfinite, raw)) and len(set(raw)) == len(raw)):
        raise InputError(
            f"{at('targets')} must be a list of different finite numbers, got {raw!r}; leave it out for none"
        )
    return tuple(float(t) for t in raw)


def checked_vary(raw: Any, at: At) -> dict[str, tuple[Value, ...]]:
    """Key -> different values, at least one each."""
    if not (isinstance(raw, Mapping) and raw):
        raise InputError(
            f"{at('').strip()} must hold KEY = [VALUES] for at least one key, got {raw!r}"
        )
    for key, values in raw.items():
        if key in _FIXED:
            raise InputError(f"{at(key)} cannot be varied; set it once, beside the other keys")
        if not (isinstance(values, list | tuple) and values):
            raise InputError(f"{at(key)} must be a list of at least one value, got {values!r}")
        for i, value in enumerate(values):
            if value in values[:i]:
                raise InputError(f"{at(key)} holds {shown(value)} twice; leave one of them out")
    vary = {str(key): tuple(values) for key, values in raw.items()}
    longest = sum(len(k) + 2 + max(map(len, _value_names(v))) for k, v in vary.items())
    if longest > _LONGEST_NAME:
        raise InputError(
            f"{at(next(iter(vary)))} and the other keys make folder names of {longest} letters, more than "
            f"{_LONGEST_NAME}; vary fewer keys at once"
        )
    return vary


def shown(value: Any) -> str:
    """A value as tables and folders name it: 1.0 is 1."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _value_names(values: tuple[Any, ...]) -> list[str]:
    """Values as parts of folder names, numbered if two would be the same."""
    names = [_part(value) for value in values]
    if len(set(names)) < len(names):
        return [f"{number}-{name}" for number, name in enumerate(names, 1)]
    return names


def _part(value: Any) -> str:
    """A value in letters that a folder's name may hold; of a long text (a path) the end says most."""
    text = re.sub(r"[^A-Za-z0-9.-]+", "-", shown(value).replace("e+", "e"))
    text = text.strip("-.") if isinstance(value, str) else text
    return text[-_LONGEST_VALUE:] or "empty"
