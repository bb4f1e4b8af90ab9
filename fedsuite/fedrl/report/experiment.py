"""Several FedRL runs beside each other: one table, as the paper's tables 1 and 2, and drawings.

<experiment>/results.md, results.csv   scores in the test, with and without noise; mean and spread over seeds and folds
<experiment>/learning.png              score and reward in the validations, over gradient steps
<experiment>/sweep.png                 score and reward in the test over the one number in which variants differ

Runs that differ in nothing but seed and fold are one row; variants of different folds are named
NAME-fold0, NAME-fold1 and so on. A variant that is called after its method has the paper's name alone.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.metrics import WORLDS, metrics_of
from fedsuite.fedrl.report.run import (
    CHANCE,
    NOTES,
    FedRLOutcome,
    draw_validations,
    outcomes_of,
    row_name,
    run_away,
)
from fedsuite.reports.outcomes import EMPTY, Column, column_of, grouped, spread_of, table, write_csv
from fedsuite.reports.plots import learning_curves
from fedsuite.reports.tables import markdown_table
from fedsuite.runs.folder import variant_of
from fedsuite.settings.config import to_flat
from fedsuite.settings.metrics import Metrics
from fedsuite.storage.escaping import in_markdown

# Runs of a variant differ in the first two; the others are places.
PASSED_OVER = {
    "seed", "data.fold", "name", "results-dir", "resume", "roster", "data.cache-dir", "federation.method",
}  # fmt: skip
LEAST_SWEEP = 3  # values of a number
NO_GUARANTEE = "none"
_FOLD = re.compile(r"[-._]fold-?\d+$")
Groups = Mapping[str, Sequence[FedRLOutcome]]


def write_comparison(folder: Path, runs: Mapping[str, FedRLConfig]) -> None:
    """`runs`: <variant>, <variant>/seed-<s> or seed-<s> -> settings of a completed run at <folder>/<name>."""
    groups = named(folder, runs)
    write_csv(folder / "results.csv", groups, "method")
    worlds = [w for w in WORLDS if any(own[0].config.world.kind == w for own in groups.values())]
    texts = []
    for world in worlds:
        own = {name: g for name, g in groups.items() if g[0].config.world.kind == world}
        texts.append(f"{markdown_table(scores_table(own))}\n{NOTES[world]}\n")
        if not any(g[0].config.federation.method == "random" for g in own.values()):
            texts.append(f"{CHANCE}\n")
        away = {o.run: line for g in own.values() for o in g for line in run_away(o)}
        texts += [f"{in_markdown(run)}: {line}\n" for run, line in away.items()]
        suffix = "" if len(worlds) == 1 else f"-{world}"
        draw_learning(own, folder / f"learning{suffix}.png")
        draw_sweep(own, folder / f"sweep{suffix}.png")
    (folder / "results.md").write_text("\n".join(texts), encoding="utf-8")


def named(folder: Path, runs: Mapping[str, FedRLConfig]) -> dict[str, list[FedRLOutcome]]:
    """Tests that repeat each other, by the paper's name and, where that does not say all, the variant's."""
    variants = {label: _FOLD.sub("", variant_of(label)) for label in runs}
    pairs = {(variants[label], config.federation.method) for label, config in runs.items()}
    methods = [method for _, method in pairs]
    found = []
    for label, config in runs.items():
        variant, method = variants[label], config.federation.method
        says_all = variant in ("", method) or methods.count(method) == 1
        more = "" if says_all else f" ({variant})"
        for outcome in outcomes_of(config, folder / label, label):
            found.append(replace(outcome, name=outcome.name + more))
    return grouped(found)


def scores_table(groups: Groups) -> list[dict[str, str]]:
    """One row per group, in the order of the paper's rows."""
    groups = dict(sorted(groups.items(), key=lambda g: g[1][0].place))
    columns = [
        *map(column_of, _metrics(groups).shown("experiment")),
        Column("runs", text=lambda own: str(len(own))),
        Column("best round", text=lambda own: _mean(own, "best-round")),
        Column("gradient steps", text=lambda own: _mean(own, "gradient-steps")),
    ]
    epsilons = Column("epsilon", text=_epsilon)
    if any(epsilons.cell(own) not in (EMPTY, NO_GUARANTEE) for own in groups.values()):
        columns.append(epsilons)
    return table(groups, columns, "method")


def _mean(outcomes: Sequence[FedRLOutcome], metric: str) -> str:
    """A mean of counts as whole number; "-" where nothing was trained."""
    mean = spread_of(outcomes, metric).mean
    return f"{mean:,.0f}" if mean else EMPTY


def _epsilon(outcomes: Sequence[FedRLOutcome]) -> str:
    """Of all that the worst-off party of any run released; "-" where nothing is exchanged."""
    statements = [s for o in outcomes if (s := o.privacy) is not None]
    if not statements:
        return EMPTY
    if any(s.obstacles for s in statements):
        return NO_GUARANTEE
    return f"{max(max(s.epsilons.values()) for s in statements):.3g}"


def _learners(groups: Groups) -> list[FedRLOutcome]:
    return [o for own in groups.values() for o in own if o.config.federation.trains]


def draw_learning(groups: Groups, path: Path) -> None:
    """Validations of all runs that learn, named after their first test."""
    first: dict[str, FedRLOutcome] = {}
    for outcome in _learners(groups):
        first.setdefault(outcome.run, outcome)
    # Rounds of episodes have other numbers of steps with every seed.
    by_round = any(o.config.learning.round_unit == "episodes" for o in first.values())
    if first:
        draw_validations(list(first.values()), path, by_round, _levels(groups))


def draw_sweep(groups: Groups, path: Path) -> None:
    """Tests over the one number in which the runs differ, one line per method and noise; nothing if there is none."""
    learners = _learners(groups)
    key = swept_key([o.config for o in learners])
    if key is None:
        return
    score, reward = _metrics(groups).curves
    points: dict[str, list[dict[str, float]]] = {}
    for o in sorted(learners, key=lambda o: o.place):
        point = {
            "x": float(to_flat(o.config)[key]),
            "score": score.scale * o.metrics[score.name],
            "reward": o.metrics[reward.name],
        }
        points.setdefault(row_name(o.config, o.noisy), []).append(point)
    lines = {name: pd.DataFrame(own) for name, own in points.items()}
    panels = {"score": score.heading + score.percent, "reward": reward.curve}
    levels, label = _levels(groups), key.rpartition(".")[2]
    learning_curves(lines, panels, path, x="x", x_label=label, levels=levels, marked=True)


def swept_key(configs: Sequence[FedRLConfig]) -> str | None:
    """The key that alone differs between runs of a method, if it is a number of at least three values."""
    tables = [to_flat(config) for config in configs]
    values = {key: {t[key] for t in tables} for key in to_flat(FedRLConfig())}
    varied = [k for k, found in values.items() if len(found) > 1 and k not in PASSED_OVER]
    if len(varied) != 1:
        return None
    (key,) = varied
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values[key])
    return key if numbers and len(values[key]) >= LEAST_SWEEP else None


def _metrics(groups: Groups) -> Metrics:
    """Of the runs' one world."""
    return metrics_of(next(iter(groups.values()))[0].config)


def _levels(groups: Groups) -> dict[str, tuple[float, float]]:
    """Score and reward, in the test, of what does not learn."""
    score, reward = _metrics(groups).curves
    return {
        name: (score.scale * spread_of(own, score.name).mean, spread_of(own, reward.name).mean)
        for name, own in groups.items()
        if not own[0].config.federation.trains
    }
