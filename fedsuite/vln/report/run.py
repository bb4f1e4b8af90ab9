"""What a finished FedVLN run leaves beside its history: a results table, learning curves and walks in an unseen house.

<run>/results.md        scores of the resulting agent beside those before training and, where it learns in seen houses,
                        a random walker's; in pre-exploration, what left the houses for it; of a speaker BLEU (Zhou &
                        Wang 2022, Table 4) and what fedsuite.vln.report.speaker says of its instructions
<run>/learning.png      success rate (of a speaker BLEU-2) over rounds in seen and unseen houses
<run>/baselines.json    scores of the random walker
<run>/walks.png         three walks of the resulting agent in an unseen house (not for local-only training in seen houses)
<run>/submission_*.json, <run>/submit_test.json R2R leaderboard files, joined from the houses' own, if `submission` is set
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from safetensors.numpy import load_file

from fedsuite.arrays import load_arrays
from fedsuite.privacy.guarantee import guarantee_text
from fedsuite.randomness import rng_for, some_of
from fedsuite.reports.admitted import admitted_text
from fedsuite.reports.outcomes import BASELINES, Column, cells, read_baselines
from fedsuite.reports.plots import learning_curves
from fedsuite.reports.sampled import sampled_text
from fedsuite.reports.tables import markdown_table
from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.escaping import in_markdown
from fedsuite.storage.files import write_json
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import join_houses
from fedsuite.vln.data.floor_plan import floor_plan
from fedsuite.vln.data.roster import TEST_ONLY, make_roster, open_house
from fedsuite.vln.data.sources import Sources, open_sources
from fedsuite.vln.evaluation.baselines import random_walk_scores
from fedsuite.vln.message_keys import TEST, VALIDATION
from fedsuite.vln.metrics import SPEAKER_STAGE, metrics_of
from fedsuite.vln.plan import initial_agent
from fedsuite.vln.report.houses import DrawnPath, plot_paths
from fedsuite.vln.report.outcome import (
    PRE_EXPLORE,
    PRIVACY,
    SPLIT_NAMES,
    TEXTS,
    UNSEEN,
    FedVLNOutcome,
    headline,
    outcome_of,
    privacy_text,
    score_columns,
    selection_text,
)
from fedsuite.vln.report.speaker import spoken_text
from fedsuite.vln.stages import has_own
from fedsuite.vln.training.learner import walk_all

DRAWN_WALKS = 3
DISCLOSED = (
    Column("modules sent", "modules-sent", 0),
    Column("houses per client", "houses-per-client", 0),
    Column("upload MB per client and round", "upload-mb"),
    PRIVACY,
)


def write_results(config: FedVLNConfig, run_dir: Path) -> None:
    """Tables and curves of a run that has just completed, from its folder alone."""
    outcome = outcome_of(config, run_dir)
    if config.stage == SPEAKER_STAGE:
        scores = scores_text(outcome, "speaker")
        text = f"{scores} {TEXTS['bleu_note']}\n{spoken_text(outcome, run_dir)}"
    elif config.stage == PRE_EXPLORE:
        text = pre_exploration_text(outcome)
    else:
        text = scores_text(outcome, "agent", read_baselines(run_dir)) + "\n"
    text += admitted_text(outcome.frames)
    text += guarantee_text(config, run_dir, outcome.frames.rounds)
    if told := sampled_text(outcome.frames, config.evaluation.selection != "last"):
        text += f"\n{told}\n"
    RunFolder(run_dir).results.write_text(text, encoding="utf-8")
    draw_learning(outcome, run_dir / "learning.png")
    if config.evaluation.submission:
        _join_submissions(run_dir)


def scores_text(
    outcome: FedVLNOutcome,
    head: str,
    baselines: Mapping[str, Mapping[str, float]] | None = None,
) -> str:
    """The table of scores, before training and after, and what scored without learning; the line below it."""
    config, rows = outcome.config, []
    metrics_shown = metrics_of(config).shown("run")
    start = "before" if config.start_from else "untrained"

    def add(name: str, split: str, metrics: Mapping[str, float]) -> None:
        own = cells([replace(outcome, metrics=metrics)], score_columns(split, metrics_shown))
        rows.append({head: f"{split}, {name}"} | own)

    for split in outcome.splits:
        if outcome.before and outcome.selected:
            add(start, split, outcome.before)
        add(config.federation.method, split, outcome.metrics)
    for name, scores in (baselines or {}).items():
        add(name, UNSEEN, scores)
    return f"{markdown_table(rows)}\n{_selection_line(outcome)}"


def pre_exploration_text(outcome: FedVLNOutcome) -> str:
    """Mean scores of the houses' own agents, what left the houses for them, and success by house."""
    own = outcome.config.federation
    columns = score_columns(UNSEEN, metrics_of(outcome.config).shown("run"))
    shared = f", {own.share} shared" if own.method == "federated" else ""
    rows = [{"agent": f"{own.method}{shared}"} | cells([outcome], columns)]
    if outcome.before and outcome.selected:
        before = replace(outcome, metrics=outcome.before)
        rows.insert(0, {"agent": "before"} | cells([before], columns))
    parts = [
        f"Houses' own agents on val-unseen, means over instructions:\n\n{markdown_table(rows)}",
        f"{_selection_line(outcome)}\n",
        f"What leaves a house:\n\n{markdown_table([cells([outcome], DISCLOSED)])}",
        privacy_text() + " Pooled data are not in the upload.\n",
    ]
    if houses := _house_rows(outcome):
        parts.append(f"Success rate (%) by house:\n\n{markdown_table(houses)}")
    return "\n".join(parts)


