"""Several CDL runs beside each other: one table, as the paper's tables 2 and 3, and curves.

<experiment>/results.md, results.csv                 errors, sizes and cycle times; mean and spread over seeds
<experiment>/learning.png, wall-clock.png            RMSE over mixing steps and over simulated time
<experiment>/steering.png, frames.png, overlay.png   of the first run that has neighbours
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.metrics import constant_baseline, label_law
from fedsuite.driving.networks import count_parameters
from fedsuite.driving.plan import initial_network, make_plan
from fedsuite.history import load_runs
from fedsuite.report.tables import markdown_table, mean_and_spread
from simulations.cdl_closing import (
    baselines_of,
    draw_curves,
    draw_setting,
    last_evaluation,
    silos_of,
)

MOST_CURVES = 7  # more cannot be told apart
MOST_SILOS = 12  # lines of the table by silo
ERRORS = {
    "RMSE": "rmse", "MAE": "mae", "silo RMSE": "silo-rmse.mean", "worst silo": "silo-rmse.worst",
    "everywhere": "everywhere-rmse.mean",
}  # fmt: skip


def write_comparison(folder: Path, runs: Mapping[str, CDLConfig]) -> None:
    """`runs`: <variant> or <variant>/seed-<s> -> settings of a completed run at <folder>/<name>."""
    frame = pd.DataFrame([_row(folder, name, config) for name, config in runs.items()])
    frame.to_csv(folder / "results.csv", index=False)
    table = [_summary(str(variant), own) for variant, own in frame.groupby("variant", sort=False)]
    for column in ("everywhere", "cycle ms"):
        if all(row[column] == "-" for row in table):
            for row in table:
                del row[column]
    text = markdown_table(table) + _silo_table(folder, runs)
    (folder / "results.md").write_text(text, encoding="utf-8")
    curves: dict[str, list[pd.DataFrame]] = {}
    for name in runs:
        rounds = load_runs(folder / name).rounds.assign(run=name)
        curves.setdefault(name.partition("/")[0], []).append(rounds)
    if len(curves) <= MOST_CURVES:
        draw_curves({k: pd.concat(v, ignore_index=True) for k, v in curves.items()}, folder)
    mixing = [c for c in runs.values() if make_plan(c).overlay.edges]
    draw_setting((mixing or list(runs.values()))[0], folder)


def _row(folder: Path, name: str, config: CDLConfig) -> dict[str, object]:
    """One run: what it is and how it ended."""
    metrics, baselines = last_evaluation(folder / name), baselines_of(config)
    steps = metrics.get("mixings", 0.0)
    return {
        "variant": name.partition("/")[0],
        "run": name,
        **{title: metrics.get(key) for title, key in ERRORS.items()},
        "constant": baselines.constant.rmse,
        "parameters": trained_parameters(config),
        "mixings": int(steps),
        "cycle ms": 1000 * metrics.get("simulated-seconds", 0.0) / steps if steps else 0.0,
    }


def _silo_table(folder: Path, runs: Mapping[str, CDLConfig]) -> str:
    """RMSE / MAE of every silo's own model on its own test frames, if all runs have the same few silos."""
    federated = {name: c for name, c in runs.items() if not c.pooled}
    names = {tuple(s.name for s in silos_of(c)) for c in federated.values()}
    if len(names) != 1 or len(next(iter(names))) > MOST_SILOS:
        return ""
    found: dict[str, list[dict[str, float]]] = {}
    for name in federated:
        found.setdefault(name.partition("/")[0], []).append(last_evaluation(folder / name))
    silos = silos_of(next(iter(federated.values())))
    law = label_law(np.asarray(s.train.angles) for s in silos)
    rows = []
    for i, silo in enumerate(silos):
        blind = constant_baseline(law, np.asarray(silo.test.angles))
        row = {"own model at home": silo.name, "constant": f"{blind.rmse:.3f} / {blind.mae:.3f}"}
        for variant, ended in found.items():
            rmse, mae = (
                mean_and_spread(m[f"silo.{i}.{k}"] for m in ended).mean for k in ("rmse", "mae")
            )
            row[variant] = f"{rmse:.3f} / {mae:.3f}"
        rows.append(row)
    return "\nRMSE / MAE, silo by silo:\n\n" + markdown_table(rows)


def _summary(variant: str, runs: pd.DataFrame) -> dict[str, str]:
    """One line of the table: mean and sample standard deviation over seeds."""
    row = {"run": variant, "seeds": str(len(runs))}
    row |= {title: mean_and_spread(runs[title].dropna()).text(3) for title in ERRORS}
    row["constant"] = mean_and_spread(runs["constant"]).text(3)
    row["parameters"] = f"{int(runs['parameters'].iloc[0]):,}"
    row["mixings"] = str(int(runs["mixings"].iloc[0]))
    cycle = float(runs["cycle ms"].mean())
    row["cycle ms"] = f"{cycle:.1f}" if cycle else "-"
    return row


def trained_parameters(config: CDLConfig) -> int:
    """Parameters of one silo while it trains: the backbone's and the sub-network's."""
    network = initial_network(config)
    backbone = count_parameters(network)
    if not config.contrastive:
        return backbone
    stem = sum(p.numel() for n, p in network.named_parameters() if n.startswith("stem."))
    return 2 * backbone - (stem if config.share_stem else 0)
