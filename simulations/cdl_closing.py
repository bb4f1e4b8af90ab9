"""What a finished CDL run leaves beside its history: a table and drawings.

<run>/results.md      errors of the average model and of the silos' own, beside two baselines that see no image
<run>/learning.png    RMSE of the average model over mixing steps
<run>/wall-clock.png  the same over the simulated time of the overlay
<run>/steering.png, frames.png, overlay.png   angles by silo, what their cameras see, who mixes with whom
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.frames import Silo
from fedsuite.driving.metrics import (
    Errors,
    constant_baseline,
    label_law,
    merged,
    random_baseline,
)
from fedsuite.driving.plan import make_plan
from fedsuite.driving.sources import open_silos, silos_folder
from fedsuite.history import load_runs
from fedsuite.report.driving import plot_frames, plot_steering
from fedsuite.report.overlays import plot_overlay
from fedsuite.report.plots import learning_curves
from fedsuite.report.tables import markdown_table
from fedsuite.run_folder import RunFolder

DRAWN_SILOS = 12


@dataclass(frozen=True)
class Baselines:
    """Errors over all test frames of predicting without looking."""

    constant: Errors
    random: Errors


def silos_of(config: CDLConfig) -> tuple[Silo, ...]:
    """The silos that a run trains on; in a pooled run, those whose data are pooled."""
    return open_silos(silos_folder(config, make_plan(config).num_data_silos), False)


def baselines_of(config: CDLConfig) -> Baselines:
    """Constant: the mean of all training angles. Random: a draw from their normal distribution."""
    silos = silos_of(config)
    law = label_law(np.asarray(s.train.angles) for s in silos)
    tests = [np.asarray(s.test.angles) for s in silos]
    return Baselines(
        merged(constant_baseline(law, a) for a in tests),
        merged(random_baseline(law, a, config.seed, i) for i, a in enumerate(tests)),
    )


def last_evaluation(run_dir: Path) -> dict[str, float]:
    """Metrics of the last evaluated round, with those of the closing beside them."""
    frames = load_runs(run_dir)
    evaluated = frames.rounds.dropna(subset="rmse").iloc[-1]
    metrics = {str(k): float(v) for k, v in evaluated.items() if _is_number(v)}
    if len(frames.closing):
        closing = frames.closing.iloc[-1]
        metrics |= {str(k): float(v) for k, v in closing.items() if _is_number(v)}
    return metrics


def write_closing(config: CDLConfig, run_dir: Path) -> None:
    """Table and drawings of a run that has just completed."""
    metrics, baselines = last_evaluation(run_dir), baselines_of(config)
    rows = [
        {"steering": name, "RMSE": f"{e.rmse:.4f}", "MAE": f"{e.mae:.4f}"}
        for name, e in (("constant", baselines.constant), ("random", baselines.random))
    ]
    for name, key in (
        ("average model, all test frames", "{}"),
        ("own models at home, mean", "silo-{}.mean"),
        ("own models at home, worst", "silo-{}.worst"),
        ("own models everywhere, mean", "everywhere-{}.mean"),
    ):
        if (rmse := key.format("rmse")) in metrics:
            mae = metrics[key.format("mae")]
            rows.append({"steering": name, "RMSE": f"{metrics[rmse]:.4f}", "MAE": f"{mae:.4f}"})
    RunFolder(run_dir).results.write_text(markdown_table(rows), encoding="utf-8")
    draw_curves({config.scenario: load_runs(run_dir).rounds}, run_dir)
    draw_setting(config, run_dir)


def draw_curves(runs: dict[str, pd.DataFrame], folder: Path) -> None:
    """RMSE of the average model over mixing steps and over simulated time."""
    runs = {k: f for k, f in runs.items() if "mixings" in f}
    if not runs:
        return
    label = "RMSE of the average model"
    learning_curves(
        runs,
        "rmse",
        folder / "learning.png",
        y_label=label,
        x_metric="mixings",
        x_label="mixing steps",
    )
    timed = {k: f for k, f in runs.items() if "simulated-seconds" in f}
    if timed:
        learning_curves(
            timed, "rmse", folder / "wall-clock.png", y_label=label,
            x_metric="simulated-seconds", x_label="simulated wall-clock of the overlay (s)",
        )  # fmt: skip


def draw_setting(config: CDLConfig, folder: Path) -> None:
    """The silos' angles and frames, and the overlay."""
    silos, plan = silos_of(config), make_plan(config)
    plot_steering(silos[:DRAWN_SILOS], folder / "steering.png")
    plot_frames(silos[:DRAWN_SILOS], folder / "frames.png")
    if plan.overlay.edges:
        plot_overlay(
            plan.network.position_deg, plan.network.labels, plan.overlay.edges, folder / "overlay.png",
            title=f"{config.scenario} over {plan.network.name}", directed=plan.directed,
        )  # fmt: skip


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and bool(np.isfinite(value))
