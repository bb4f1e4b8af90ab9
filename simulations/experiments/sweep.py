"""Sweeps: one configuration, some keys varied over lists of values, every combination a run.

docs/experiments.md shows the table [sweep]: a `metric` of the round rows (higher is better unless `lower`), optional
`targets`, and [sweep.vary] with a list of values for each key. The same may be typed over any TOML (--metric, --target,
--vary).

A combination is a variant, named "server-learning-rate-1_local-epochs-2" after its keys and values, sections left out
where that leaves no doubt; variants come in product order, the last key changing fastest.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedsuite.errors import InputError, suggestion
from fedsuite.settings.config import Value, flatten, parse_text, read_config
from fedsuite.settings.metrics import NO_ROWS, Metrics
from fedsuite.settings.values import of_type
from fedsuite.settings.values import shown as as_given

SWEEP, VARY, OPTUNA = "sweep", "vary", "optuna"
_OPTIONS = {
    "metric": "--metric",
    "targets": "--target",
    "lower": "--lower",
    VARY: "--vary",
    OPTUNA: "--optuna",
}
_KEYS = tuple(_OPTIONS)
_FIXED = ("name", "results-dir", "resume", "system", "seed", "seeds")
_LONGEST_VALUE, _LONGEST_NAME = 40, 200  # letters; file systems take 255


@dataclass(frozen=True)
class SweepOptions:
    """What was typed in place of a [sweep] table's keys; what is empty is as the table says. variant: the one whose
    settings all combinations have, of a file with variants; trials: of --optuna."""

    vary: Sequence[str] = ()
    metric: str = ""
    targets: Sequence[str] = ()
    lower: bool = False
    variant: str = ""
    trials: int = 0

    def table(self, cls: type) -> dict[str, Any]:
        """The [sweep] table that was typed; `cls`: the settings whose keys are varied."""
        vary: dict[str, list[Value]] = {}
        for text in self.vary:
            key, equals, values = (part.strip() for part in text.partition("="))
            if not (key and equals and values):
                raise InputError(f"--vary: expected KEY=VALUE,VALUE, got {text!r}")
            if key in vary:
                raise InputError(f"--vary {key} is given twice; give all its values at once")
            vary[key] = [parse_text(cls, key, v.strip(), "--vary") for v in values.split(",")]
            for value in vary[key]:
                read_config(cls, {key: value}, "--vary")
        table = {VARY: vary, "metric": self.metric, "lower": self.lower}
        table["targets"] = [_number(text) for text in self.targets]
        table[OPTUNA] = self.trials
        return {part: value for part, value in table.items() if value}


@dataclass(frozen=True)
class Sweep:
    """What is varied and how it is judged.

    metric: name of a round metric; vary: key -> its values, in order; targets: values of the metric
    to be reached; lower: smaller is better; where: opens complaints about the values; trials: how many combinations optuna
    tries, 0 = all of them are run, without it.
    """

    metric: str
    vary: Mapping[str, tuple[Value, ...]]
    targets: tuple[float, ...] = ()
    lower: bool = False
    where: str = "[sweep.vary] "
    trials: int = 0

    @property
    def record(self) -> dict[str, Any]:
        """For experiment.json, which sorts tables by key: `vary` is a list of pairs, since its order counts."""
        vary = [[key, list(values)] for key, values in self.vary.items()]
        targets = {"targets": list(self.targets)} if self.targets else {}
        trials = {OPTUNA: self.trials} if self.trials else {}
        return {"metric": self.metric, **targets, "lower": self.lower, VARY: vary, **trials}

    def combinations(self) -> dict[str, dict[str, Value]]:
        """Name -> the varied keys' values, in product order."""
        names = {key: _value_names(values) for key, values in self.vary.items()}
        short, found = short_keys(self.vary), dict[str, dict[str, Value]]()
        for places in itertools.product(*(range(len(v)) for v in self.vary.values())):
            at = dict(zip(self.vary, places, strict=True))
            name = "_".join(f"{short[key]}-{names[key][i]}" for key, i in at.items())
            found[name] = {key: self.vary[key][i] for key, i in at.items()}
        return found


