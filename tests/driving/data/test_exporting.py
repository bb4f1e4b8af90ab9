"""Generated roads as a LeRobot folder: what comes back is what went out."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.exporting import export_lerobot
from fedsuite.driving.data.fleet import read_drives
from fedsuite.driving.data.frames import open_silo, silo_names
from fedsuite.driving.data.readers import FrameFormat, pictures
from fedsuite.driving.data.sources import prepare_sources
from fedsuite.errors import InputError
from fedsuite.settings.config import read_config

FEW = {"num-silos": 2, "train-frames": 300, "test-frames": 5, "image-size": 40}


@pytest.fixture
def config(cache: Path) -> CDLConfig:
    return read_config(CDLConfig, {"data": {**FEW, "cache-dir": str(cache)}})


def test_every_frame_and_angle_is_in_the_folder(config: CDLConfig, tmp_path: Path) -> None:
    folder, made = export_lerobot(config, tmp_path / "roads"), prepare_sources(config.data, 2, ())
    silos = [open_silo(made, name) for name in silo_names(made)]
    parts = [silo.train for silo in silos] + [silo.test for silo in silos]
    info = json.loads((folder / "meta" / "info.json").read_text())
    assert info["total_episodes"] == 4 and info["splits"] == {"train": "0:2", "test": "2:4"}
    (episodes,) = (folder / "meta" / "episodes").rglob("*.parquet")
    told = pq.read_table(episodes).to_pylist()
    assert [row["tasks"] for row in told] == [[name] for name in silo_names(made)] * 2
    for number, (part, row) in enumerate(zip(parts, told, strict=True)):
        table = pq.read_table(folder / f"data/chunk-000/file-{number:03d}.parquet")
        assert len(table) == len(part) == row["length"]
        assert table["index"].to_pylist() == list(
            range(row["dataset_from_index"], row["dataset_to_index"])
        )
        assert table["action"].to_pylist() == part.angles.tolist()
        for name, feature in info[
            "features"
        ].items():  # as LeRobot casts them: of shape [1] the number itself
            if feature["dtype"] != "image":
                arrow = {"float32": "float", "int64": "int64"}[feature["dtype"]]
                assert feature["shape"] == [1] and str(table.schema.field(name).type) == arrow
        for i in (0, len(part) - 1):
            with Image.open(
                io.BytesIO(table["observation.images.front"][i]["bytes"].as_py())
            ) as png:
                assert png.mode == "RGB"
                assert np.array_equal(np.asarray(png)[..., 0], part.images[i][0])
    tasks = pq.read_table(folder / "meta" / "tasks.parquet").to_pandas()
    assert tasks.index.tolist() == silo_names(made)


def test_the_projects_own_reader_takes_it_as_it_is(config: CDLConfig, tmp_path: Path) -> None:
    folder = export_lerobot(config, tmp_path / "roads")
    own = read_config(CDLConfig, {"data": {"dir": str(folder), "num-silos": 2}})
    (drive,) = read_drives(own.data)
    made = prepare_sources(config.data, 2, ())
    silos = [open_silo(made, name) for name in silo_names(made)]
    angles = [*(s.train.angles for s in silos), *(s.test.angles for s in silos)]
    assert drive.kind == "lerobot" and drive.unit == "radians"
    assert np.array_equal(drive.angles, np.concatenate(angles))
    assert drive.runs is not None and np.bincount(drive.runs).tolist() == [300, 300, 5, 5]
    wanted = np.zeros(len(drive), bool)
    wanted[[0, 609]] = True
    assert [i for i, _ in pictures(drive, wanted, FrameFormat(40))] == [0, 609]


def test_lerobots_own_reader_finds_the_same(config: CDLConfig, tmp_path: Path) -> None:
    """Where its package is installed; it is none of the development tools."""
    own = pytest.importorskip("lerobot.datasets.lerobot_dataset", reason="lerobot is not installed")
    folder, made = export_lerobot(config, tmp_path / "roads"), prepare_sources(config.data, 2, ())
    silos = [open_silo(made, name) for name in silo_names(made)]
    parts = [silo.train for silo in silos] + [silo.test for silo in silos]
    theirs = own.LeRobotDataset("made/here", root=folder)
    assert len(theirs) == sum(map(len, parts))
    rows = iter(range(len(theirs)))
    for number, part in enumerate(parts):
        for place in range(len(part)):
            found = theirs[next(rows)]
            assert (int(found["episode_index"]), int(found["frame_index"])) == (number, place)
            assert float(found["action"].reshape(-1)[0]) == float(part.angles[place])
            picture = (found["observation.images.front"].numpy() * 255).round().astype(np.uint8)
            assert np.array_equal(picture[0], part.images[place][0])


def test_nothing_is_overwritten_and_drives_are_no_roads(config: CDLConfig, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(InputError, match="mine: is there already"):
        export_lerobot(config, tmp_path / "mine")
    given = read_config(CDLConfig, {"data": {"dir": str(tmp_path)}})
    with pytest.raises(InputError, match=r"data\.dir: .*leave it out"):
        export_lerobot(given, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_command_names_the_form_that_there_is(call, tmp_path: Path) -> None:
    code, _, err = call("data", "export", "roads", "--to", "r2r", "-o", "x", engine=False)
    assert code == 2 and "--to: roads are not exported as r2r; give --to lerobot" in err
    assert not (tmp_path / "x").exists()
