"""A run of CDL from a LeRobot folder, as a user starts it: parquet and mp4 in, a trained network out."""

import json

import numpy as np
import pytest

from fedsuite.driving.data.frames import open_silo, silo_names
from simulations.commands.cli import main
from tests.harness import exit_code_of
from tests.lerobot_folders import angle_of, write_lerobot

LENGTHS = (70, 90, 60)


@pytest.mark.slow
def test_a_run_from_a_folder_of_videos(tmp_path, monkeypatch) -> None:
    folder = write_lerobot(tmp_path / "cars", lengths=LENGTHS)
    (folder / "drives.toml").write_text('["*"]\nangle-unit = "normalised"\npositive = "right"\n')
    told = {
        "data.dir": folder, "data.num-silos": 2, "data.image-size": 32, "data.every-nth": 2, "num-rounds": 1,
        "data.cache-dir": tmp_path / "cache", "federation.mixings-per-round": 1,
        "training.batch-size": 4, "evaluate-every": 1, "checkpoint-every": 1, "results-dir": tmp_path / "runs",
    }  # fmt: skip
    monkeypatch.chdir(tmp_path)
    arguments = [part for key, value in told.items() for part in ("--set", f"{key}={value}")]
    command = ["run", "cdl/drivers", "--only", "local", "--seeds", "0", "--engine", "inprocess"]
    monkeypatch.setattr("sys.argv", ["fedsuite", *command, *arguments])
    assert exit_code_of(main) == 0
    (run,) = [path.parent for path in (tmp_path / "runs").rglob("model.safetensors")]
    roster = json.loads((run / "roster.json").read_text())
    assert roster["facts"]["unit"] == "fraction of full lock"
    (made,) = (tmp_path / "cache").glob("drives-*")
    silos = [open_silo(made, name) for name in silo_names(made)]
    found = [float(a) for s in silos for part in (s.train, s.test) for a in part.angles]
    ends = np.cumsum((0, *LENGTHS))
    every = [
        row for first, n in zip(ends, LENGTHS, strict=False) for row in range(first, first + n, 2)
    ]
    assert len(silos) == 2 and set(found) <= {np.float32(-angle_of(row)) for row in every}
    assert 60 < len(found) <= len(every)
