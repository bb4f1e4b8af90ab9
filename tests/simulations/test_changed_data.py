"""Data that were edited between a stop and `--resume`: refused in one line, with everything of the run as it was."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import fedsuite.driving.report.run
from fedsuite.errors import InputError
from fedsuite.roster.members import CONTENT, Roster, read_roster, write_roster
from fedsuite.storage.files import sha256_of
from simulations.engines.inprocess import run_inprocess
from tests import cdl_runs, fedvln_runs
from tests.harness import toml_from
from tests.mistakes.refusing import Call, said


def files_of(run: Path) -> dict[str, str]:
    """SHA-256 of every file of a run."""
    return {str(p): sha256_of(p.read_bytes()) for p in sorted(run.rglob("*")) if p.is_file()}


def test_houses(data_dir: Path, tmp_path: Path, call: Call) -> None:
    own = {"data-dir": str(data_dir), "features": str(data_dir / "features.tsv"), "name": "run"}
    (tmp_path / "run.toml").write_text(toml_from({**fedvln_runs.TINY, **own, "cache-dir": "one"}))
    assert call("run", "run.toml")[0] == 0
    run, file = tmp_path / "runs" / "run", data_dir / "annotations" / "R2R_train.json"
    begun, items = files_of(run), json.loads(file.read_text())
    shutil.copy(file, tmp_path / "kept.json")
    again = ("run", "--resume", "run", "--set", "num-rounds=2")
    file.write_text(json.dumps(sorted(items[::-1], key=lambda item: item["scan"] != "oak")))
    line = said(call(*again))
    assert f"{run}: cannot resume, the data are not those that the run was begun with: " in line
    assert "words were known" in line
    items[0]["heading"] += 1.0  # neither a word nor a number of instructions
    file.write_text(json.dumps(items))
    assert "what is in connectivity/ and annotations/ has changed" in said(call(*again))
    assert files_of(run) == begun
    shutil.copy(tmp_path / "kept.json", file)  # written at another time
    assert call(*again, "--set", "data.cache-dir=two")[0] == 0
    assert json.loads((run / "run.json").read_text())["status"] == "completed"


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """CDL's runs end without drawings, which take longer than such a run."""
    monkeypatch.setattr(fedsuite.driving.report.run, "draw_data", lambda config, folder: None)
    monkeypatch.setattr(fedsuite.driving.report.run, "write_results", lambda config, folder: None)


@pytest.mark.usefixtures("undrawn")
def test_a_mixing_matrix(cache: Path, tmp_path: Path) -> None:
    """As plain Flower resumes a run, without the command line; and a run of before content was told."""
    matrix = tmp_path / "matrix.csv"
    np.savetxt(matrix, np.full((2, 2), 0.5), delimiter=",")
    changes = {"scenario": "custom", "underlay_file": str(matrix), "num_silos": 2, "num_rounds": 1}
    config = cdl_runs.config_of(cache, tmp_path, "run", **changes, checkpoint_every=1)
    run_inprocess(config)
    run = tmp_path / "run"
    longer = {**config, "num-rounds": 2, "resume": str(run)}
    begun = {k: v for k, v in files_of(run).items() if not k.endswith("run.json")}
    np.savetxt(matrix, [[0.9, 0.1], [0.1, 0.9]], delimiter=",")
    with pytest.raises(InputError, match=r"what is in federation.underlay-file has changed; put"):
        run_inprocess(longer)
    assert begun.items() <= files_of(run).items()
    roster = read_roster(run / "roster.json")
    facts = {key: value for key, value in roster.facts.items() if key != CONTENT}
    write_roster(run / "roster.json", Roster(roster.members, facts))
    run_inprocess(longer)


@pytest.mark.usefixtures("undrawn")
def test_drives(tmp_path: Path) -> None:
    """An angle that is corrected; the same drives, written again, are the same."""
    cdl_runs.write_drives(tmp_path / "drives", frames=40)
    changes = {"num_silos": 0, "data_dir": str(tmp_path / "drives"), "num_rounds": 1}
    config = cdl_runs.config_of(tmp_path / "cache", tmp_path, "run", **changes, checkpoint_every=1)
    run_inprocess(config)
    longer = {**config, "num-rounds": 2, "resume": str(tmp_path / "run")}
    log = tmp_path / "drives" / "ada" / "driving_log.csv"
    kept = log.read_text()
    log.write_text(kept.replace("-0.29", "-0.28"))
    with pytest.raises(InputError, match="what is in the drives' angles has changed"):
        run_inprocess(longer)
    shutil.rmtree(tmp_path / "drives")
    cdl_runs.write_drives(tmp_path / "drives", frames=40)
    run_inprocess({**longer, "cdl.data.cache-dir": str(tmp_path / "elsewhere")})
