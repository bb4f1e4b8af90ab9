"""Several FedRL runs beside each other: one table, as the paper's tables 1 and 2, and drawings.

<experiment>/results.md, results.csv   scores in the test, with and without noise; mean and spread over seeds and folds
<experiment>/learning.png              score and reward in the validations, over gradient steps
<experiment>/sweep.png                 score and reward in the test over the one number in which variants differ

Runs that differ in nothing but seed and fold are one row; variants of different folds are named
NAME-fold0, NAME-fold1 and so on. A variant that is called after its method has the paper's name alone.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedsuite.config import key_of
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.report.fedrl import MOST_LINES, plot_scores
from fedsuite.report.tables import markdown_table, mean_and_spread
from simulations.fedrl_closing import (
    FIXED,
    MEASURES,
    NAMES,
    NOTES,
    REWARD,
    Outcome,
    outcome_of,
    row_name,
    score_label,
    validations,
)
from simulations.variants import variant_of

REPETITION = {"seed": 0, "fold": 0}  # runs that differ in these alone are one row
PLACES = {"name": "", "results_dir": "", "resume": "", "cache_dir": ""}
LEAST_SWEEP = 3  # values of a number
_FOLD = re.compile(r"[-._]fold-?\d+$")


@dataclass(frozen=True)
class Group:
    """Runs of equal settings but for seed and fold, by label. `alone`: no other group has its method."""

    variant: str
    runs: Mapping[str, Outcome]
    alone: bool

    @property
    def config(self) -> FedRLConfig:
        """Settings of the first run."""
        return next(iter(self.runs.values())).config

    @property
    def tests(self) -> list[bool]:
        """Which tests the runs have: without noise, with noise."""
        return [noisy for noisy in (False, True) if all(noisy in r.tests for r in self.runs.values())]  # fmt: skip

    def name(self, noisy: bool) -> str:
        """The paper's name of the row, with the variant's unless that says the same."""
        paper = row_name(self.config, noisy)
        says_more = self.variant not in ("", self.config.method)
        return f"{paper} ({self.variant})" if says_more and not self.alone else paper

    def spread(self, metric: str, noisy: bool, scale: float, digits: int) -> str:
        """Mean and sample standard deviation over the runs."""
        return mean_and_spread(r.tests[noisy][metric] for r in self.runs.values()).text(digits, scale)  # fmt: skip


def write_comparison(folder: Path, runs: Mapping[str, FedRLConfig]) -> None:
    """`runs`: <variant>, <variant>/seed-<s> or seed-<s> -> settings of a completed run at <folder>/<name>."""
    outcomes = {label: outcome_of(config, folder / label) for label, config in runs.items()}
    groups = grouped(outcomes)
    csv = [row for group in groups for row in _csv_rows(group)]
    pd.DataFrame(csv).to_csv(folder / "results.csv", index=False)
    worlds = [w for w in MEASURES if any(g.config.world == w for g in groups)]
    texts = []
    for world in worlds:
        own = [g for g in groups if g.config.world == world]
        texts.append(f"{markdown_table(table(own))}\n{NOTES[world]}\n")
        suffix = "" if len(worlds) == 1 else f"-{world}"
        draw_learning(own, folder / f"learning{suffix}.png")
        draw_sweep(own, folder / f"sweep{suffix}.png")
    (folder / "results.md").write_text("\n".join(texts), encoding="utf-8")


def grouped(outcomes: Mapping[str, Outcome]) -> list[Group]:
    """Runs that repeat each other, in the order given."""
    found: dict[tuple[str, FedRLConfig], dict[str, Outcome]] = {}
    for label, outcome in outcomes.items():
        variant = _FOLD.sub("", variant_of(label))
        settings = dataclasses.replace(outcome.config, **{**REPETITION, **PLACES})  # type: ignore[arg-type]
        found.setdefault((variant, settings), {})[label] = outcome
    methods = [settings.method for _, settings in found]
    return [
        Group(variant, own, methods.count(settings.method) == 1)
        for (variant, settings), own in found.items()
    ]


def table(groups: Sequence[Group]) -> list[dict[str, str]]:
    """One row per group and test, in the order of the paper's rows."""
    rows = []
    private = any(g.config.method == "fedrl" and not _obstacles(g) for g in groups)
    order = list(NAMES)
    for group, noisy in sorted(
        ((g, noisy) for g in groups for noisy in g.tests),
        key=lambda pair: (order.index(pair[0].config.method), pair[1]),
    ):
        row = {"method": group.name(noisy)}
        for m in MEASURES[group.config.world]:
            row[m.title] = group.spread(m.metric, noisy, m.scale, m.digits)
        row["runs"] = str(len(group.runs))
        row["best round"] = _mean(r.best_round for r in group.runs.values())
        row["gradient steps"] = _mean(r.best_steps for r in group.runs.values())
        if private:
            row["epsilon"] = _epsilon(group)
        rows.append(row)
    return rows


