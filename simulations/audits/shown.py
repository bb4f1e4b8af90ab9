"""Findings in a terminal and as JSON: of each run, and means over the runs of a variant."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from fedsuite.history import Runs
from fedsuite.history.audits import by_seed, over_runs
from fedsuite.history.paired import paired
from fedsuite.reports.page.audits import HOW, audit_rows


def records(runs: Runs) -> list[dict[str, Any]]:
    """A record per finding; a number that is not there is null."""
    lines = runs.audit.to_dict("records") if len(runs.audit) else []
    return [{str(k): _plain(v) for k, v in line.items()} for line in lines]


def _plain(value: Any) -> Any:
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and math.isnan(plain) else plain


def print_audit(console: Console, runs: Runs) -> None:
    """All findings, and how they are to be read."""
    rows = audit_rows(runs.audit)
    _print(console, [_narrow(row) for row in rows])
    for row in rows:
        if row["note"]:
            line = f"{_called(row)}: {row['note']}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print(HOW, highlight=False, markup=False)


def _called(row: Mapping[str, str]) -> str:
    told = f"{row['run']}, " if "run" in row else ""
    return f"{told}{row['attack']}: {row['target']}, {row['measure']}"


def _narrow(row: Mapping[str, str]) -> dict[str, str]:
    """What 80 columns hold: the words of a row in one cell, its numbers beside them."""
    numbers = ("reached", "95 %", "chance", "undefended", "control")
    cells = {name: row[name].partition(" (")[0] for name in numbers}
    return {"attack, target, measure": f"{_called(row)}, by {row['by']}", **cells}


def print_means(console: Console, runs: Runs) -> None:
    """Means over seeds with their 95 % intervals, and differences from the first variant paired by seed; nothing for one
    run."""
    rows = list(mean_rows(runs))
    if rows:
        _print(console, rows)


def mean_rows(runs: Runs) -> Iterator[dict[str, str]]:
    """A line per finding and variant with at least two runs."""
    seeds = {run.name: run.seed for run in runs.runs}
    first: dict[tuple[str, ...], dict[Hashable, float]] = {}
    variants = list(dict.fromkeys(run.variant for run in runs.runs))
    for variant in variants:
        names = [run.name for run in runs.runs if run.variant == variant]
        lines = runs.audit
        own = by_seed(lines[lines["run"].isin(names)], seeds) if len(lines) else {}
        first = first or own
        before = f"{variant}, " if len(variants) > 1 else ""
        for what, values in own.items():
            mean = over_runs(values)
            if len(names) < 2:
                continue
            yield {
                "finding": f"{before}{what[0]}: {what[2]}, {what[3]}, by {what[1]}",
                "runs": f"{mean.n} of {len(names)}",
                "mean": "-" if math.isnan(mean.mean) else f"{mean.mean:.3f}",
                "95 %": mean.interval(3).replace("+", ""),
                **_against(first, own, what, variants),
            }


def _against(
    first: Mapping[tuple[str, ...], Mapping[Hashable, float]],
    own: Mapping[tuple[str, ...], Mapping[Hashable, float]],
    what: tuple[str, ...],
    variants: Sequence[str],
) -> dict[str, str]:
    """The difference from the first variant, where there are several."""
    if len(variants) < 2:
        return {}
    told = "" if own is first or what not in first else paired(own[what], first[what]).text(3)
    return {f"less {variants[0]}": told}


def _print(console: Console, rows: Sequence[Mapping[str, str]]) -> None:
    if not rows:
        return
    first, *others = rows[0]
    numbers = (Column(name, justify="right", no_wrap=True) for name in others)
    table = Table(Column(first, overflow="fold"), *numbers, box=None)
    for row in rows:
        table.add_row(*row.values())
    console.print(table)
