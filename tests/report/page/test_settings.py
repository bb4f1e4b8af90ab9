"""Settings that differ, and the file that runs the same again."""

from pathlib import Path

import pytest

from fedsuite.reports.page.settings_table import PLACES
from fedsuite.settings.config import to_flat
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request
from simulations.results.report import make_report
from tests.report.page.conftest import table_named
from tests.written_runs import houses_run, write_experiment


def code_of(report) -> str:
    return report.parts[0].sections[-1].code


def planned(report, folder: Path) -> dict[str, dict]:
    """Settings of every run of the file that the report gives, by label; places aside."""
    head, _, rest = code_of(report).partition("\n")
    text, _, command = rest.rpartition("\n")
    name = head.removeprefix("# ")
    assert command == f"fedsuite run {name}"
    (folder / name).write_text(text)
    plans = plan_experiment(Request(folder / name, [], dry=True)).plans
    return {
        label: {k: v for k, v in to_flat(plan.settings).items() if k not in PLACES}
        for label, plan in plans.items()
    }


def stored(folder: Path) -> dict:
    import json

    found = json.loads((folder / "config.json").read_text())
    return {k: v for k, v in found.items() if k not in PLACES}


def test_only_keys_that_differ_are_shown_beside_each_other(houses) -> None:
    rows = table_named(houses, "Where runs differ")
    assert rows == [
        {"line": "federated", "seeds": "0, 1", "federation.method": '"federated"'},
        {"line": "local", "seeds": "0, 1", "federation.method": '"local-only"'},
    ]
    (changed,) = table_named(houses, "Not the default")
    assert changed == {"key": "num-rounds", "value": "2", "default": "10"}


def test_the_file_of_an_experiment_plans_the_same_runs(houses, written, tmp_path: Path) -> None:
    found = planned(houses, tmp_path)
    labels = [f"{v}/seed-{s}" for v in ("federated", "local") for s in (0, 1)]
    assert found == {label: stored(written.houses / label) for label in labels}


def test_the_file_of_one_run_plans_the_same_run(tmp_path: Path) -> None:
    settings = {"data.generated-seed": 7, "federation.server-optimizer": "nesterov"}
    run = houses_run(tmp_path / "one run", 3, 0.5, settings=settings)
    (found,) = planned(make_report([str(run)]), tmp_path).values()
    assert found == stored(run)
    assert found["seed"] == 3


def test_runs_that_are_no_grid_are_a_variant_each(tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    for label, seed in (("a/seed-0", 0), ("a/seed-1", 1), ("b/seed-0", 0)):
        rate = {"objective.learning-rate": 0.1 if label[0] == "a" else 0.2}
        houses_run(folder / label, seed, 0.5, settings=rate)
    write_experiment(folder, ["a/seed-0", "a/seed-1", "b/seed-0"])
    found = planned(make_report([str(folder)]), tmp_path)
    assert found == {
        label.replace("/", "-"): stored(folder / label) for label in ("a/seed-0", "a/seed-1", "b/seed-0")
    }  # fmt: skip


def test_versions_and_how_runs_ended(houses) -> None:
    row = table_named(houses, "Runs")[0]
    assert (row["started (UTC)"], row["fedsuite"]) == ("2026-01-02 03:04:05", "0.1.0")


@pytest.mark.slow
@pytest.mark.parametrize("experiments", [2])
def test_every_experiment_has_its_own_file(written, experiments: int) -> None:
    report = make_report([str(written.houses), str(written.hostile)])
    assert code_of(report).count("fedsuite run ") == experiments
