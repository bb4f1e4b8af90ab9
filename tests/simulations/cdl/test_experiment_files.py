"""What an experiment leaves in its folder; and the configurations that ship are valid."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.plan import plan_of
from fedsuite.driving.report import run as report
from fedsuite.errors import InputError
from fedsuite.history import load_runs
from fedsuite.storage.progress import silent
from simulations.cdl.system import SYSTEM
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request
from tests.cdl_runs import config_of, settings_from, write_drives

pytestmark = pytest.mark.drawn

TOMLS = Path(__file__).parents[3] / "simulations" / "cdl"
TWO = """
[variants.plain]
objective.loss = "none"
[variants.cdl]
objective.loss = "kl"
evaluation.cross-evaluation = true
"""
DRAWINGS = ("learning.png", "wall-clock.png", "steering.png", "frames.png", "overlay.png")


def test_an_experiment_compares_its_runs(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = report.write_results, []
    monkeypatch.setattr(
        report, "write_results", lambda config, run: (write(config, run), written.append(run.name))
    )
    code, _, err = call({"silos-per-client": 4}, TWO)
    assert (code, err) == (0, "")
    assert written == ["plain", "cdl"]  # once each, when the data's baselines are there
    folder = tmp_path / "runs" / "cdl-x"
    lines = (folder / "results.md").read_text().splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:4]] == ["plain", "cdl"]
    rows = (folder / "results.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["variant", "plain", "cdl"]
    for place in (folder, folder / "cdl"):
        for name in DRAWINGS:
            with Image.open(place / name) as picture:
                assert np.asarray(picture.convert("L")).std() > 5, name  # something is drawn
    cdl = load_runs(folder / "cdl")
    rmse = cdl.rounds["rmse"].dropna().iloc[-1]
    assert f"{rmse:.3f}" in lines[3]
    assert "everywhere-rmse.mean" in cdl.closing
    table = (folder / "cdl" / "results.md").read_text()
    assert "constant" in table and f"{rmse:.4f}" in table and "own models everywhere" in table


def test_runs_that_differ_in_seeds_alone_are_one_line(call: Any, tmp_path: Path) -> None:
    tiny = {"silos-per-client": 2, "num-silos": 2, "num-rounds": 1}
    assert call(tiny, "seeds = [0, 1]\n")[0] == 0
    folder = tmp_path / "runs" / "cdl-x"
    lines = (folder / "results.md").read_text().splitlines()
    assert [c.strip() for c in lines[2].split("|")[1:3]] == ["cdl-x", "2"]
    assert "| own model at home | constant | cdl-x |" in lines
    rows = (folder / "results.csv").read_text().splitlines()[1:]
    assert [row.split(",")[:2] for row in rows] == [["cdl-x", "seed-0"], ["cdl-x", "seed-1"]]


@pytest.mark.parametrize("toml", sorted(p.name for p in TOMLS.glob("*.toml")))
def test_shipped_configurations_are_valid(toml: str, tmp_path: Path) -> None:
    changes = [f"results-dir={tmp_path}"]
    if toml == "drivers.toml":
        write_drives(tmp_path / "drives", tuple("abcdef"), 2)
        changes.append(f"data.dir={tmp_path / 'drives'}")
    experiment = plan_experiment(Request(TOMLS / toml, changes))
    assert len(experiment.chosen) > 1
    assert all(plan.settings.system == "cdl" for plan in experiment.plans.values())


@pytest.mark.parametrize("count", [1, 2, 7, 12])
def test_any_number_of_drives_will_do(count: int, tmp_path: Path) -> None:
    names = tuple(f"drive_{i:02d}" for i in range(count))
    write_drives(tmp_path / "drives", names, 40)
    places = {"dir": tmp_path / "drives", "cache-dir": tmp_path / "cache", "image-size": 32}
    changes = [f"results-dir={tmp_path}", *(f"data.{key}={value}" for key, value in places.items())]
    for plan in plan_experiment(Request(TOMLS / "drivers.toml", changes)).plans.values():
        assert isinstance(plan.settings, CDLConfig)
        roster = SYSTEM.prepare(plan.settings, silent)
        assert [name for member in roster.members for name in member.details["names"]] == [*names]
        made = plan_of(plan.settings, roster)
        assert (
            made.network.labels == names and made.network.name == ("gaia", "amazon_us")[count > 11]
        )
        assert plan.settings.federation.scenario == "local" or count == 1 or made.overlay.edges


def test_a_missing_folder_of_drives_is_told_by_its_key(tmp_path: Path) -> None:
    config = settings_from(config_of(tmp_path, tmp_path, "x", data_dir=str(tmp_path / "none")))
    with pytest.raises(InputError, match=r"data\.dir: .*none is not a folder"):
        SYSTEM.prepare(config, silent)
