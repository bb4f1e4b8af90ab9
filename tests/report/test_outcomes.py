"""Outcomes of runs on disk, as lines of a table and of a CSV."""

import json
from pathlib import Path

import pandas as pd

from fedsuite.history import load_runs
from fedsuite.history.tidy import last_values
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


def outcome_of(folder: Path, label: str, rounds: list[dict], final: dict | None = None) -> Outcome:
    """Of a run with these metrics by round; its metrics are its last ones."""
    lines = [{"round": r, "kind": "round", "metrics": m} for r, m in enumerate(rounds)]
    if final is not None:
        lines.append({"round": len(rounds) - 1, "kind": "closing", "metrics": final})
    (folder / label).mkdir(parents=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / label / "history.jsonl").write_text(text)
    frames = load_runs(folder / label)
    values = last_values(frames.rounds, frames.closing)
    return Outcome(line_name(folder, label), label, {"seed": label[-1]}, values, frames)


def test_the_last_value_counts_and_the_newest_metrics_come_first(tmp_path):
    rounds = [{"loss": 3.0}, {"loss": 2.0, "sr": 0.5}, {"loss": 1.0}]
    found = outcome_of(tmp_path, "a", rounds, {"steps": 7.0}).metrics
    assert list(found.items()) == [("steps", 7), ("loss", 1), ("sr", 0.5)]


def test_runs_of_a_variant_are_one_line(tmp_path):
    runs = [
        outcome_of(tmp_path, "lan/seed-0", [{"sr": 0.2, "steps": 1000}]),
        outcome_of(tmp_path, "lan/seed-1", [{"sr": 0.4, "steps": 2001, "loss": 1.0}]),
        outcome_of(tmp_path, "full/seed-0", [{"sr": 0.5}]),
    ]
    columns = [
        SEEDS,
        Column("SR", "sr", 1, 100),
        Column("steps", "steps", 1, with_spread=False),
        Column("loss", "loss"),
        Column("nowhere", "x"),
        Column("never", "x", stays=True),
    ]
    assert table(grouped(runs), columns) == [
        {"run": "lan", "seeds": "2", "SR": "30.0 ± 14.1", "steps": "1,500.5",
         "loss": "1.00 (1 of 2 seeds)", "never": "-"},
        {"run": "full", "seeds": "1", "SR": "50.0", "steps": "-", "loss": "-", "never": "-"},
    ]  # fmt: skip


def test_where_only_seeds_differ_the_folder_names_the_line(tmp_path):
    runs = [outcome_of(tmp_path / "mine", f"seed-{s}", [{"sr": s / 2}]) for s in (0, 1)]
    assert [row["seeds"] for row in table(grouped(runs), [SEEDS])] == ["2"]
    (rounds,) = rounds_of(grouped(runs)).values()
    assert list(rounds["run"]) == ["seed-0", "seed-1"] and list(grouped(runs)) == ["mine"]


def test_every_run_is_a_line_of_the_csv(tmp_path):
    runs = [outcome_of(tmp_path, f"{v}/seed-0", [{v: 0.1}]) for v in ("a", "b")]
    write_csv(tmp_path / "x.csv", grouped(runs))
    found = pd.read_csv(tmp_path / "x.csv")
    assert list(found.columns) == ["variant", "run", "seed", "a", "b"]
    assert list(found["run"]) == ["a/seed-0", "b/seed-0"] and found["b"].isna().tolist() == [
        True,
        False,
    ]


def test_baselines_may_be_missing(tmp_path):
    assert read_baselines(tmp_path) == {}
    (tmp_path / "baselines.json").write_text('{"random": {"sr": 0.1}}')
    assert read_baselines(tmp_path) == {"random": {"sr": 0.1}}
