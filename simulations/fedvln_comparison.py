"""Several FedVLN runs beside each other: a table for every stage among them, and learning curves.

<experiment>/results.md                 agents trained (or augmented) in seen houses as in Tables 2 and 3 of Zhou & Wang
                                        (2022), speakers as in Tables 4 and 1, pre-exploration as in Table 6
<experiment>/results.csv                one line per run, with every score
<experiment>/learning.png               headline score over rounds by variant; learning-<stage>.png if stages are several

Means and sample standard deviations are over seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from fedsuite.report.plots import COLOURS, learning_curves
from fedsuite.report.tables import markdown_table, mean_and_spread
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.statistics import InstructionStatistics
from fedsuite.vln.wire import VALIDATION
from simulations.fedvln_closing import CURVE_LABELS, UNSEEN
from simulations.fedvln_outcomes import (
    PRE_EXPLORE,
    SPEAKER_STAGE,
    SPLIT_NAMES,
    Outcome,
    headline,
    outcome_of,
    privacy_text,
    score_cells,
    selection_text,
)
from simulations.fedvln_speaker_closing import (
    BLEU_NOTE,
    NOTHING_SPOKEN,
    STATISTICS_NOTE,
    read_spoken,
    statistic_cells,
    statistics_of,
)
from simulations.variants import variant_of

STAGES = {
    "train": "Agents trained in seen houses",
    "augment": "Agents trained in seen houses, with generated instructions as well",
    SPEAKER_STAGE: "Speakers",
    PRE_EXPLORE: "Pre-exploration of unseen houses",
}
AGENT_TABLE = ("ne", "osr", "spl", "sr", "cls", "ndtw")
SPEAKER_TABLE = ("bleu-1", "bleu-2", "bleu-3", "bleu-4", "bleu-4-published")
MOST_CURVES = len(COLOURS)  # more cannot be told apart
Statistics = Mapping[tuple[str, str], InstructionStatistics]


@dataclass(frozen=True)
class Group:
    """Runs of one variant and stage, by label."""

    name: str
    stage: str
    runs: Mapping[str, Outcome]
    folder: Path

    @property
    def outcomes(self) -> list[Outcome]:
        """The runs' outcomes."""
        return list(self.runs.values())

    @cached_property
    def statistics(self) -> Mapping[str, Statistics]:
        """Label -> statistics of what was said in that run; runs whose houses keep it elsewhere are left out."""
        spoken = {label: read_spoken(self.folder / label) for label in self.runs}
        return {label: statistics_of(own) for label, own in spoken.items() if own}

    def cells(self, split: str, columns: Sequence[str]) -> dict[str, str]:
        """Scores of the results, over seeds."""
        return score_cells([o.scores for o in self.outcomes], split, columns)

    def selection(self) -> str:
        """How each selection found in the group came to its rounds."""
        found: dict[str, list[int]] = {}
        for o in self.outcomes:
            found.setdefault(o.config.selection, []).append(o.selected)
        return "; ".join(selection_text(kind, rounds) for kind, rounds in found.items())


def write_comparison(folder: Path, runs: Mapping[str, FedVLNConfig]) -> None:
    """`runs`: <variant>, <variant>/seed-<s> or seed-<s> -> settings of a completed run at <folder>/<name>."""
    groups = grouped(folder, runs)
    frame = pd.DataFrame([_csv_row(g, label) for g in groups for label in g.runs])
    frame.to_csv(folder / "results.csv", index=False)
    stages = [stage for stage in STAGES if any(g.stage == stage for g in groups)]
    texts = []
    for stage in stages:
        own = [g for g in groups if g.stage == stage]
        heading = f"## {STAGES[stage]}\n\n" if len(stages) > 1 else ""
        texts.append(heading + stage_text(stage, own))
        suffix = f"-{stage}" if len(stages) > 1 else ""
        draw_curves(own, folder / f"learning{suffix}.png")
    (folder / "results.md").write_text("\n".join(texts), encoding="utf-8")


def grouped(folder: Path, runs: Mapping[str, FedVLNConfig]) -> list[Group]:
    """Variants in the order given; where only seeds differ, the one variant is called after the folder."""
    found: dict[tuple[str, str], dict[str, Outcome]] = {}
    for label, config in runs.items():
        key = (variant_of(label) or folder.name, config.stage)
        found.setdefault(key, {})[label] = outcome_of(config, folder / label)
    return [Group(name, stage, own, folder) for (name, stage), own in found.items()]


def stage_text(stage: str, groups: Sequence[Group]) -> str:
    """Table and notes of one stage."""
    if stage == SPEAKER_STAGE:
        return _speakers_text(groups)
    return _pre_exploration_text(groups) if stage == PRE_EXPLORE else _agents_text(groups)


def _agents_text(groups: Sequence[Group]) -> str:
    """As Tables 2 and 3: one table per split."""
    parts = []
    for split in _splits(groups):
        rows = [_head(g) | g.cells(split, AGENT_TABLE) | _steps(g) for g in groups]
        parts.append(f"{SPLIT_NAMES[split]}:\n\n{markdown_table(rows)}")
    return "\n".join([*parts, _selections(groups)])


