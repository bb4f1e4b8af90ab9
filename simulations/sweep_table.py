"""What a sweep found: how soon every combination reaches the targets.

<sweep>/results.md    one line per combination, over its seeds
<sweep>/results.csv   one line per run and target
<sweep>/sweep.png     the metric over rounds
"""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fedsuite.config import Value
from fedsuite.history import RunFrames, load_runs
from fedsuite.report.reaching import Course, course_of, known_metrics
from fedsuite.report.sweep_curves import sweep_curves
from fedsuite.report.tables import markdown_table, mean_and_spread
from fedsuite.run_folder import RunFolder, read_stored_config
from simulations.sweep import Sweep, shown
from simulations.variants import variant_of

DIGITS = 4


@dataclass(frozen=True)
class SweptRun:
    """A completed run: its label, its combination's name, its seed and what it recorded, if anything."""

    label: str
    name: str
    seed: int
    course: Course | None


def write_sweep(
    folder: Path, sweep: Sweep, labels: Sequence[str], completed: Sequence[str]
) -> None:
    """labels: all runs of the sweep; completed: those to be tabulated."""
    runs, metrics = [], set()
    for label in completed:
        frames = load_runs(folder / label)
        metrics |= set(known_metrics(frames.rounds, frames.closing))
        runs.append(_swept(folder, label, frames, sweep.metric))
    files = [folder / "results.csv", folder / "sweep.png"]
    if all(run.course is None for run in runs):
        for file in files:  # of an earlier metric
            file.unlink(missing_ok=True)
        text = _unknown_metric(sweep.metric, sorted(metrics), folder.name)
    else:
        combinations = sweep.combinations()
        rows = [row for run in runs for row in _lines(run, combinations[run.name], sweep)]
        pd.DataFrame(rows).to_csv(files[0], index=False)
        sweep_curves(
            _curves(runs, combinations), list(sweep.vary), sweep.metric, sweep.targets, files[1]
        )
        table = summary_rows(runs, combinations, sweep)
        text = f"{caption(sweep, len(completed), len(labels))}\n\n{markdown_table(table)}"
    RunFolder(folder).results.write_text(text, encoding="utf-8")


def summary_rows(
    runs: Sequence[SweptRun], combinations: Mapping[str, Mapping[str, Value]], sweep: Sweep
) -> list[dict[str, str]]:
    """One line per combination that has completed runs."""
    stepped = any(r.course is not None and np.isfinite(r.course.steps).any() for r in runs)
    rows = []
    for name, values in combinations.items():
        own = [run.course for run in runs if run.name == name]
        if not own:
            continue
        row = {key: shown(value) for key, value in values.items()} | {"seeds": str(len(own))}
        for target in sweep.targets:
            found = [_reached(course, target, sweep.lower) for course in own]
            row[f"rounds to {target:g}"] = _mean_cell([r for r, _ in found])
            if stepped:
                row[f"local steps to {target:g}"] = _mean_cell([s for _, s in found])
        known = [course for course in own if course is not None]
        best = [(course, course.best(sweep.lower)) for course in known]
        row["best"] = mean_and_spread(c.values[i] for c, i in best).text(DIGITS)
        row["at round"] = _short(mean_and_spread(float(c.rounds[i]) for c, i in best).mean)
        row["last"] = mean_and_spread(c.values[-1] for c in known).text(DIGITS)
        rows.append(row)
    return rows


def caption(sweep: Sweep, completed: int, wanted: int) -> str:
    """What the table's numbers are, and what they are not."""
    bound = "most" if sweep.lower else "least"
    parts = []
    if sweep.targets:
        parts.append(
            f"Rounds to a target: the first evaluated round whose `{sweep.metric}` is at {bound} the target, as "
            "the mean over the seeds that reach it; - where none does."
        )
    parts.append(
        f"`{sweep.metric}` ({'lower' if sweep.lower else 'higher'} is better) is read in every evaluated round; "
        "best is the best of them, with the first round that has it."
    )
    if "unseen" in sweep.metric and sweep.metric.startswith("val"):
        parts.append(
            "This is the published protocol, in which the split that is reported also decides which round and which "
            "setting are best: no split is left untouched."
        )
    if completed < wanted:
        parts.append(f"{completed} of {wanted} runs are completed.")
    return " ".join(parts)


def _swept(folder: Path, label: str, frames: RunFrames, metric: str) -> SweptRun:
    seed = read_stored_config(RunFolder(folder / label))["seed"]
    course = course_of(frames.rounds, frames.closing, metric)
    return SweptRun(label, variant_of(label), int(seed), course)


def _lines(
    run: SweptRun, values: Mapping[str, Value], sweep: Sweep
) -> list[dict[str, Value | None]]:
    """One line per target, or one without any; None where the run does not get there."""
    lines: list[dict[str, Value | None]] = []
    course = run.course
    for target in sweep.targets or (math.nan,):
        rounds, steps = _reached(course, target, sweep.lower)
        line: dict[str, Value | None] = {"run": run.label, **values, "seed": run.seed}
        line |= {"metric": sweep.metric, "target": target, "rounds": rounds, "local-steps": steps}
        if course is not None:
            best = course.best(sweep.lower)
            line |= {"best": course.values[best], "best-round": int(course.rounds[best])}
            line |= {"last": course.values[-1]}
        lines.append(line)
    return lines


def _reached(course: Course | None, target: float, lower: bool) -> tuple[float, float]:
    """Round and local steps at which the target is reached; NaN where it is not, or not known."""
    place = None if course is None else course.reached(target, lower)
    if course is None or place is None:
        return math.nan, math.nan
    return float(course.rounds[place]), float(course.steps[place])


def _mean_cell(values: Sequence[float]) -> str:
    """Mean over the seeds that have a value, and how many these are if not all."""
    spread = mean_and_spread(values)
    if spread.n == 0:
        return "-"
    some = f" ({spread.n} of {len(values)} seeds)" if spread.n < len(values) else ""
    return f"{_short(spread.mean)}{some}"


def _short(value: float) -> str:
    """One decimal, if there is one to show."""
    return "-" if math.isnan(value) else f"{value:.1f}".removesuffix(".0")


def _curves(
    runs: Sequence[SweptRun], combinations: Mapping[str, Mapping[str, Value]]
) -> dict[tuple[str, ...], pd.DataFrame]:
    parts: dict[tuple[str, ...], list[pd.DataFrame]] = {}
    for run in runs:
        if run.course is not None:
            frame = pd.DataFrame({"round": run.course.rounds, "value": run.course.values})
            setting = tuple(shown(value) for value in combinations[run.name].values())
            parts.setdefault(setting, []).append(frame.assign(run=run.label))
    return {setting: pd.concat(frames, ignore_index=True) for setting, frames in parts.items()}


def _unknown_metric(metric: str, known: Sequence[str], name: str) -> str:
    close = difflib.get_close_matches(metric, known, n=1)
    hint = f"did you mean `{close[0]}`? " if close else ""
    listed = ", ".join(f"`{m}`" for m in known) or "none"
    return (
        f"No completed run recorded the metric `{metric}`: {hint}recorded are {listed}. "
        f"`fedsuite sweep --resume {name} --metric NAME` writes the table without playing anything again.\n"
    )
