"""Results of finished runs as tables: mean and spread over seeds, in terminal or Markdown.

Runs come as pandas frames by label, each like `RunFrames.rounds` of `fedsuite.history.load_runs`:
one line a round with the columns round, one per metric and, if a frame holds several runs
(seeds), run. Rounds without a value of a metric (not evaluated) hold NaN.
"""

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from rich.table import Table

from fedsuite.errors import InputError


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation (n - 1 in the denominator; NaN for n = 1) of n values."""

    mean: float
    standard_deviation: float
    n: int

    def text(self, digits: int = 2, scale: float = 1.0) -> str:
        """Such as "63.1 ± 0.4", the deviation only if there is one; "-" without values."""
        if self.n == 0:
            return "-"
        mean = f"{self.mean * scale:.{digits}f}"
        return mean if self.n == 1 else f"{mean} ± {self.standard_deviation * scale:.{digits}f}"


def mean_and_spread(values: Iterable[float]) -> Spread:
    """Mean and spread over seeds; NaN values (no result) do not count."""
    found = [float(v) for v in values if not math.isnan(v)]
    n = len(found)
    mean = math.fsum(found) / n if n else math.nan
    square = math.fsum((v - mean) ** 2 for v in found)
    return Spread(mean, math.sqrt(square / (n - 1)) if n > 1 else math.nan, n)


def metric_column(frame: pd.DataFrame, metric: str, label: str) -> pd.DataFrame:
    """Columns run, round, value, of the rounds that have one; InputError if there is none."""
    if metric not in frame.columns:
        known = sorted(str(c) for c in frame.columns if c not in ("run", "round"))
        close = difflib.get_close_matches(metric, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(known) or 'none'}"
        raise InputError(f"run {label!r} has no metric {metric!r}; {hint}")
    run = frame["run"] if "run" in frame.columns else label
    found = pd.DataFrame({"run": run, "round": frame["round"], "value": frame[metric]})
    return found.dropna(subset="value").sort_values(["run", "round"], kind="stable")


def _values(frame: pd.DataFrame, metric: str, best_by: str | None, label: str) -> pd.Series:
    """One value per run: the last recorded or, with best_by, that of the first best round."""
    found = metric_column(frame, metric, label)
    if best_by is None:
        return found.groupby("run")["value"].last()
    best = metric_column(frame, best_by, label).groupby("run")["value"].idxmax()
    return found["value"][found.index.isin(best.to_list())]


def results_rows(
    runs: Mapping[str, pd.DataFrame],
    metrics: Sequence[str],
    *,
    best_by: str | None = None,
    percent: Collection[str] = (),
    digits: int = 2,
) -> list[dict[str, str]]:
    """One row per label: its name, its number of runs (seeds), each metric as mean and spread.

    The value of a run is the last one recorded or, given best_by, that of the first round in which
    best_by was highest. Where not all runs have a value, n says how many do. Metrics named in
    `percent` are shares of one, shown in percent.
    """
    rows = []
    for label, given in runs.items():
        frame = given.reset_index(drop=True)
        seeds = frame["run"].nunique() if "run" in frame.columns else 1
        row = {"run": label, "seeds": str(seeds)}
        for metric in metrics:
            spread = mean_and_spread(_values(frame, metric, best_by, label))
            name, scale = (f"{metric} (%)", 100.0) if metric in percent else (metric, 1.0)
            some_lack_it = 0 < spread.n < seeds
            row[name] = spread.text(digits, scale) + (f" (n={spread.n})" if some_lack_it else "")
        rows.append(row)
    return rows


def results_table(
    runs: Mapping[str, pd.DataFrame],
    metrics: Sequence[str],
    *,
    best_by: str | None = None,
    percent: Collection[str] = (),
    digits: int = 2,
    title: str | None = None,
) -> Table:
    """`results_rows` for the terminal."""
    rows = results_rows(runs, metrics, best_by=best_by, percent=percent, digits=digits)
    table = Table(title=title)
    for name in _columns(rows):
        table.add_column(name, justify="left" if name == "run" else "right")
    for row in rows:
        table.add_row(*row.values())
    return table


def markdown_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as Markdown with a final newline; all columns but the first are aligned to the right."""
    columns = _columns(rows)
    lines = [columns, ["---"] + ["---:"] * (len(columns) - 1)]
    lines += [[str(row[name]).replace("|", r"\|") for name in columns] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _columns(rows: Sequence[Mapping[str, object]]) -> list[str]:
    if not rows:
        raise InputError("no runs to tabulate; name at least one finished run")
    columns = list(rows[0])
    for number, row in enumerate(rows):
        if list(row) != columns:
            raise ValueError(f"row {number}: expected the columns {columns}, got {list(row)}")
    return columns
