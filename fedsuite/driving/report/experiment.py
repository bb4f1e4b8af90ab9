"""Several CDL runs beside each other: one table, as the paper's tables 2 and 3, and curves; no data are opened.

<experiment>/results.md, results.csv                 errors, sizes and cycle times; mean and spread over seeds
<experiment>/learning.png, wall-clock.png            RMSE over mixing steps and over simulated time
<experiment>/steering.png, frames.png, overlay.png   of the first run that has neighbours
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.report.outcome import last_metrics, left_out_text, outcome_of, score_columns
from fedsuite.driving.report.run import DRAWINGS, draw_curves
from fedsuite.reports.outcomes import (
    SEEDS,
    Column,
    Outcome,
    grouped,
    line_name,
    read_baselines,
    rounds_of,
    table,
    write_csv,
)
from fedsuite.reports.plots import MOST_CURVES
from fedsuite.reports.sampled import sampled_text
from fedsuite.reports.tables import markdown_table, mean_and_spread

MOST_SILOS = 12  # lines of the table by silo
OTHERS = (
    Column("constant", "constant", 3),
    *(Column(title, title, 0, with_spread=False) for title in ("parameters", "mixings")),
    Column("cycle ms", "cycle ms", 1, with_spread=False),
)


def write_comparison(folder: Path, runs: Mapping[str, CDLConfig]) -> None:
    """`runs`: <variant>, <variant>/seed-<s> or seed-<s> -> settings of a completed run at <folder>/<name>."""
    outcomes = [
        outcome_of(config, folder / label, line_name(folder, label), label)
        for label, config in runs.items()
    ]
    groups = grouped(outcomes)
    write_csv(folder / "results.csv", groups)
    federated = grouped(o for o in outcomes if not runs[o.run].federation.pooled)
    scores = {c.title: c for config in runs.values() for c in score_columns(config, "experiment")}
    columns = (SEEDS, *scores.values(), *OTHERS)
    text = markdown_table(table(groups, columns)) + _silo_table(folder, federated)
    lines = dict.fromkeys(left_out_text(folder / label) for label in runs)
    lines |= dict.fromkeys(f"\n{told}\n" for o in outcomes if (told := sampled_text(o.frames)))
    (folder / "results.md").write_text("".join([text, *lines]), encoding="utf-8")
    if len(groups) <= MOST_CURVES:
        draw_curves(rounds_of(groups), folder)
    mixing = [label for label in runs if (folder / label / "overlay.png").is_file()]
    for drawing in (folder / [*mixing, *runs][0] / name for name in DRAWINGS):
        if drawing.is_file():
            shutil.copyfile(drawing, folder / drawing.name)


def _silo_table(folder: Path, groups: Mapping[str, Sequence[Outcome]]) -> str:
    """RMSE / MAE of every silo's own model on its own test frames, if all runs have the same few silos."""
    known = [
        read_baselines(folder / o.run).get("silos", []) for own in groups.values() for o in own
    ]
    names = {tuple(silo["name"] for silo in silos) for silos in known}
    if len(names) != 1 or not 0 < len(known[0]) <= MOST_SILOS:
        return ""
    ended = {name: [last_metrics(o.frames) for o in own] for name, own in groups.items()}
    rows = []
    for i, silo in enumerate(known[0]):
        row = {
            "own model at home": silo["name"],
            "constant": f"{silo['rmse']:.3f} / {silo['mae']:.3f}",
        }
        for name, metrics in ended.items():
            both = (mean_and_spread(m[f"silo.{i}.{k}"] for m in metrics) for k in ("rmse", "mae"))
            row[name] = " / ".join(f"{spread.mean:.3f}" for spread in both)
        rows.append(row)
    return "\nRMSE / MAE, silo by silo:\n\n" + markdown_table(rows)
