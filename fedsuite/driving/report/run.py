"""What a finished CDL run leaves beside its history: a table and drawings.

<run>/results.md      errors of the average model and of the silos' own, beside two baselines that see no image
<run>/learning.png    RMSE of the average model over mixing steps
<run>/wall-clock.png  the same over the simulated time of the overlay
<run>/baselines.json  errors of the baselines over all test frames, and of the constant one silo by silo
<run>/steering.png, frames.png, overlay.png   angles by silo, what their cameras see, who mixes with whom
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.frames import Silo, silo_names
from fedsuite.driving.data.sources import open_own, roster_folder
from fedsuite.driving.evaluation.metrics import (
    constant_baseline,
    label_law,
    merged,
    random_baseline,
)
from fedsuite.driving.metrics import ERRORS, metrics_of
from fedsuite.driving.plan import plan_of
from fedsuite.driving.report.outcome import headline_of, last_metrics, left_out_text
from fedsuite.driving.report.overlays import overlay_of
from fedsuite.driving.report.silos import plot_frames, plot_steering
from fedsuite.history import load_runs
from fedsuite.privacy.guarantee import guarantee_text
from fedsuite.randomness import some_of
from fedsuite.reports.admitted import admitted_text
from fedsuite.reports.outcomes import BASELINES, EMPTY, read_baselines
from fedsuite.reports.plots import learning_curves, save_figure
from fedsuite.reports.sampled import sampled_text
from fedsuite.reports.tables import markdown_table
from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.metrics import Metric
from fedsuite.storage.files import write_json

DRAWN_SILOS = 12
DRAWINGS = ("steering.png", "frames.png", "overlay.png")
ROWS = {
    "average model, all test frames": "{}",
    "own models at home, mean": "silo-{}.mean",
    "own models at home, worst": "silo-{}.worst",
    "own models everywhere, mean": "everywhere-{}.mean",
}


def write_results(config: CDLConfig, run_dir: Path) -> None:
    """Table and curves of a run that has just completed, from its folder alone."""
    frames, baselines = load_runs(run_dir), read_baselines(run_dir)
    metrics, computed = last_metrics(frames), metrics_of(config).computed
    found: dict[str, dict[str, float]]
    found = {name: baselines[name] for name in ("constant", "random") if name in baselines}
    for name, key in ROWS.items():
        if key.format("rmse") in metrics:
            found[name] = {m.name: metrics[key.format(m.name)] for m in computed}
    rows = [
        {"steering": name}
        | {
            m.heading + m.percent: f"{m.scale * e[m.name]:.4f}" if m.name in e else EMPTY
            for m in computed
        }
        for name, e in found.items()
    ]
    text = markdown_table(rows) + left_out_text(run_dir) + admitted_text(frames)
    text += guarantee_text(config, run_dir, frames.rounds)
    if told := sampled_text(frames):
        text += f"\n{told} What is said of a silo is of the last evaluation that asked it.\n"
    RunFolder(run_dir).results.write_text(text, encoding="utf-8")
    draw_curves({config.federation.scenario: frames.rounds}, run_dir)


def draw_curves(runs: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """RMSE of the average model, or where there is none of silos' own, over mixing steps and over simulated time."""
    for file, metric, label in (
        ("learning.png", "mixings", "mixing steps"),
        ("wall-clock.png", "simulated-seconds", "simulated wall-clock of the overlay (s)"),
    ):
        shown = {k: f for k, f in runs.items() if metric in f}
        if shown:
            headline = ERRORS[0]
            names = {headline_of(f): headline.curve for f in shown.values()}
            panels = {k: v if k == headline.name else f"own models: {v}" for k, v in names.items()}
            learning_curves(shown, panels, folder / file, x=metric, x_label=label)


def draw_data(config: CDLConfig, run_dir: Path) -> None:
    """Baselines, the silos' angles and frames (of a pooled run: of those whose data are pooled), and the overlay."""
    roster = read_roster(run_dir / ROSTER)
    plan, folder = plan_of(config, roster), roster_folder(config.drawn_data, roster)
    names = silo_names(folder)
    drawn = some_of(names, config.evaluation_clients, config.seed, config.num_rounds)
    silos = [open_own(folder, name) for name in drawn]
    baselines = baselines_of(silos, config.seed, metrics_of(config).computed)
    if drawn != names:
        del baselines["silos"]  # they go by the silos' numbers
    write_json(run_dir / BASELINES, baselines)
    plot_steering(silos[:DRAWN_SILOS], run_dir / DRAWINGS[0])
    plot_frames(silos[:DRAWN_SILOS], run_dir / DRAWINGS[1])
    if plan.overlay.edges:
        title = f"{config.federation.scenario} over {plan.network.name}"
        save_figure(overlay_of(plan, title), run_dir / DRAWINGS[2])


def baselines_of(
    silos: Sequence[Silo], seed: int, rows: Sequence[Metric] = ERRORS
) -> dict[str, object]:
    """Errors over all test frames of the mean of all training angles ("constant") and of draws from their normal
    distribution ("random"); "silos": name and errors of the constant by silo.
    """
    law = label_law(np.asarray(s.train.angles) for s in silos)
    tests = [np.asarray(s.test.angles) for s in silos]
    constant = [constant_baseline(law, angles, rows) for angles in tests]
    drawn = [random_baseline(law, angles, seed, i, rows) for i, angles in enumerate(tests)]
    return {
        "constant": merged(constant).scores,
        "random": merged(drawn).scores,
        "silos": [{"name": s.name, **e.scores} for s, e in zip(silos, constant, strict=True)],
    }