def draw_learning(outcome: FedVLNOutcome, path: Path) -> None:
    """Headline metric over rounds, one curve per split; nothing if only the end was evaluated."""
    row = headline(outcome.config)
    metric = row.name
    rounds = outcome.frames.rounds
    curves = {
        SPLIT_NAMES[s]: rounds.rename(columns={f"{s}.{metric}": metric})
        for s in VALIDATION
        if f"{s}.{metric}" in rounds
    }
    if curves:
        learning_curves(curves, {metric: row.curve}, path)


def _selection_line(outcome: FedVLNOutcome) -> str:
    chosen = selection_text(outcome.config.evaluation.selection, [outcome.selected])
    work = f"{outcome.metrics['local-steps']:,} local steps, serial depth {outcome.metrics['serial-depth']:,}"
    return f"Scores shown: {chosen}; {work}."


def _house_rows(outcome: FedVLNOutcome) -> list[dict[str, str]]:
    """One line per unseen house that reported on itself both before and in the shown round."""
    clients, metric = outcome.frames.clients, f"{UNSEEN}.sr"
    if clients.empty or metric not in clients or not outcome.selected:
        return []
    scored = clients[(clients["task"] == "evaluate") & clients[metric].notna()]
    before, after = (
        scored[scored["round"] == r].drop_duplicates("name").set_index("name")
        for r in (0, outcome.selected)
    )
    both = after.join(before[metric].rename("before"), how="inner")
    return [
        {
            "house": str(name),
            "instructions": f"{row[f'{UNSEEN}.count']:.0f}",
            "before": f"{100 * row['before']:.2f}",
            "after": f"{100 * row[metric]:.2f}",
        }
        for name, row in both.iterrows()
    ]


def draw_data(config: FedVLNConfig, run_dir: Path) -> None:
    """What needs the houses: scores of random walks, and walks of the resulting agent."""
    if config.stage == SPEAKER_STAGE:
        return
    sources = open_sources(config)
    if config.stage != PRE_EXPLORE and sources.unseen_scans:
        of = sources.unseen_scans
        scans = some_of(of, config.evaluation_clients, config.seed, config.num_rounds, group=1)
        unseen = (open_house(config, sources, s, 0) for s in scans)
        name = "random walk" if scans == of else f"random walk ({len(scans)} of {len(of)} houses)"
        scores = random_walk_scores(
            unseen, UNSEEN, rng_for(config.seed, "random walks"), metrics_of(config).computed
        )
        named = {f"{UNSEEN}.{k}": v for k, v in scores.items()}
        write_json(run_dir / BASELINES, {name: named})
    model = _walker(config, sources, run_dir)
    if model is not None:
        _draw_walks(config, sources, model, run_dir)


def _walker(config: FedVLNConfig, sources: Sources, run_dir: Path) -> Path | None:
    """The model that walks in the first unseen house: its own in pre-exploration, the server's otherwise."""
    if not sources.unseen_scans:
        return None
    folder = RunFolder(run_dir)
    if has_own(config):
        own = folder.client(sources.unseen_scans[0]) / "model.safetensors"
        return own if own.is_file() else None
    return None if config.federation.method == "local-only" else folder.model


def _draw_walks(config: FedVLNConfig, sources: Sources, model: Path, run_dir: Path) -> None:
    house = open_house(config, sources, sources.unseen_scans[0], 0)
    agent = initial_agent(config, make_roster(config, sources)).eval()
    load_arrays(agent, load_file(model))
    samples = house.samples[UNSEEN]
    chosen = [samples[i * len(samples) // DRAWN_WALKS] for i in range(DRAWN_WALKS)]
    visited, _ = walk_all(agent, join_houses([house]), chosen, config)
    paths = [DrawnPath(f"agent, {s.instr_id}", w) for s, w in zip(chosen, visited, strict=True)]
    paths += [DrawnPath(f"reference, {s.instr_id}", s.path, is_reference=True) for s in chosen]
    plan, title = floor_plan(house.graph, sources.generated), f"unseen house {house.graph.scan}"
    plot_paths(plan, paths, run_dir / "walks.png", title=title)


def _join_submissions(run_dir: Path) -> None:
    """One leaderboard file per split, from what each house wrote for itself."""
    names = {split: f"submission_{split}.json" for split in VALIDATION}
    for split, name in (names | {TEST: "submit_test.json"}).items():
        files = sorted(run_dir.glob(f"clients/*/submission_{split}_*.json"))
        entries = [e for f in files for e in json.loads(f.read_text(encoding="utf-8"))]
        if entries:
            (run_dir / name).write_text(json.dumps(entries), encoding="utf-8")
    there = {f.parent.name for f in run_dir.glob(f"clients/*/submission_{TEST}_*.json")}
    lost = [] if not there else sorted(_test_houses(run_dir) - there)
    if lost:  # the leaderboard takes whole submissions only
        with RunFolder(run_dir).results.open("a", encoding="utf-8") as results:
            results.write(
                f"\nsubmit_test.json is incomplete: {in_markdown(', '.join(lost))} did not walk.\n"
            )


def _test_houses(run_dir: Path) -> set[str]:
    return {m.name for m in read_roster(run_dir / ROSTER).members if m.role == TEST_ONLY}
