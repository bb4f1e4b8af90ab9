"""What a finished FedVLN run leaves beside its history: a results table, learning curves and walks in an unseen house.

<run>/results.md        scores of the final agent beside an untrained one and a random walker
<run>/learning.png      success rate over rounds in seen and unseen houses
<run>/walks.png         three walks of the final agent in an unseen house (not for local-only runs)
<run>/submission_*.json R2R leaderboard files, joined from the houses' own, if `submission` is set
"""

import json
import math
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from fedsuite.arrays import load_arrays
from fedsuite.history import load_runs
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
from fedsuite.vln.wire import VALIDATION
from simulations.fedvln_system import initial_agent, open_house

COLUMNS = ("ne", "osr", "spl", "sr", "cls", "ndtw", "sdtw", "tl")
PERCENT = frozenset(COLUMNS) - {"ne", "tl"}
TITLES = {
    "ne": "NE (m)", "osr": "OSR", "spl": "SPL", "sr": "SR",
    "cls": "CLS", "ndtw": "nDTW", "sdtw": "SDTW", "tl": "TL (m)",
}  # fmt: skip
DRAWN_WALKS = 3


def write_closing(config: FedVLNConfig, run_dir: Path) -> None:
    """Tables and plots of a run that has just completed."""
    sources = open_sources(config)
    unseen = [open_house(config, sources, s, 0) for s in sources.unseen_scans]
    frames = load_runs(run_dir)
    frame = frames.rounds
    scored = [*frame.to_dict("records"), *frames.closing.to_dict("records")]
    rows = _rows(config, scored, unseen)
    RunFolder(run_dir).results.write_text(markdown_table(rows))
    curves = {s: frame.rename(columns={f"{s}.sr": "sr"}) for s in VALIDATION if f"{s}.sr" in frame}
    if curves:
        learning_curves(curves, "sr", run_dir / "learning.png", y_label="success rate")
    if config.method != "local-only" and unseen:
        _draw_walks(config, sources, unseen[0], run_dir)
    if config.submission:
        _join_submissions(run_dir)


def _rows(
    config: FedVLNConfig, evaluations: list[dict[Any, Any]], unseen: list[House]
) -> list[dict[str, str]]:
    rows = []
    for split in VALIDATION:
        # Rounds without an evaluation hold NaN.
        scored = [r for r in evaluations if not math.isnan(r.get(f"{split}.sr", math.nan))]
        if not scored:
            continue
        first, last = scored[0], scored[-1]
        if last is not first:
            rows.append(_row(f"{split}, untrained", {c: first[f"{split}.{c}"] for c in COLUMNS}))
        rows.append(_row(f"{split}, {config.method}", {c: last[f"{split}.{c}"] for c in COLUMNS}))
    if unseen:
        rng = rng_for(config.seed, "random walks")
        rows.append(_row("val_unseen, random walk", random_walk_scores(unseen, "val_unseen", rng)))
    return rows


def _row(label: str, scores: dict[str, float]) -> dict[str, str]:
    """One line; shares in percent."""
    shown = {c: 100 * scores[c] if c in PERCENT else scores[c] for c in COLUMNS}
    return {"agent": label} | {TITLES[c]: f"{shown[c]:.2f}" for c in COLUMNS}


def _draw_walks(config: FedVLNConfig, sources: Sources, house: House, run_dir: Path) -> None:
    agent = initial_agent(config, sources).eval()
    load_arrays(agent, load_file(run_dir / "model.safetensors"))
    samples = house.samples["val_unseen"]
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
