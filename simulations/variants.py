"""The runs that a TOML with [variants.NAME] tables, a [sweep] or a list of seeds describes, before their keys are checked.

A run's label is "variant", "variant/seed-0", or "seed-0" where there are seeds only.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedsuite.errors import InputError
from simulations.sweep import SWEEP, Sweep, read_sweep

VARIANTS, SEEDS = "variants", "seeds"
PLACING = ("name", "results-dir", "resume")  # keys that say where a run lies
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TAKEN = re.compile(r"seed-\d+|results\.md|experiment\.json")


@dataclass(frozen=True)
class RunTable:
    """One run: `base` holds the keys of all runs, `own` its own; `where` opens complaints about these."""

    label: str
    base: Mapping[str, Any]
    own: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""

    @property
    def table(self) -> dict[str, Any]:
        """All keys; its own ones win."""
        return {**self.base, **self.own}


def runs_of(table: Mapping[str, Any], source: str) -> list[RunTable]:
    """Every run that the file describes, in order, its keys yet unchecked; InputError names `source`."""
    base = {k: v for k, v in table.items() if k not in (VARIANTS, SEEDS, SWEEP)}
    seeds = _seeds(table[SEEDS], source) if SEEDS in table else []
    if seeds and "seed" in base:
        raise InputError(f"{source}: seed and seeds are both given; leave one of them out")
    runs = []
    for name, own, where in _variants_of(table, bool(seeds), source):
        for seed in seeds:
            label = f"{name}/seed-{seed}".lstrip("/")
            runs.append(RunTable(label, base, {**own, "seed": seed}, where))
        if not seeds:
            runs.append(RunTable(name, base, own, where))
    return runs


def sweep_of(table: Mapping[str, Any], source: str) -> Sweep | None:
    """The sweep that the file describes, or that was typed over it; None without one."""
    raw = table.get(SWEEP)
    if raw is None:
        return None
    if VARIANTS in table:
        raise InputError(
            f"{source}: [variants.NAME] cannot be swept; leave the variants out, or the sweep"
        )
    return raw if isinstance(raw, Sweep) else read_sweep(raw, source)


def _variants_of(
    table: Mapping[str, Any], seeded: bool, source: str
) -> list[tuple[str, Mapping[str, Any], str]]:
    """Name, own keys, and the opening of complaints about these, of every variant."""
    sweep = sweep_of(table, source)
    if sweep is not None:
        return [(name, own, f"{sweep.where}{name}: ") for name, own in sweep.combinations().items()]
    if VARIANTS not in table:
        return [("", {}, "")]
    own_keys = _variants(table[VARIANTS], seeded, source)
    return [(name, own, f"[variants.{name}] ") for name, own in own_keys.items()]


def _seeds(raw: Any, source: str) -> list[int]:
    whole = isinstance(raw, list) and all(type(s) is int and s >= 0 for s in raw)
    if not (whole and raw and len(set(raw)) == len(raw)):
        raise InputError(
            f"{source}: seeds must be a list of different whole numbers >= 0, got {raw!r}"
        )
    return list(raw)


def _variants(raw: Any, seeded: bool, source: str) -> dict[str, Mapping[str, Any]]:
    if not (isinstance(raw, Mapping) and raw and all(isinstance(v, Mapping) for v in raw.values())):
        raise InputError(f"{source}: variants must be tables [variants.NAME], got {raw!r}")
    for name, own in raw.items():
        where = f"{source}: [variants.{name}]"
        if not _NAME.fullmatch(name) or _TAKEN.fullmatch(name):
            raise InputError(
                f"{where} the name must be letters, digits, '.', '_' and '-', starting with a letter or "
                "digit, and not seed-NUMBER, results.md or experiment.json"
            )
        refused = {*PLACING, "system", *(["seed"] if seeded else [])} & set(own)
        if refused:
            raise InputError(
                f"{where} {min(refused)} cannot differ between variants; set it above them"
            )
        for key, value in own.items():
            if isinstance(value, Mapping):
                raise InputError(
                    f"{where} {key} must be a value, got a table; put a name with dots in quotes"
                )
    return dict(raw)


def variant_of(label: str) -> str:
    """The variant that a run belongs to; "" where only seeds differ."""
    variant, _, last = label.rpartition("/")
    return variant or ("" if re.fullmatch(r"seed-\d+", last) else last)
