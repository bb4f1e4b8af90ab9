"""Tables of finished CDL runs from their folders alone: no data are there to be opened."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data import frames
from fedsuite.driving.report import experiment, run
from fedsuite.reports.outcomes import BASELINES
from tests.harness import changed


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("data are opened")

    monkeypatch.setattr(frames, "open_silo", refuse)
    monkeypatch.setattr(run, "open_own", refuse)


def leave_run(folder: Path, rmse: float, baselines: bool = True) -> None:
    """A run of two silos and three rounds, the last of them not evaluated."""
    lines = [
        {"round": r, "kind": "round", "metrics": {"rmse": rmse + 1 - r / 2, "mae": rmse / 2, "mixings": r}
         | {"silo.0.rmse": rmse, "silo.0.mae": 0.1, "silo.1.rmse": 2 * rmse, "silo.1.mae": 0.2}}
        for r in range(3)
    ]  # fmt: skip
    lines.append({"round": 3, "kind": "round", "metrics": {"mixings": 3}})
    lines.append(
        {
            "round": 3,
            "kind": "closing",
            "metrics": {f"everywhere-{k}.mean": 0.75 for k in ("rmse", "mae")},
        }
    )
    folder.mkdir(parents=True)
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if baselines:
        errors = {"rmse": 0.5, "mae": 0.25}
        silos = [{"name": name, **errors} for name in ("zoo", "alm")]
        content = {"constant": errors, "random": {"rmse": 0.7, "mae": 0.4}, "silos": silos}
        (folder / BASELINES).write_text(json.dumps(content))


@pytest.mark.slow
def test_a_run_shows_baselines_where_they_are_known(tmp_path: Path) -> None:
    config = changed(CDLConfig(), cache_dir=str(tmp_path / "none"))
    for name, known in (("a", True), ("b", False)):
        leave_run(tmp_path / name, 0.25, known)
        run.write_results(config, tmp_path / name)
        text = (tmp_path / name / "results.md").read_text()
        assert "| average model, all test frames | 0.2500 | 0.1250 |" in text
        assert ("| constant | 0.5000 | 0.2500 |" in text) == known
        assert (tmp_path / name / "learning.png").stat().st_size > 1000


def test_runs_are_compared_without_data(tmp_path: Path) -> None:
    runs = {}
    for label, rmse in (("ring/seed-0", 0.2), ("ring/seed-1", 0.4), ("star/seed-0", 0.3)):
        leave_run(tmp_path / label, rmse)
        runs[label] = changed(CDLConfig(), cache_dir=str(tmp_path / "none"), seed=int(label[-1]))
    (tmp_path / "star/seed-0" / "overlay.png").write_bytes(b"drawing")
    experiment.write_comparison(tmp_path, runs)
    lines = (tmp_path / "results.md").read_text().splitlines()
    head, _, ring, star = ([c.strip() for c in line.strip("|").split("|")] for line in lines[:4])
    found = dict(zip(head, ring, strict=True))
    deviation = f"{np.std([0.2, 0.4], ddof=1):.3f}"
    assert found["run"] == "ring" and found["RMSE"] == f"0.300 ± {deviation}"
    assert found["constant"] == "0.500 ± 0.000" and found["mixings"] == "2"
    assert star[:3] == ["star", "1", "0.300"]
    assert {"silo RMSE", "cycle ms"}.isdisjoint(head) and "everywhere" in head
    assert "| zoo | 0.500 / 0.250 | 0.300 / 0.100 | 0.300 / 0.100 |" in lines
    assert (tmp_path / "overlay.png").read_bytes() == b"drawing"


def test_without_baselines_nothing_is_said_of_them(tmp_path: Path) -> None:
    leave_run(tmp_path / "one", 0.2, baselines=False)
    experiment.write_comparison(tmp_path, {"one": CDLConfig()})
    text = (tmp_path / "results.md").read_text()
    assert "constant" not in text and "silo by silo" not in text and "| one | 1 | 0.200 |" in text
