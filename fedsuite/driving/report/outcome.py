"""The numbers by which a finished CDL run is reported, from its folder alone.

Loads torch for the parameters of a completed run only: they are counted of its network.
"""

import math
from pathlib import Path

import pandas as pd

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.frames import LEFT_OUT
from fedsuite.driving.metrics import metrics_of
from fedsuite.history import RunFrames, load_runs
from fedsuite.history.tidy import last_values
from fedsuite.reports.outcomes import Column, Outcome, column_of, read_baselines
from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.settings.metrics import Tables
from fedsuite.storage.escaping import in_markdown


def last_metrics(frames: RunFrames) -> dict[str, float]:
    """Metrics of the last evaluated round, and those of the end."""
    return last_values(frames.rounds.dropna(subset=headline_of(frames.rounds)), frames.closing)


def headline_of(rounds: pd.DataFrame) -> str:
    """The metric of every evaluation: of the average model, or of the silos' own where nobody sees all of these."""
    return "rmse" if "rmse" in rounds else "silo-rmse.mean"


def left_out_line(run_dir: Path) -> str:
    """What the tables say of rows of drives that were left out; empty if none were, or if nobody knows."""
    file = run_dir / ROSTER
    left_out = read_roster(file).facts.get(LEFT_OUT) if file.is_file() else None
    if not left_out:
        return ""
    told = ", ".join(f"{name} {count}" for name, count in left_out.items())
    return (
        f"Rows of drives that could not be read and were left out (data.bad-rows = drop): {told}."
    )


def left_out_text(run_dir: Path) -> str:
    """The same as a paragraph of Markdown."""
    line = left_out_line(run_dir)
    return f"\n{in_markdown(line)}\n" if line else ""


def outcome_of(
    config: CDLConfig, run_dir: Path, name: str, run: str, frames: RunFrames | None = None
) -> Outcome:
    """Errors, sizes and times of a completed run, read unless its frames are at hand."""
    frames = frames or load_runs(run_dir)
    metrics = last_metrics(frames)
    steps, seconds = metrics.get("mixings", 0.0), metrics.get("simulated-seconds", 0.0)
    rows = metrics_of(config).rows
    found = {row.heading: metrics.get(row.name, math.nan) for row in rows} | {
        "constant": read_baselines(run_dir).get("constant", {}).get("rmse", math.nan),
        "parameters": trained_parameters(config),
        "mixings": int(steps),
        "cycle ms": 1000 * seconds / steps if steps and seconds else math.nan,
    }
    return Outcome(name, run, {}, found, frames)


def score_columns(config: CDLConfig, where: Tables) -> list[Column]:
    """Columns of scores, which outcomes have by their titles."""
    return [column_of(row, row.heading) for row in metrics_of(config).shown(where)]


def trained_parameters(config: CDLConfig) -> int:
    """Parameters of one silo while it trains: the backbone's and the sub-network's."""
    from fedsuite.driving.model.networks import count_parameters
    from fedsuite.driving.plan import initial_network

    network = initial_network(config)
    backbone = count_parameters(network)
    if not config.objective.contrastive:
        return backbone
    stem = sum(p.numel() for n, p in network.named_parameters() if n.startswith("stem."))
    return 2 * backbone - (stem if config.network.share_stem else 0)
