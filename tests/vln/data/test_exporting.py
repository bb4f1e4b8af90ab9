"""Generated houses as Room-to-Room's files: what comes back is what went out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.settings.config import read_config
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import load_vocabulary
from fedsuite.vln.data.exporting import export_r2r
from fedsuite.vln.data.roster import make_roster
from fedsuite.vln.data.sources import prepare_sources

FEW = {
    "generated-seen-houses": 2,
    "generated-unseen-houses": 1,
    "generated-paths-per-house": 8,
    "generated-feature-size": 8,
    "min-word-count": 2,
}


@pytest.fixture
def config(cache: Path) -> FedVLNConfig:
    return read_config(FedVLNConfig, {"data": {**FEW, "cache-dir": str(cache)}})


@pytest.mark.parametrize("features", ["tsv", "hdf5"])
def test_a_run_reads_what_was_exported(config: FedVLNConfig, tmp_path: Path, features: str) -> None:
    file = export_r2r(config, tmp_path / "houses", features)
    own = replace(
        config.data,
        dir=str(tmp_path / "houses"),
        features=str(file),
        cache_dir=str(tmp_path / "own"),
    )
    made, read = prepare_sources(config), prepare_sources(replace(config, data=own))
    assert read.manifest == made.manifest and read.feature_size == 8
    assert load_vocabulary(read.houses_dir) == load_vocabulary(made.houses_dir)
    scans = list(made.manifest["panoramas"])
    assert len(scans) == 3
    for scan in scans:
        episodes = [s.houses_dir / scan / "episodes.json" for s in (made, read)]
        assert episodes[0].read_bytes() == episodes[1].read_bytes()
        a, b = (np.load(s.views_dir / f"{scan}.npy") for s in (made, read))
        assert np.array_equal(a, b) and a.any()
    again = make_roster(replace(config, data=own), read)
    assert again.members == make_roster(config, made).members


def test_nothing_is_overwritten_and_files_are_no_worlds(
    config: FedVLNConfig, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(InputError, match="mine: is there already"):
        export_r2r(config, tmp_path / "mine")
    with pytest.raises(InputError, match=r"data\.dir: .*leave it out"):
        export_r2r(replace(config, data=replace(config.data, dir=str(tmp_path))), tmp_path / "new")
    assert [f.name for f in tmp_path.iterdir() if not f.name.startswith(".")] == ["mine"]


def test_the_command(call, cache: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    changes = [f"data.{key}={value}" for key, value in FEW.items()] + [f"data.cache-dir={cache}"]
    arguments = [word for change in changes for word in ("--set", change)]
    export = ("data", "export", "houses", "--to", "r2r", "-o", "out")
    code, out, err = call(*export, *arguments, engine=False)
    assert code == 0, err
    assert "--set data.dir=out --set data.features=out/features.tsv" in out
    assert {f.name for f in (tmp_path / "out").iterdir()} == {
        "connectivity",
        "annotations",
        "features.tsv",
    }
    code, _, err = call(*export[:-1], "new", "--set", "data.generated-houses=3", engine=False)
    assert code == 2 and "data.generated" in err and not (tmp_path / "new").exists()