def read_sweep(
    raw: Any, source: str, typed: Mapping[str, Any] | None = None, metrics: Metrics = NO_ROWS
) -> Sweep:
    """A [sweep] table, `typed` going before it; whether the keys exist and take these values is checked elsewhere.

    metrics: where neither says whether lower is better, the metric's row does.
    """
    given = {} if raw is None else raw
    if not isinstance(given, Mapping):
        raise InputError(f"{source}: sweep must be a table [sweep], got {as_given(raw)}")
    for key in given:
        if key not in _KEYS:
            raise InputError(f"{source}: [sweep] unknown key {key!r}; {suggestion(key, _KEYS)}")
    typed = typed or {}
    if raw is None and VARY not in typed:
        raise InputError(
            f"{source}: nothing to vary; give --vary KEY=VALUE,VALUE or a file with [sweep]"
        )
    table = {**given, **typed}
    name = table.get("metric")
    table.setdefault("lower", isinstance(name, str) and bool(metrics.row(name).lower))

    def at(part: str) -> str:
        if part in typed or raw is None:
            return _OPTIONS[part]
        return f"{source}: [sweep.vary]" if part == VARY else f"{source}: [sweep] {part}"

    if not isinstance(table["lower"], bool):
        raise InputError(f"{at('lower')} must be true or false, got {as_given(table['lower'])}")
    trials = table.get(OPTUNA, 0)
    if type(trials) is not int or trials < 0:
        raise InputError(
            f"{at(OPTUNA)} must be a number of combinations to try, got {as_given(trials)}"
        )
    vary = _checked_vary(table.get(VARY), at(VARY))
    metric = _checked_metric(table.get("metric"), at("metric"))
    targets = _checked_targets(table["targets"], at("targets")) if "targets" in table else ()
    where = at(VARY).removeprefix(f"{source}: ") + " "
    return Sweep(metric, vary, targets, table["lower"], where, trials)


def recorded_sweep(
    record: Mapping[str, Any], source: str, typed: Mapping[str, Any] | None = None
) -> Sweep | None:
    """The sweep in the content of experiment.json, judged as `typed`; None if the experiment is none."""
    if SWEEP not in record:
        return None
    try:
        raw = dict(record[SWEEP])
        raw[VARY] = {str(key): values for key, values in raw[VARY]}
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{source}: no record of a sweep; give the experiment another name"
        ) from None
    return read_sweep(raw, source, typed)


def _checked_metric(raw: Any, at: str) -> str:
    """The name of a metric; whether a system has it shows after the first run only."""
    if not (isinstance(raw, str) and raw.strip() == raw and raw and "\n" not in raw):
        raise InputError(
            f'{at} must name a metric of the rounds, such as "val_unseen.sr", got {as_given(raw)}; '
            "`fedsuite show RUN` lists those of a run"
        )
    return raw


def _checked_targets(raw: Any, at: str) -> tuple[float, ...]:
    """Different finite numbers, at least one."""
    try:
        targets = tuple(float(of_type(t, float)) for t in raw) if isinstance(raw, list) else ()
    except ValueError:
        targets = ()
    if not targets or len(set(targets)) < len(targets):
        raise InputError(
            f"{at} must be a list of different finite numbers, got {as_given(raw)}; leave it out for none"
        )
    return targets


def _checked_vary(raw: Any, at: str) -> dict[str, tuple[Value, ...]]:
    """Key -> different values, at least one each."""
    if not (isinstance(raw, Mapping) and raw):
        raise InputError(f"{at} must hold KEY = [VALUES] for at least one key, got {as_given(raw)}")
    raw = flatten(raw, at)
    for key, values in raw.items():
        if key in _FIXED:
            raise InputError(f"{at} {key} cannot be varied; set it once, beside the other keys")
        if not (isinstance(values, list) and values):
            raise InputError(
                f"{at} {key} must be a list of at least one value, got {as_given(values)}"
            )
        for i, value in enumerate(values):
            if value in values[:i]:
                raise InputError(f"{at} {key} holds {shown(value)} twice; leave one of them out")
    vary = {str(key): tuple(values) for key, values in raw.items()}
    longest = sum(
        len(short_keys(vary)[k]) + 2 + max(map(len, _value_names(v))) for k, v in vary.items()
    )
    if longest > _LONGEST_NAME:
        raise InputError(
            f"{at} {next(iter(vary))} and the other keys make folder names of {longest} letters, more than "
            f"{_LONGEST_NAME}; vary fewer keys at once"
        )
    return vary


def short_keys(keys: Iterable[str]) -> dict[str, str]:
    """Key -> its name in folders and tables: without the section, unless two would have the same."""
    last = {key: key.rpartition(".")[2] for key in keys}
    return {k: name if list(last.values()).count(name) == 1 else k for k, name in last.items()}


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


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--target must be a number, got {text!r}") from None
