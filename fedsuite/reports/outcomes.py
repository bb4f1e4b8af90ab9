"""What runs ended with, and tables over them: one form for all systems.

An outcome is one line of an experiment's results.csv. Outcomes of one name repeat each other (seeds, folds); together
they are one line of results.md, with the mean and the sample standard deviation of each metric.
"""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from fedsuite.errors import InputError, one_line
from fedsuite.history import RunFrames
from fedsuite.reports.tables import Spread, mean_and_spread
from fedsuite.runs.folder import variant_of
from fedsuite.settings.metrics import Metric
from fedsuite.storage.escaping import csv_text
from fedsuite.storage.files import read_object

EMPTY = "-"
BASELINES = "baselines.json"  # how well a run's data are met without learning; only who has the data can tell
_CURE = "put it back from a copy, or delete it: tables are then without baselines"


@dataclass(frozen=True)
class Outcome:
    """How one run ended.

    name: of its line in tables; run: its label in the experiment, "variant/seed-0"; facts: what else its line of the CSV
    says of it; metrics: its numbers, NaN for those that it does not have; frames: its history.
    """

    name: str
    run: str
    facts: Mapping[str, object]
    metrics: Mapping[str, float]
    frames: RunFrames


AnyOutcome = TypeVar("AnyOutcome", bound=Outcome)
Groups = Mapping[str, Sequence[AnyOutcome]]


@dataclass(frozen=True)
class Column:
    """A metric and how a table shows it; or `text`, which makes the cell from all outcomes of a line.

    scale: 100 shows shares in percent; with_spread: mean and deviation, else the mean alone, with thousands separated;
    stays: in tables where no line has anything in it.
    """

    title: str
    metric: str = ""
    digits: int = 2
    scale: float = 1.0
    with_spread: bool = True
    stays: bool = False
    text: Callable[[Sequence[Any]], str] | None = None

    def cell(self, outcomes: Sequence[Outcome]) -> str:
        """Says how many outcomes have the metric where only some do; "-" if none does."""
        if self.text is not None:
            return self.text(outcomes)
        spread = spread_of(outcomes, self.metric)
        shown = spread.text(self.digits, self.scale)
        if spread.n and not self.with_spread:
            shown = f"{spread.mean * self.scale:,.{self.digits}f}".removesuffix(".0")
        some = f" ({spread.n} of {len(outcomes)} seeds)" if 0 < spread.n < len(outcomes) else ""
        return shown + some


def column_of(row: Metric, metric: str = "", title: str = "") -> Column:
    """The column of a row of the table of metrics; metric, title: where they are other than the row's."""
    return Column(title or row.heading + row.percent, metric or row.name, row.digits, row.scale)


SEEDS = Column("seeds", text=lambda outcomes: str(len(outcomes)))


def spread_of(outcomes: Iterable[Outcome], metric: str) -> Spread:
    """Mean and spread of a metric over the outcomes that have it."""
    return mean_and_spread(o.metrics.get(metric, math.nan) for o in outcomes)


def line_name(folder: Path, label: str) -> str:
    """The variant of a run; where only seeds differ, the one line is called after the experiment's folder."""
    return variant_of(label) or folder.name


def grouped(outcomes: Iterable[AnyOutcome]) -> dict[str, list[AnyOutcome]]:
    """Outcomes by name, in the order given."""
    found: dict[str, list[AnyOutcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.name, []).append(outcome)
    return found


def cells(outcomes: Sequence[Outcome], columns: Iterable[Column]) -> dict[str, str]:
    """One line of a table."""
    return {column.title: column.cell(outcomes) for column in columns}


def table(
    groups: Groups[Any], columns: Sequence[Column], head: str = "run"
) -> list[dict[str, str]]:
    """One line per group, its name under `head`; columns that no group has anything for are left out."""
    rows = {name: cells(own, columns) for name, own in groups.items()}
    kept = [c.title for c in columns if c.stays or any(r[c.title] != EMPTY for r in rows.values())]
    return [{head: name} | {title: row[title] for title in kept} for name, row in rows.items()]


def write_csv(path: Path, groups: Groups[Any], head: str = "variant") -> None:
    """One line per outcome: its name under `head`, run, facts, metrics."""
    outcomes = (o for own in groups.values() for o in own)
    lines = [{head: o.name, "run": o.run, **o.facts, **o.metrics} for o in outcomes]
    path.write_text(csv_text(pd.DataFrame(lines)), encoding="utf-8")


def rounds_of(groups: Groups[Any]) -> dict[str, pd.DataFrame]:
    """Name -> rounds of its runs, those of the first run first."""
    return {name: pd.concat([o.frames.rounds for o in own]) for name, own in groups.items()}


def read_baselines(run_dir: Path) -> dict[str, Any]:
    """Scores of each baseline; a list, as that of CDL's silos, has a line with `name` for each. {} where nobody with data
    has written them. InputError for anything else."""
    file, what = run_dir / BASELINES, "the scores of baselines"
    if not file.is_file():
        return {}
    found = read_object(file, what, _CURE)
    for name, scores in found.items():
        lines = scores if isinstance(scores, list) else [scores]
        if not all(_is_line(line, named=lines is scores) for line in lines):
            raise InputError(f"{file}: not {what} (entry {one_line(name, 50)}); {_CURE}")
    return found


def _is_line(line: object, named: bool) -> bool:
    """Whether this is scores, all finite numbers; named: with a text as `name` beside them."""
    if not isinstance(line, dict) or (named and not isinstance(line.get("name"), str)):
        return False
    numbers = [value for key, value in line.items() if not (named and key == "name")]
    return all(isinstance(v, int | float) and abs(v) <= sys.float_info.max for v in numbers)