def _mean(values: Iterable[int]) -> str:
    """A mean of counts as whole number; "-" where nothing was trained."""
    found = [float(v) for v in values]
    return f"{sum(found) / len(found):,.0f}" if any(found) else "-"


def _obstacles(group: Group) -> bool:
    """Whether some run of the group lacks a guarantee."""
    statements = [r.privacy for r in group.runs.values()]
    return any(s is None or s.obstacles for s in statements)


def _epsilon(group: Group) -> str:
    """Of all that the worst-off party of any run released; "none" without a guarantee, "-" where nothing is exchanged."""
    statements = [s for r in group.runs.values() if (s := r.privacy) is not None]
    if not statements:
        return "-"
    if any(s.obstacles for s in statements):
        return "none"
    return f"{max(max(s.epsilons.values()) for s in statements):.3g}"


def _csv_rows(group: Group) -> list[dict[str, object]]:
    """One line per run and test, with every metric."""
    return [
        {
            "method": group.name(noisy),
            "run": label,
            "seed": outcome.config.seed,
            "fold": outcome.config.fold,
            "test-noise": noisy,
            **outcome.tests[noisy],
            "best-round": outcome.best_round,
            "gradient-steps": outcome.best_steps,
            **{f"released-{role}": count for role, count in outcome.released.items()},
        }
        for noisy in group.tests
        for label, outcome in group.runs.items()
    ]


def draw_learning(groups: Sequence[Group], path: Path) -> None:
    """Validations of all groups that learn, unless they are too many for one drawing."""
    learners = [g for g in groups if g.config.method not in FIXED]
    by_round = any(g.config.round_unit == "episodes" for g in learners)  # steps differ by seed
    parts = [
        validations(outcome, g.name(g.config.test_noise == "noisy"), by_round)
        for g in learners
        for outcome in g.runs.values()
    ]
    parts = [p for p in parts if len(p)]
    if not parts or len(learners) > MOST_LINES:
        return
    plot_scores(
        pd.concat(parts, ignore_index=True), path,
        x_label="round" if by_round else "gradient steps",
        score_label=score_label(groups[0].config.world), levels=_levels(groups),
    )  # fmt: skip


def draw_sweep(groups: Sequence[Group], path: Path) -> None:
    """Tests over the one number in which the groups differ, one line per method and noise; nothing if there is none."""
    learners = [g for g in groups if g.config.method not in FIXED]
    key = swept_key([g.config for g in learners])
    if key is None:
        return
    score = MEASURES[groups[0].config.world][0]
    order = list(NAMES)
    points = pd.DataFrame(
        [
            {
                "line": row_name(g.config, noisy),
                "x": float(getattr(g.config, key)),
                "score": score.scale * outcome.tests[noisy][score.metric],
                "reward": outcome.tests[noisy][REWARD.metric],
            }
            for g in sorted(learners, key=lambda g: order.index(g.config.method))
            for noisy in g.tests
            for outcome in g.runs.values()
        ]
    )
    plot_scores(
        points, path, x_label=key_of(key), score_label=score.title,
        levels=_levels(groups), is_sweep=True,
    )  # fmt: skip


def swept_key(configs: Sequence[FedRLConfig]) -> str | None:
    """The field that alone differs between runs of a method, if it is a number of at least three values."""
    passed_over = {*REPETITION, *PLACES, "method"}
    varied = {
        f.name: {getattr(c, f.name) for c in configs}
        for f in dataclasses.fields(FedRLConfig)
        if f.name not in passed_over
    }
    varied = {name: values for name, values in varied.items() if len(values) > 1}
    if len(varied) != 1:
        return None
    ((name, values),) = varied.items()
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return name if numbers and len(values) >= LEAST_SWEEP else None


def _levels(groups: Sequence[Group]) -> dict[str, tuple[float, float]]:
    """Score and reward, in the test, of what does not learn."""
    found = {}
    for group in groups:
        if group.config.method in FIXED:
            metrics = [r.tests[False] for r in group.runs.values()]
            score = MEASURES[group.config.world][0]
            found[group.name(False)] = (
                score.scale * mean_and_spread(m[score.metric] for m in metrics).mean,
                mean_and_spread(m[REWARD.metric] for m in metrics).mean,
            )
    return found
