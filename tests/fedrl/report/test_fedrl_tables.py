"""What a FedRL run and an experiment leave in their folders; and the configurations that ship are valid."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.report.experiment import draw_sweep, named, swept_key, write_comparison
from fedsuite.fedrl.report.run import draw_validations, outcomes_of, row_name, write_results
from fedsuite.history import load_runs
from simulations.commands import cli as command
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request
from tests.harness import changed, exit_code_of, toml_from

TOMLS = Path(__file__).parents[3] / "simulations" / "fedrl"
RATES = ("success-rate", "within-1x", "within-3x", "within-5x", "within-10x")
TINY = {
    "system": "fedrl", "maps": 200, "evaluation-episodes": 30, "num-rounds": 2, "round-length": 64, "parallel-episodes": 16,
    "results-dir": "runs", "cache-dir": "cache",
}  # fmt: skip
TWO = """
[variants.random]
federation.method = "random"
num-rounds = 0
[variants.dqn-full]
federation.method = "dqn-full"
[variants.fedrl]
federation.method = "fedrl"
"""


def config_of(**changes: Any) -> FedRLConfig:
    return changed(FedRLConfig(), **changes)


def leave_run(
    folder: Path, config: FedRLConfig, score: float, best: int = 2, loss: float = 16.0
) -> FedRLConfig:
    """A run folder with a history of three rounds (100 gradient steps each); tests score `score` and `score` + 0.1.

    loss: of the second round, and 2 in the others, where 1,000 is the most that returns can differ by.
    """
    text = config.world.kind == "text2action"
    first, others = ("f1", ("precision", "recall")) if text else ("success-rate", RATES[1:])

    def judged(prefix: str, value: float) -> dict[str, float]:
        found = {first: value, "average-reward": 100 * value - 50, **dict.fromkeys(others, value / 2)}  # fmt: skip
        found |= {} if text else {"mean-steps": 4.25, "step-diff": 1.5}
        return {f"{prefix}.{k}": v for k, v in found.items()}

    rows: list[dict[str, Any]] = [{"round": 0, "kind": "round", "metrics": {}}]
    trained = 0 if config.federation.method in ("random", "oracle") else 3
    for r in range(1, trained + 1):
        metrics = {**judged("valid", 0.2 * r), "train.updates": 100.0, "train.steps": 100.0}
        metrics |= {"train.loss": loss if r == 2 else 2.0, "train.loss-limit": 1000.0}
        rows.append({"round": r, "kind": "round", "metrics": metrics})
    closing: dict[str, float] = {"best-round": best if trained else 0}
    if config.privacy.test_noise != "noisy":
        closing |= judged("test", score)
    if config.privacy.test_noise != "none":
        closing |= judged("test-noisy", score + 0.1)
    closing |= {f"released.{p}": 1000.0 * (p + 1) for p in range(len(config.federation.roles))}
    rows.append({"round": trained, "kind": "closing", "metrics": closing})
    folder.mkdir(parents=True)
    (folder / "history.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "config.json").write_text("{}")
    return config


def cells(folder: Path) -> list[list[str]]:
    """Lines of the table in results.md, head first."""
    lines = (folder / "results.md").read_text().splitlines()
    found = [[c.strip() for c in x.strip("|").split("|")] for x in lines if x.startswith("|")]
    return [found[0], *found[2:]]


def is_drawn(file: Path) -> bool:
    with Image.open(file) as picture:
        return bool(np.asarray(picture.convert("L")).std() > 5)


# --- one run ------------------------------------------------------------------------------------


def test_a_run_tells_its_scores_its_course_and_what_it_released(tmp_path: Path) -> None:
    config = leave_run(tmp_path / "r", config_of(num_rounds=3), 0.8)
    write_results(config, tmp_path / "r")
    head, first, second = cells(tmp_path / "r")
    assert head == ["test", "success (%)", "AvgRwd", "within 2x optimum (%)", "mean steps"]
    assert first == ["FedRL-1", "80.0", "30.00", "40.0", "4.25"]
    assert second == ["FedRL-2", "90.0", "40.00", "45.0", "4.25"]
    text = (tmp_path / "r" / "results.md").read_text()
    assert "round 2 of 3, the best in validation, after 200 of 300 gradient steps" in text
    assert "alpha 1,000, beta 2,000" in text
    assert "No differential-privacy guarantee can be stated" in text
    assert is_drawn(tmp_path / "r" / "learning.png")


def test_a_text_run_tells_f1(tmp_path: Path) -> None:
    config = leave_run(tmp_path / "r", config_of(world="text2action", method="dqn-alpha"), 0.5)
    write_results(config, tmp_path / "r")
    assert cells(tmp_path / "r") == [
        ["test", "F1 (%)", "AvgRwd", "precision (%)", "recall (%)"],
        ["DQN-alpha", "50.0", "0.00", "25.0", "25.0"],
        ["DQN-alpha + noise", "60.0", "10.00", "30.0", "30.0"],
    ]
    assert "privacy" not in (tmp_path / "r" / "results.md").read_text()


def test_random_moves_have_one_row_and_no_drawing(tmp_path: Path) -> None:
    config = leave_run(tmp_path / "r", config_of(method="random", num_rounds=0), 0.7)
    write_results(config, tmp_path / "r")
    assert [row[0] for row in cells(tmp_path / "r")[1:]] == ["random"]
    assert not (tmp_path / "r" / "learning.png").exists()
    assert "gradient steps" not in (tmp_path / "r" / "results.md").read_text()


@pytest.mark.slow
def test_a_guarantee_is_told_where_there_is_one(tmp_path: Path) -> None:
    private = config_of(q_clip=1.0, noise_sigma=50.0, test_noise="noisy", mlp_updates="joint")
    leave_run(tmp_path / "r", private, 0.6)
    write_results(private, tmp_path / "r")
    text = (tmp_path / "r" / "results.md").read_text()
    assert "All 2,000 Q-vectors of beta: epsilon" in text
    assert "With joint updates Q-values are all that leaves beta" in text
    assert [row[0] for row in cells(tmp_path / "r")[1:]] == ["FedRL-2"]
    for change in (
        {"q_clip": 0.0}, {"test_noise": "both"}, {"behaviour_noise": False}, {"noise_probability": 0.5},
    ):  # fmt: skip
        outcome = outcomes_of(changed(private, **change), tmp_path / "r")[0]
        assert outcome.privacy is not None and len(outcome.privacy.obstacles) == 1


def test_names_are_the_papers() -> None:
    assert row_name(config_of(), False) == "FedRL-1"
    assert row_name(config_of(), True) == "FedRL-2"
    assert row_name(config_of(noise_sigma=0.0), False) == "FedRL without noise"
    assert row_name(config_of(method="dqn-beta"), True) == "DQN-beta + noise"


def test_validations_count_gradient_steps_over_rounds_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = leave_run(tmp_path / "r", config_of(), 0.5, best=1)
    file = tmp_path / "r" / "history.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row, updates in zip(rows[1:4], (70, 80, 90), strict=True):
        row["metrics"]["train.updates"] = updates
    rows[2]["metrics"] = {"train.updates": 80}
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    outcome, _ = outcomes_of(config, tmp_path / "r")
    assert outcome.metrics["gradient-steps"] == 70
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        "fedsuite.fedrl.report.run.learning_curves",
        lambda curves, panels, path, **options: asked.update(curves=curves, **options),
    )
    for by_round, places in ((False, [70, 240]), (True, [1, 3])):
        draw_validations([outcome], tmp_path / "x", by_round)
        points = asked["curves"]["FedRL-1"].dropna(subset="score")
        assert points[asked["x"]].tolist() == places
        assert points["score"].tolist() == pytest.approx([20, 60])


# --- several runs -------------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_are_in_the_papers_order_with_mean_and_spread(tmp_path: Path) -> None:
    runs, scores = {}, (0.5, 0.7, 0.6)
    for method in ("oracle", "dqn-full", "fedrl", "dqn-alpha", "fcn-full", "dqn-beta", "fcn-alpha", "random"):  # fmt: skip
        for seed, score in enumerate(scores):
            label = f"{method}/seed-{seed}"
            config = config_of(method=method, seed=seed, num_rounds=3)
            runs[label] = leave_run(tmp_path / label, config, score, best=1 + seed)
    write_comparison(tmp_path, runs)
    head, *rows = cells(tmp_path)
    assert [row[0] for row in rows] == [
        "random", "FCN-alpha", "FCN-alpha + noise", "DQN-alpha", "DQN-alpha + noise", "DQN-beta",
        "DQN-beta + noise", "FedRL-1", "FedRL-2", "FCN-full", "FCN-full + noise", "DQN-full",
        "DQN-full + noise", "oracle",
    ]  # fmt: skip
    fed = dict(zip(head, rows[8], strict=True))
    mean, spread = 100 * (np.mean(scores) + 0.1), 100 * np.std(scores, ddof=1)
    assert fed["success (%)"] == f"{mean:.1f} ± {spread:.1f}"
    assert (fed["runs"], fed["best round"], fed["gradient steps"]) == ("3", "2", "200")
    assert dict(zip(head, rows[0], strict=True))["best round"] == "-"
    csv = pd.read_csv(tmp_path / "results.csv")
    assert len(csv) == 3 * 14
    own = csv[(csv["run"] == "fedrl/seed-1") & csv["test-noise"]].iloc[0]
    assert own["success-rate"] == pytest.approx(0.8) and own["released-beta"] == 2000
    assert is_drawn(tmp_path / "learning.png") and not (tmp_path / "sweep.png").exists()


@pytest.mark.slow
def test_folds_are_one_row(tmp_path: Path) -> None:
    runs = {}
    for fold, score in enumerate((0.2, 0.4)):
        for method in ("fedrl", "dqn-full"):
            config = config_of(method=method, world="text2action", fold=fold)
            runs[f"{method}-fold{fold}"] = leave_run(tmp_path / f"{method}-fold{fold}", config, score)  # fmt: skip
    write_comparison(tmp_path, runs)
    head, *rows = cells(tmp_path)
    assert [row[0] for row in rows] == ["FedRL-1", "FedRL-2", "DQN-full", "DQN-full + noise"]
    assert rows[0][1] == "30.0 ± 14.1" and rows[0][head.index("runs")] == "2"


def test_settings_of_one_method_carry_the_variants_name(tmp_path: Path) -> None:
    runs = {
        name: leave_run(tmp_path / name, config_of(target_refresh=refresh, test_noise="none"), 0.5)
        for name, refresh in (("fedrl", "all"), ("frozen", "published"))
    }
    write_comparison(tmp_path, runs)
    assert [row[0] for row in cells(tmp_path)[1:]] == ["FedRL-1", "FedRL-1 (frozen)"]


@pytest.mark.slow
def test_only_seeds_make_one_row(tmp_path: Path) -> None:
    runs = {
        f"seed-{s}": leave_run(tmp_path / f"seed-{s}", config_of(seed=s), 0.5) for s in range(2)
    }
    write_comparison(tmp_path, runs)
    assert [row[0] for row in cells(tmp_path)[1:]] == ["FedRL-1", "FedRL-2"]


@pytest.mark.slow
def test_epsilon_has_a_column_where_some_run_has_one(tmp_path: Path) -> None:
    runs = {}
    for name, clip in (("clipped", 1.0), ("free", 0.0)):
        config = config_of(q_clip=clip, noise_sigma=90.0, test_noise="noisy", mlp_updates="joint")
        runs[name] = leave_run(tmp_path / name, config, 0.5)
    write_comparison(tmp_path, runs)
    head, *rows = cells(tmp_path)
    found = {row[0]: row[head.index("epsilon")] for row in rows}
    privacy = outcomes_of(runs["clipped"], tmp_path / "clipped")[0].privacy
    assert privacy is not None and found["FedRL-2 (free)"] == "none"
    assert float(found["FedRL-2 (clipped)"]) == pytest.approx(privacy.epsilons["beta"], rel=0.01)


@pytest.mark.slow
def test_a_sweep_is_drawn_over_the_one_number_that_varies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {"random": leave_run(tmp_path / "random", config_of(method="random"), 0.3)}
    for method in ("dqn-full", "fedrl"):
        for history in (2, 4, 8):
            for seed in range(2):
                label = f"{method}-h{history}/seed-{seed}"
                config = config_of(method=method, history=history, seed=seed)
                runs[label] = leave_run(tmp_path / label, config, 0.01 * history + 0.1 * seed)
    write_comparison(tmp_path, runs)
    assert is_drawn(tmp_path / "sweep.png")
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        "fedsuite.fedrl.report.experiment.learning_curves",
        lambda lines, panels, path, **options: asked.update(lines=lines, **options),
    )
    draw_sweep(named(tmp_path, runs), tmp_path / "x")
    lines = asked["lines"]
    assert list(lines) == ["FedRL-1", "FedRL-2", "DQN-full", "DQN-full + noise"]
    assert lines["FedRL-2"].query("x == 8")["score"].tolist() == pytest.approx([18, 28])
    assert asked["x_label"] == "history" and asked["levels"] == {"random": (30, -20)}


def test_a_sweep_needs_three_values_of_one_number() -> None:
    def key(*changes: dict[str, Any]) -> str | None:
        return swept_key([config_of(**c) for c in changes])

    assert (
        key({"filters": 2}, {"filters": 4}, {"filters": 8, "method": "dqn-full"})
        == "network.filters"
    )
    assert key({"filters": 2}, {"filters": 4, "seed": 3}) is None
    assert key({"filters": 2}, {"filters": 4}, {"filters": 8, "history": 3}) is None
    assert key({"windows": "auto"}, {"windows": "paper"}, {"windows": "code"}) is None


# --- from the command line ----------------------------------------------------------------------


@pytest.mark.slow
def test_an_experiment_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.toml").write_text(toml_from(TINY) + TWO)
    monkeypatch.setattr(sys, "argv", ["fedsuite", "run", "x.toml"])
    assert exit_code_of(command.main) == 0
    folder = tmp_path / "runs" / "fedrl-x"
    rows = cells(folder)[1:]
    assert [row[0] for row in rows] == [
        "random", "FedRL-1", "FedRL-2", "DQN-full", "DQN-full + noise",
    ]  # fmt: skip
    closing = load_runs(folder / "fedrl").closing.iloc[-1]
    for row, prefix in ((rows[1], "test"), (rows[2], "test-noisy")):
        assert row[1] == f"{100 * closing[f'{prefix}.success-rate']:.1f}"
    assert is_drawn(folder / "learning.png") and is_drawn(folder / "fedrl" / "learning.png")
    assert f"beta {int(closing['released.1']):,}" in (folder / "fedrl" / "results.md").read_text()


@pytest.mark.parametrize("toml", sorted(p.name for p in TOMLS.glob("*.toml")))
def test_shipped_configurations_are_valid(toml: str, tmp_path: Path) -> None:
    experiment = plan_experiment(
        Request(TOMLS / toml, [f"results-dir={tmp_path}", f"data.dir={tmp_path}"])
    )
    assert len(experiment.chosen) > 1
    configs = [plan.settings for plan in experiment.plans.values()]
    assert all(isinstance(c, FedRLConfig) for c in configs)
    learners = [c for c in configs if isinstance(c, FedRLConfig) and c.num_rounds]
    sweeps = {"figure4-8.toml": "world.history", "figure4-16.toml": "world.history", "figure5-win2k.toml": "network.filters",
              "exchange.toml": "federation.parallel-episodes", "privacy.toml": "privacy.noise-sigma"}  # fmt: skip
    assert swept_key(learners) == sweeps.get(toml)


@pytest.mark.slow
def test_training_that_diverged_is_named_in_the_tables(tmp_path: Path) -> None:
    runs = {
        "calm": leave_run(tmp_path / "calm", config_of(method="dqn-full"), 0.5, loss=999.0),
        "wild": leave_run(tmp_path / "wild", config_of(method="fedrl"), 0.3, loss=4321.0),
    }
    for name, config in runs.items():
        write_results(config, tmp_path / name)
    assert "Diverged" not in (tmp_path / "calm/results.md").read_text()
    told = "mean loss a record was 4.32e+03 in round 2, where two returns of the rewards seen differ by 1e+03 at most"
    assert told in (tmp_path / "wild/results.md").read_text()
    write_comparison(tmp_path, runs)
    (line,) = [x for x in (tmp_path / "results.md").read_text().split("\n") if "Diverged" in x]
    assert line.startswith("wild: **Diverged**") and "so in 1 of 3 rounds" in line


@pytest.mark.slow
def test_scores_do_not_stand_without_a_chance_level(tmp_path: Path) -> None:
    configs = {m: config_of(**{"federation.method": m}) for m in ("fedrl", "random")}
    for method, config in configs.items():
        leave_run(tmp_path / method, config, 0.5)
        write_results(config, tmp_path / method)
    assert "No chance level here" in (tmp_path / "fedrl" / "results.md").read_text()
    assert "chance level" not in (tmp_path / "random" / "results.md").read_text()
    for runs, missing in ((configs, False), ({"fedrl": configs["fedrl"]}, True)):
        write_comparison(tmp_path, runs)
        assert ("No chance level here" in (tmp_path / "results.md").read_text()) == missing
