"""Findings in a terminal and as JSON: of each run, and means over the runs of a variant."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from fedsuite.history import Runs
from fedsuite.history.audits import WHAT, by_seed, over_runs
from fedsuite.history.paired import Difference, paired
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
    """Means over seeds with their 95 % intervals, and differences from the first variant paired by seed; nothing where no
    variant has two runs."""
    rows = []
    for mean in means(runs):
        before = f"{mean.variant}, " if mean.variant else ""
        attack, attacker, target, measure = mean.what
        row = {
            "attack, target, measure": f"{before}{attack}: {target}, {measure}, by {attacker}",
            "runs": f"{mean.value.n} of {mean.runs}",
            "mean": "-" if math.isnan(mean.value.mean) else f"{mean.value.mean:.3f}",
            "95 %": mean.value.interval(3).replace("+", ""),
        }
        if len({run.variant for run in runs.runs}) > 1:
            row["less the first"] = mean.less.text(3) if mean.less else ""
        rows.append(row)
    _print(console, rows)


@dataclass(frozen=True)
class Mean:
    """A finding over the runs of a variant. value: mean over those whose control succeeded, of `runs`; less: what it is less
    the first variant's, paired by seed, None of that one."""

    variant: str
    what: tuple[str, ...]
    runs: int
    value: Difference
    less: Difference | None

    def record(self) -> dict[str, Any]:
        """For --json."""
        found: dict[str, Any] = {"variant": self.variant, **dict(zip(WHAT, self.what, strict=True))}
        found |= {"runs": self.runs, **{k: _plain(v) for k, v in vars(self.value).items()}}
        less = self.less and {k: _plain(v) for k, v in vars(self.less).items()}
        return {**found, "less-the-first": less}


def means(runs: Runs) -> list[Mean]:
    """Of every finding and variant with at least two runs."""
    seeds, lines = {run.name: run.seed for run in runs.runs}, runs.audit
    first: Mapping[tuple[str, ...], Mapping[Hashable, float]] | None = None
    found = []
    for variant in dict.fromkeys(run.variant for run in runs.runs):
        names = [run.name for run in runs.runs if run.variant == variant]
        own = by_seed(lines[lines["run"].isin(names)] if len(lines) else lines, seeds)
        if len(names) > 1:
            for what, values in own.items():
                less = paired(values, first.get(what, {})) if first is not None else None
                found.append(Mean(variant, what, len(names), over_runs(values), less))
        first = own if first is None else first
    return found


def _print(console: Console, rows: Sequence[Mapping[str, str]]) -> None:
    if not rows:
        return
    first, *others = rows[0]
    numbers = (Column(name, justify="right", no_wrap=True) for name in others)
    table = Table(Column(first, overflow="fold"), *numbers, box=None)
    for row in rows:
        table.add_row(*row.values())
    console.print(table)
