"""Several FedVLN runs beside each other: a table for every stage among them, and learning curves.

<experiment>/results.md                 agents trained (or augmented) in seen houses as in Tables 2 and 3 of Zhou & Wang
                                        (2022), speakers as in Tables 4 and 1, pre-exploration as in Table 6
<experiment>/results.csv                one line per run, with every score
<experiment>/learning.png               headline score over rounds by variant; learning-<stage>.png if stages are several

Means and sample standard deviations are over seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fedsuite.reports.outcomes import (
    SEEDS,
    Column,
    grouped,
    line_name,
    rounds_of,
    table,
    write_csv,
)
from fedsuite.reports.plots import MOST_CURVES, learning_curves
from fedsuite.reports.sampled import sampled_text
from fedsuite.reports.tables import markdown_table
from fedsuite.settings.metrics import Metric
from fedsuite.storage.escaping import in_markdown
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.message_keys import VALIDATION
from fedsuite.vln.metrics import SPEAKER_STAGE, metrics_of
from fedsuite.vln.report.outcome import (
    PRE_EXPLORE,
    PRIVACY,
    SPLIT_NAMES,
    TEXTS,
    UNSEEN,
    WORK,
    FedVLNOutcome,
    headline,
    outcome_of,
    privacy_text,
    score_columns,
    selection_text,
)
from fedsuite.vln.report.speaker import statistics_rows, with_statistics

STAGES: Mapping[str, str] = TEXTS["stages"]
COURSE = (Column("rounds", "selected-round", 0, with_spread=False), *WORK)
UPLOAD = Column("upload MB", "upload-mb")
Groups = Mapping[str, Sequence[FedVLNOutcome]]


def write_comparison(folder: Path, runs: Mapping[str, FedVLNConfig]) -> None:
    """`runs`: <variant>, <variant>/seed-<s> or seed-<s> -> settings of a completed run at <folder>/<name>."""
    groups = grouped(_outcome(folder, label, config) for label, config in runs.items())
    write_csv(folder / "results.csv", groups)
    present = {own[0].config.stage for own in groups.values()}
    texts = []
    for stage in (s for s in STAGES if s in present):
        own = {name: group for name, group in groups.items() if group[0].config.stage == stage}
        heading, suffix = (
            ("", "") if len(present) == 1 else (f"## {STAGES[stage]}\n\n", f"-{stage}")
        )
        texts.append(heading + stage_text(stage, own))
        draw_curves(own, folder / f"learning{suffix}.png")
    chosen = any(config.evaluation.selection != "last" for config in runs.values())
    every = (o for own in groups.values() for o in own)
    told = dict.fromkeys(filter(None, (sampled_text(o.frames, chosen) for o in every)))
    texts += [f"{line}\n" for line in told]
    (folder / "results.md").write_text("\n".join(texts), encoding="utf-8")


def _outcome(folder: Path, label: str, config: FedVLNConfig) -> FedVLNOutcome:
    outcome = outcome_of(config, folder / label, line_name(folder, label), label)
    return with_statistics(outcome, folder / label) if config.stage == SPEAKER_STAGE else outcome


def stage_text(stage: str, groups: Groups) -> str:
    """Tables and notes of one stage."""
    if stage == PRE_EXPLORE:
        return f"{_pre_exploration_text(groups)}\n{_selections(groups)}"
    if stage != SPEAKER_STAGE:
        return "\n".join([*_score_tables(groups), _selections(groups)])
    parts = [*_score_tables(groups), TEXTS["bleu_note"], _selections(groups)]
    statistics = [rows for split in VALIDATION if (rows := _statistics_rows(groups, split))]
    note = TEXTS["statistics_note" if statistics else "nothing_spoken"]
    return "\n".join([*parts, *map(markdown_table, statistics), note])


def _metrics(groups: Groups) -> list[Metric]:
    """Of any of the runs, in the order of the paper's columns."""
    every = (o.config for own in groups.values() for o in own)
    return list({m.name: m for c in every for m in metrics_of(c).shown("experiment")}.values())


def _score_tables(groups: Groups) -> list[str]:
    """One table per split, as Tables 2 and 3, or Table 4."""
    scored = {split for own in groups.values() for o in own for split in o.splits}
    return [
        f"{SPLIT_NAMES[split]}:\n\n"
        + markdown_table(table(groups, (SEEDS, *score_columns(split, _metrics(groups)), *COURSE)))
        for split in VALIDATION
        if split in scored
    ]


def _statistics_rows(groups: Groups, split: str) -> list[dict[str, str]]:
    """As Table 1: human instructions once, over all runs' houses; generated ones by variant."""
    human: dict[tuple[float, ...], FedVLNOutcome] = {}
    for outcome in (o for own in groups.values() for o in own):
        found = tuple(v for k, v in outcome.metrics.items() if k.startswith(f"{split}.human."))
        human.setdefault(found, outcome)
    lines = [(name, "generated", own) for name, own in groups.items()]
    return statistics_rows(split, [("human", "human", list(human.values())), *lines])


def _pre_exploration_text(groups: Groups) -> str:
    """As Table 6, with what the houses' agents scored before."""
    starts = _distinct_starts(groups)
    lines = {**({"before": starts} if starts else {}), **groups}
    columns = (SEEDS, *score_columns(UNSEEN, _metrics(groups)), UPLOAD, PRIVACY, *COURSE)
    upload = "Upload: of agents, per client and round; pooled data are not in it."
    return f"val-unseen:\n\n{markdown_table(table(lines, columns))}\n{privacy_text()} {upload}\n"


def _distinct_starts(groups: Groups) -> list[FedVLNOutcome]:
    """Scores before round 1, once per seed; sums over one client or over several differ in the last digits."""
    starts = {
        (o.config.seed, *sorted((k, round(v, 9)) for k, v in o.before.items())): o
        for own in groups.values()
        for o in own
        if o.before
    }
    return [replace(o, metrics=o.before) for o in starts.values()]


def _selections(groups: Groups) -> str:
    """How the rounds shown came to be chosen: one line per variant, or one for all if it is the same."""
    found = {}
    for name, own in groups.items():
        rounds: dict[str, list[int]] = {}
        for o in own:
            rounds.setdefault(o.config.evaluation.selection, []).append(o.selected)
        found[name] = "; ".join(selection_text(kind, which) for kind, which in rounds.items())
    if len(set(found.values())) == 1:
        return f"Scores shown: {next(iter(found.values()))}.\n"
    lines = [f"- {in_markdown(name)}: {text}" for name, text in found.items()]
    return "Scores shown:\n\n" + "\n".join(lines) + "\n"


def draw_curves(groups: Groups, path: Path) -> None:
    """Headline score in unseen houses (seen ones if there are none) over rounds, unless variants are too many."""
    metric = headline(next(iter(groups.values()))[0].config)
    for split in reversed(VALIDATION):
        name = f"{split}.{metric.name}"
        curves = {k: rounds for k, rounds in rounds_of(groups).items() if name in rounds}
        if curves and len(curves) <= MOST_CURVES:
            panels = {name: f"{metric.curve}, {SPLIT_NAMES[split]}"}
            learning_curves(curves, panels, path)
            return
