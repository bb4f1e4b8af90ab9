"""What a sweep found: how soon every combination reaches the targets.

<sweep>/results.md    one line per combination, over its seeds
<sweep>/results.csv   one line per run and target
<sweep>/sweep.png     the metric over rounds
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedsuite.history import load_runs
from fedsuite.history.tidy import last_values
from fedsuite.reports.outcomes import SEEDS, Column, Outcome, grouped, table
from fedsuite.reports.rounds_to_target import Course, course_of
from fedsuite.reports.sweep_curves import sweep_curves
from fedsuite.reports.tables import markdown_table
from fedsuite.runs.folder import RunFolder, read_stored_config, variant_of
from fedsuite.settings.config import Value
from fedsuite.storage.deleting import delete_file
from fedsuite.storage.escaping import csv_text, markdown_name
from fedsuite.storage.files import as_typed
from simulations.experiments.sweep import Sweep, short_keys, shown

DIGITS = 4


@dataclass(frozen=True)
class SweptRun(Outcome):
    """name: of its combination; facts: the varied keys and the seed; course: None if it never recorded the metric."""

    course: Course | None


def write_sweep(
    folder: Path, sweep: Sweep, labels: Sequence[str], completed: Sequence[str]
) -> None:
    """labels: all runs of the sweep; completed: those to be tabulated."""
    short = short_keys(sweep.vary)
    combinations = {
        name: {short[key]: value for key, value in own.items()}
        for name, own in sweep.combinations().items()
    }
    runs = [_swept(folder, label, combinations, sweep) for label in completed]
    files = [folder / "results.csv", folder / "sweep.png"]
    if all(run.course is None for run in runs):
        for file in files:  # of an earlier metric
            delete_file(file)
        text = f"{unrecorded(folder, sweep, completed)}\n"
    else:
        lines = [line for run in runs for line in _lines(run, sweep)]
        files[0].write_text(csv_text(pd.DataFrame(lines)), encoding="utf-8")
        curves = _curves(runs, sweep)
        sweep_curves(curves, list(short.values()), sweep.metric, sweep.targets, files[1])
        groups = grouped(runs)
        shown_runs = {name: groups[name] for name in combinations if name in groups}
        rows = table(shown_runs, _columns(sweep), "combination")
        for row in rows:
            del row["combination"]  # the keys' own columns say it
        text = f"{caption(sweep, len(completed), len(labels))}\n\n{markdown_table(rows)}"
    RunFolder(folder).results.write_text(text, encoding="utf-8")


def _columns(sweep: Sweep) -> list[Column]:
    def of_key(key: str) -> Column:
        return Column(key, text=lambda runs: shown(runs[0].facts[key]))

    columns = [*map(of_key, short_keys(sweep.vary).values()), SEEDS]
    for t in sweep.targets:
        rounds, steps = _reaching(t)
        columns += [
            Column(f"rounds to {t:g}", rounds, 1, with_spread=False, stays=True),
            Column(f"local steps to {t:g}", steps, 1, with_spread=False),
        ]
    return [
        *columns,
        Column("best", "best", DIGITS),
        Column("at round", "best-round", 1, with_spread=False),
        Column("last", "last", DIGITS),
    ]


def _reaching(target: float) -> tuple[str, str]:
    """Names of the metrics of a target."""
    return f"rounds to {target}", f"local steps to {target}"


def caption(sweep: Sweep, completed: int, wanted: int) -> str:
    """What the table's numbers are, and what they are not."""
    bound, metric = "most" if sweep.lower else "least", markdown_name(sweep.metric)
    parts = []
    if sweep.targets:
        parts.append(
            f"Rounds to a target: the first evaluated round whose {metric} is at {bound} the target, as "
            "the mean over the seeds that reach it; - where none does."
        )
    parts.append(
        f"{metric} ({'lower' if sweep.lower else 'higher'} is better) is read in every evaluated round; "
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


def _swept(
    folder: Path, label: str, combinations: Mapping[str, Mapping[str, Value]], sweep: Sweep
) -> SweptRun:
    frames, name = load_runs(folder / label), variant_of(label)
    seed = int(read_stored_config(RunFolder(folder / label))["seed"])
    course = course_of(frames.rounds, frames.closing, sweep.metric)
    metrics: dict[str, float] = {}
    if course is not None:
        for target in sweep.targets:
            if (place := course.reached(target, sweep.lower)) is not None:
                there = float(course.rounds[place]), float(course.steps[place])
                metrics |= zip(_reaching(target), there, strict=True)
        best = course.best(sweep.lower)
        metrics |= {"best": course.values[best], "best-round": int(course.rounds[best])}
        metrics |= {"last": course.values[-1]}
    return SweptRun(name, label, {**combinations[name], "seed": seed}, metrics, frames, course)


def _lines(run: SweptRun, sweep: Sweep) -> list[dict[str, object]]:
    """One line per target, or one without any; None where the run does not get there."""
    found = run.metrics
    ended = {key: found[key] for key in ("best", "best-round", "last") if found}
    lines = []
    for target in sweep.targets or (None,):
        rounds, steps = (None, None) if target is None else map(found.get, _reaching(target))
        there = {"metric": sweep.metric, "target": target, "rounds": rounds, "local-steps": steps}
        lines.append({"run": run.run, **run.facts, **there, **ended})
    return lines


def _curves(runs: Sequence[SweptRun], sweep: Sweep) -> dict[tuple[str, ...], pd.DataFrame]:
    parts: dict[tuple[str, ...], list[pd.DataFrame]] = {}
    for run in runs:
        if run.course is not None:
            frame = pd.DataFrame({"round": run.course.rounds, "value": run.course.values})
            setting = tuple(shown(run.facts[key]) for key in short_keys(sweep.vary).values())
            parts.setdefault(setting, []).append(frame)
    return {setting: pd.concat(frames) for setting, frames in parts.items()}


def unrecorded(folder: Path, sweep: Sweep, completed: Sequence[str]) -> str:
    """What to say where no completed run recorded the sweep's metric; nothing where one did."""
    frames, metric = [load_runs(folder / label) for label in completed], sweep.metric
    if any(course_of(own.rounds, own.closing, metric) is not None for own in frames):
        return ""
    known = sorted({m for own in frames for m in last_values(own.rounds, own.closing)})
    close = difflib.get_close_matches(metric, known, n=1)
    hint = f"did you mean {markdown_name(close[0])}? " if close else ""
    listed = ", ".join(map(markdown_name, known)) or "none"
    return (
        f"No completed run recorded the metric {markdown_name(metric)}: {hint}recorded are {listed}. "
        f"`fedsuite sweep --resume {as_typed(folder.name)} --metric NAME` goes on, and runs nothing again that is completed."
    )