def _speakers_text(groups: Sequence[Group]) -> str:
    """As Table 4, then Table 1."""
    parts = []
    for split in _splits(groups):
        rows = [_head(g) | g.cells(split, SPEAKER_TABLE) | _steps(g) for g in groups]
        parts.append(f"{SPLIT_NAMES[split]}:\n\n{markdown_table(rows)}")
    parts += [BLEU_NOTE, _selections(groups)]
    tables = [rows for split in VALIDATION if (rows := _statistics_rows(groups, split))]
    parts += [markdown_table(rows) for rows in tables]
    parts.append(STATISTICS_NOTE if tables else NOTHING_SPOKEN)
    return "\n".join(parts)


def _statistics_rows(groups: Sequence[Group], split: str) -> list[dict[str, str]]:
    """Human instructions once, over all runs' houses; generated ones by variant."""
    everything = [s for g in groups for s in g.statistics.values() if (split, "human") in s]
    if not everything:
        return []
    human = list(dict.fromkeys(s[split, "human"] for s in everything))
    rows = [{"instructions": f"{SPLIT_NAMES[split]}, human"} | statistic_cells(human)]
    for g in groups:
        said = [s[split, "generated"] for s in g.statistics.values() if (split, "generated") in s]
        if said:
            rows.append({"instructions": f"{SPLIT_NAMES[split]}, {g.name}"} | statistic_cells(said))
    return rows


def _pre_exploration_text(groups: Sequence[Group]) -> str:
    """As Table 6, with what the houses' agents scored before."""
    rows = []
    before = _distinct_starts(groups)
    if before:
        blank = {"upload MB": "-", "privacy": "-"} | dict.fromkeys(_steps(groups[0]), "-")
        cells = score_cells(before, UNSEEN, AGENT_TABLE)
        rows.append({"run": "before", "seeds": str(len(before))} | cells | blank)
    for g in groups:
        upload = mean_and_spread(o.upload_mb for o in g.outcomes if o.upload_mb is not None)
        levels = sorted({str(o.privacy) for o in g.outcomes if o.privacy is not None})
        left = {"upload MB": upload.text(2), "privacy": "/".join(levels) or "-"}
        rows.append(_head(g) | g.cells(UNSEEN, AGENT_TABLE) | left | _steps(g))
    notes = (
        f"{privacy_text()} Upload: of agents, per client and round; pooled data are not in it.\n"
    )
    return "\n".join([f"val-unseen:\n\n{markdown_table(rows)}", notes, _selections(groups)])


def _distinct_starts(groups: Sequence[Group]) -> list[Mapping[str, float]]:
    """Scores before round 1, once per seed: variants of one seed mostly start from the same agents.

    Sums over one client or over several differ in the last digits.
    """
    starts = {
        (o.config.seed, tuple(sorted((k, round(v, 9)) for k, v in o.before.items()))): o.before
        for g in groups
        for o in g.outcomes
        if o.before
    }
    return list(starts.values())


def _head(group: Group) -> dict[str, str]:
    return {"run": group.name, "seeds": str(len(group.runs))}


def _steps(group: Group) -> dict[str, str]:
    steps = mean_and_spread(float(o.local_steps) for o in group.outcomes)
    return {"local steps": f"{steps.mean:,.0f}"}


def _splits(groups: Sequence[Group]) -> list[str]:
    return [s for s in VALIDATION if any(s in o.splits for g in groups for o in g.outcomes)]


def _selections(groups: Sequence[Group]) -> str:
    """One line per variant, or one for all if it is the same."""
    found = {g.name: g.selection() for g in groups}
    if len(set(found.values())) == 1:
        return f"Scores shown: {groups[0].selection()}.\n"
    lines = [f"- {name}: {text}" for name, text in found.items()]
    return "Scores shown:\n\n" + "\n".join(lines) + "\n"


def _csv_row(group: Group, label: str) -> dict[str, object]:
    """One run with all its numbers."""
    o = group.runs[label]
    row: dict[str, object] = {
        "variant": group.name,
        "run": label,
        "seed": o.config.seed,
        "stage": o.config.stage,
        "method": o.config.method,
        "selection": o.config.selection,
        "selected-round": o.selected,
        "local-steps": o.local_steps,
        "modules-sent": o.modules_sent,
        "houses-per-client": o.houses_per_client,
        "upload-mb": o.upload_mb,
        "privacy": o.privacy,
        **o.scores,
        **{f"before.{k}": v for k, v in o.before.items()},
    }
    if group.stage == SPEAKER_STAGE:
        for (split, source), own in group.statistics.get(label, {}).items():
            row |= {f"{split}.{source}.{k}": v for k, v in asdict(own).items()}
    return row


def draw_curves(groups: Sequence[Group], path: Path) -> None:
    """Headline score in unseen houses (seen ones if there are none) over rounds, unless variants are too many."""
    metric = headline(groups[0].stage)
    for split in reversed(VALIDATION):
        name = f"{split}.{metric}"
        curves = {
            g.name: pd.concat(
                [o.frames.rounds.assign(run=label) for label, o in g.runs.items()],
                ignore_index=True,
            )
            for g in groups
            if any(name in o.frames.rounds for o in g.outcomes)
        }
        if curves and len(curves) <= MOST_CURVES:
            label = f"{CURVE_LABELS[metric]}, {SPLIT_NAMES[split]}"
            learning_curves(curves, name, path, y_label=label)
            return
