"""What a finished FedVLN run leaves beside its history: a results table, learning curves and walks in an unseen house.

<run>/results.md        scores of the resulting agent beside those before training and, where it learns in seen houses,
                        a random walker's; in pre-exploration, what left the houses for it
<run>/learning.png      success rate over rounds in seen and unseen houses
<run>/walks.png         three walks of the resulting agent in an unseen house (not for local-only training in seen houses)
<run>/submission_*.json R2R leaderboard files, joined from the houses' own, if `submission` is set

A speaker's run has its own (simulations.fedvln_speaker_closing).
"""

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.numpy import load_file

from fedsuite.arrays import load_arrays
from fedsuite.randomness import rng_for
from fedsuite.report.houses import DrawnPath, plot_paths
from fedsuite.report.plots import learning_curves
from fedsuite.report.tables import markdown_table
from fedsuite.run_folder import RunFolder
from fedsuite.vln.baselines import random_walk_scores
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.dataset import House, join_houses
from fedsuite.vln.learner import walk_all
from fedsuite.vln.sources import Sources, open_sources
from fedsuite.vln.stages import is_personal
from fedsuite.vln.wire import VALIDATION
from simulations.fedvln_outcomes import (
    AGENT_COLUMNS,
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
from simulations.fedvln_system import initial_agent, open_house

DRAWN_WALKS = 3
UNSEEN = "val_unseen"
CURVE_LABELS = {"sr": "success rate", "bleu-2": "BLEU-2"}


def write_closing(config: FedVLNConfig, run_dir: Path) -> None:
    """Tables and plots of a run that has just completed."""
    if config.stage == SPEAKER_STAGE:
        from simulations.fedvln_speaker_closing import write_speaker_closing

        write_speaker_closing(config, run_dir)
        return
    outcome, sources = outcome_of(config, run_dir), open_sources(config)
    if config.stage == PRE_EXPLORE:
        text = pre_exploration_text(outcome)
    else:
        unseen = [open_house(config, sources, s, 0) for s in sources.unseen_scans]
        text = training_text(outcome, unseen)
    RunFolder(run_dir).results.write_text(text, encoding="utf-8")
    draw_learning(outcome, run_dir / "learning.png")
    model = _walker(config, sources, run_dir)
    if model is not None:
        _draw_walks(config, sources, model, run_dir)
    if config.submission:
        _join_submissions(run_dir)


def training_text(outcome: Outcome, unseen: list[House]) -> str:
    """The table of an agent that learnt in seen houses."""
    config = outcome.config
    start = "before" if config.start_from else "untrained"
    rows = []
    for split in outcome.splits:
        if outcome.before and outcome.selected:
            rows.append(_row(f"{split}, {start}", split, outcome.before))
        rows.append(_row(f"{split}, {config.method}", split, outcome.scores))
    if unseen:
        rng = rng_for(config.seed, "random walks")
        scores = random_walk_scores(unseen, UNSEEN, rng)
        named = {f"{UNSEEN}.{k}": v for k, v in scores.items()}
        rows.append(_row("val_unseen, random walk", UNSEEN, named))
    return f"{markdown_table(rows)}\n{_selection_line(outcome)}"


def pre_exploration_text(outcome: Outcome) -> str:
    """Mean scores of the houses' own agents, what left the houses for them, and success by house."""
    label = f"{outcome.config.method}, {outcome.config.share} shared"
    label = label if outcome.config.method == "federated" else outcome.config.method
    rows = [_row("before", UNSEEN, outcome.before)] if outcome.before and outcome.selected else []
    rows.append(_row(label, UNSEEN, outcome.scores))
    level = outcome.privacy
    disclosed = {
        "modules sent": _number(outcome.modules_sent, 0),
        "houses per client": _number(outcome.houses_per_client, 0),
        "upload MB per client and round": _number(outcome.upload_mb, 2),
        "privacy": "-" if level is None else str(level),
    }
    parts = [
        f"Houses' own agents on val-unseen, means over instructions:\n\n{markdown_table(rows)}",
        _selection_line(outcome),
        f"What leaves a house:\n\n{markdown_table([disclosed])}",
        privacy_text() + " Pooled data are not in the upload.\n",
    ]
    if houses := _house_rows(outcome):
        parts.append(f"Success rate (%) by house:\n\n{markdown_table(houses)}")
    return "\n".join(parts)


def draw_learning(outcome: Outcome, path: Path) -> None:
    """Headline metric over rounds, one curve per split; nothing if only the end was evaluated."""
    metric = headline(outcome.config.stage)
    rounds = outcome.frames.rounds
    curves = {
        SPLIT_NAMES[s]: rounds.rename(columns={f"{s}.{metric}": metric})
        for s in VALIDATION
        if f"{s}.{metric}" in rounds
    }
    if curves:
        learning_curves(curves, metric, path, y_label=CURVE_LABELS[metric])


def _row(label: str, split: str, scores: Mapping[str, float]) -> dict[str, str]:
    return {"agent": label} | score_cells([scores], split, AGENT_COLUMNS)


def _selection_line(outcome: Outcome) -> str:
    chosen = selection_text(outcome.config.selection, [outcome.selected])
    return f"Scores shown: {chosen}; {outcome.local_steps:,} local steps.\n"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _house_rows(outcome: Outcome) -> list[dict[str, str]]:
    """One line per unseen house that reported on itself both before and in the shown round."""
    clients, metric = outcome.frames.clients, f"{UNSEEN}.sr"
    if clients.empty or metric not in clients or not outcome.selected:
        return []
    scored = clients[(clients["task"] == "evaluate") & clients[metric].notna()]
    before, after = (
        scored[scored["round"] == r].drop_duplicates("name").set_index("name")
        for r in (0, outcome.selected)
    )
    first = before[metric].to_dict()
    return [
        {
            "house": str(name),
            "instructions": f"{row[f'{UNSEEN}.count']:.0f}",
            "before": f"{100 * first[name]:.2f}",
            "after": f"{100 * row[metric]:.2f}",
        }
        for name, row in after.iterrows()
        if name in first
    ]


def _walker(config: FedVLNConfig, sources: Sources, run_dir: Path) -> Path | None:
    """The model that walks in the first unseen house: its own in pre-exploration, the server's otherwise."""
    if not sources.unseen_scans:
        return None
    folder = RunFolder(run_dir)
    if is_personal(config):
        own = folder.client(sources.unseen_scans[0]) / "model.safetensors"
        return own if own.is_file() else None
    return None if config.method == "local-only" else folder.model


def _draw_walks(config: FedVLNConfig, sources: Sources, model: Path, run_dir: Path) -> None:
    house = open_house(config, sources, sources.unseen_scans[0], 0)
    agent = initial_agent(config, sources).eval()
    load_arrays(agent, load_file(model))
    samples = house.samples[UNSEEN]
    chosen = [samples[i * len(samples) // DRAWN_WALKS] for i in range(DRAWN_WALKS)]
    visited, _ = walk_all(agent, join_houses([house]), chosen, config)
    paths = [DrawnPath(f"agent, {s.instr_id}", w) for s, w in zip(chosen, visited, strict=True)]
    paths += [DrawnPath(f"reference, {s.instr_id}", s.path, is_reference=True) for s in chosen]
    plot_paths(
        house.graph.position_m,
        house.graph.edge,
        paths,
        run_dir / "walks.png",
        title=f"unseen house {house.graph.scan}",
    )


def _join_submissions(run_dir: Path) -> None:
    """One leaderboard file per split, from what each house wrote for itself."""
    for split in VALIDATION:
        files = sorted(run_dir.glob(f"clients/*/submission_{split}_*.json"))
        entries = [e for f in files for e in json.loads(f.read_text())]
        if entries:
            (run_dir / f"submission_{split}.json").write_text(json.dumps(entries))
