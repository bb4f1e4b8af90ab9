"""The runs that a TOML with [variants.NAME] tables, a [sweep] or a list of seeds describes, before their keys are checked.

A run's label is "variant", "variant/seed-0", or "seed-0" where there are seeds only.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedsuite.errors import InputError, one_of, suggestion
from fedsuite.runs.folder import variant_of
from fedsuite.settings.config import flatten
from fedsuite.settings.metrics import NO_ROWS, Metrics
from fedsuite.settings.values import shown
from fedsuite.storage.files import path_name
from simulations.experiments.sweep import SWEEP, Sweep, read_sweep

VARIANTS, SEEDS = "variants", "seeds"
PLACING = ("name", "results-dir", "resume")  # keys that say where a run lies
_TAKEN = re.compile(r"seed-\d+|results\.md|experiment\.json")


@dataclass(frozen=True)
class RunTable:
    """One run and its keys; `where` opens complaints about those that are not of all runs."""

    label: str
    table: Mapping[str, Any]
    where: str = ""


def base_of(table: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The keys of all runs, dotted."""
    own = {k: v for k, v in table.items() if k not in (VARIANTS, SEEDS, SWEEP)}
    return flatten(own, source)


def runs_of(table: Mapping[str, Any], source: str, sweep: Sweep | None = None) -> list[RunTable]:
    """Every run that the file describes, in order, its keys yet unchecked; InputError names `source`.

    sweep: what is swept, where that is not the file's own [sweep]. One run's label is "".
    """
    base = base_of(table, source)
    seeds = _seeds(table[SEEDS], source) if SEEDS in table else []
    if seeds and "seed" in base:
        raise InputError(f"{source}: seed and seeds are both given; leave one of them out")
    sweep = sweep or sweep_of(table, source)
    if sweep is not None:
        swept = sweep.combinations().items()
        found = [(name, dict[str, Any](own), f"{sweep.where}{name}: ") for name, own in swept]
    elif VARIANTS in table:
        variants = _variants(table[VARIANTS], bool(seeds), source)
        found = [(name, dict(own), f"[variants.{name}] ") for name, own in variants.items()]
    else:
        found = [("", {}, "")]
    if not seeds:
        return [RunTable(name, base | own, where) for name, own, where in found]
    return [
        RunTable(f"{name}/seed-{seed}".lstrip("/"), base | own | {"seed": seed}, where)
        for name, own, where in found
        for seed in seeds
    ]


def sweep_of(
    table: Mapping[str, Any],
    source: str,
    typed: Mapping[str, Any] | None = None,
    metrics: Metrics = NO_ROWS,
) -> Sweep | None:
    """The sweep that the file describes, `typed` going before it; None if there is neither. metrics: of the system."""
    if SWEEP not in table and typed is None:
        return None
    if VARIANTS in table:
        raise InputError(
            f"{source}: [variants.NAME] cannot be swept; give the --variant to sweep, or leave the sweep out"
        )
    return read_sweep(table.get(SWEEP), source, typed, metrics)


def one_variant(table: Mapping[str, Any], name: str, source: str) -> dict[str, Any]:
    """The file's keys as if it described this variant alone."""
    if VARIANTS not in table:
        raise InputError(f"--variant: {source} has no [variants.NAME]; leave it out")
    variants = _variants(table[VARIANTS], SEEDS in table, source)
    one_of("--variant", name, variants)
    seeds = {SEEDS: table[SEEDS]} if SEEDS in table else {}
    return base_of(table, source) | variants[name] | seeds


def with_seeds(table: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The file's keys with the seeds of --seeds in place of its own."""
    parts = [part.strip() for part in text.split(",")]
    if not all(p.isdecimal() and len(p) < 20 for p in parts) or len({*map(int, parts)}) < len(
        parts
    ):
        raise InputError(
            f"--seeds must be different whole numbers >= 0, as in 0,1,2; got {shown(text)}"
        )
    return {k: v for k, v in table.items() if k != "seed"} | {SEEDS: [int(p) for p in parts]}


def chosen_labels(only: Sequence[str], labels: Sequence[str]) -> list[str]:
    """The labels that --only leaves, each given as a variant or as a whole label; all without it."""
    known = list(filter(None, dict.fromkeys([*map(variant_of, labels), *labels])))
    if only and not known:
        raise InputError("--only: this is a single run without [variants.NAME]; leave it out")
    for name in only:
        if name not in known:
            raise InputError(f"--only: no variant {name!r}; {suggestion(name, known)}")
    return [x for x in labels if not only or x in only or variant_of(x) in only]


def _seeds(raw: Any, source: str) -> list[int]:
    whole = isinstance(raw, list) and all(type(s) is int and s >= 0 for s in raw)
    if not (whole and raw and len(set(raw)) == len(raw)):
        raise InputError(
            f"{source}: seeds must be a list of different whole numbers >= 0, got {shown(raw)}"
        )
    return list(raw)


def _variants(raw: Any, seeded: bool, source: str) -> dict[str, dict[str, object]]:
    if not (isinstance(raw, Mapping) and raw and all(isinstance(v, Mapping) for v in raw.values())):
        raise InputError(f"{source}: variants must be tables [variants.NAME], got {shown(raw)}")
    variants = {}
    for name, nested in raw.items():
        where = f"{source}: [variants.{name}]"
        if _TAKEN.fullmatch(path_name(name, f"{where} the name", plain=True)):
            raise InputError(
                f"{where} the name must not be seed-NUMBER, results.md or experiment.json; rename it"
            )
        own = variants[name] = flatten(nested, where)
        refused = {*PLACING, "system", *(["seed"] if seeded else [])} & set(own)
        if refused:
            raise InputError(
                f"{where} {min(refused)} cannot differ between variants; set it above them"
            )
    return variants
