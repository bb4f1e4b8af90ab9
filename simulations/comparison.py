"""The comparison of an experiment's runs where the system has none of its own: a table of the last metrics."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from fedsuite.history import load_runs
from fedsuite.report.tables import markdown_table, results_rows
from fedsuite.run_folder import RunFolder
from simulations.variants import variant_of

MOST_METRICS = 6
DIGITS = 4


def write_comparison(folder: Path, labels: Sequence[str]) -> None:
    """<folder>/results.md: one line per variant, each metric's last value; mean and deviation over seeds."""
    frames = variant_frames(folder, labels)
    metrics = list(dict.fromkeys(name for frame in frames.values() for name in _newest(frame)))
    columns = metrics[:MOST_METRICS]
    wide = {
        variant: frame.reindex(columns=["run", "round", *columns])
        for variant, frame in frames.items()
    }
    rows = results_rows(wide, columns, digits=DIGITS)
    shown = [{"variant": row.pop("run"), **row} for row in rows]
    RunFolder(folder).results.write_text(markdown_table(shown), encoding="utf-8")


def variant_frames(folder: Path, labels: Sequence[str]) -> Mapping[str, pd.DataFrame]:
    """Variant -> rounds of its runs, closing last; columns run (the label), round, and the metrics.

    Where only seeds differ, the one variant is called after the folder.
    """
    parts: dict[str, list[pd.DataFrame]] = {}
    for label in labels:
        found = load_runs(folder / label)
        frame = pd.concat([found.rounds, found.closing], ignore_index=True).assign(run=label)
        parts.setdefault(variant_of(label) or folder.name, []).append(frame)
    return {name: pd.concat(frames, ignore_index=True) for name, frames in parts.items()}


def _newest(frame: pd.DataFrame) -> list[str]:
    """Names of metrics, those of the last evaluation first."""
    rows = [row.dropna() for _, row in frame.drop(columns=["run", "round"]).iterrows()]
    return list(dict.fromkeys(str(name) for row in reversed(rows) for name in row.index))
