"""What was read of a file is kept while the file is the same, and no longer: in every system's data, within one process."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.plan import make_plan
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.gridworld.generator import write_generated
from fedsuite.fedrl.gridworld.world import open_gridworld
from fedsuite.fedrl.text2action.world import open_text_world
from fedsuite.roster.members import Roster
from fedsuite.storage.read_once import read_once
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.roster import make_roster
from fedsuite.vln.data.sources import open_sources, prepare_sources
from tests.harness import changed


def test_read_again_only_where_size_or_time_differ(tmp_path: Path) -> None:
    read = []

    @read_once(lambda name, twice=False: [tmp_path / name], kept=2)
    def content(name: str, twice: bool = False) -> str:
        read.append(name)
        text = (tmp_path / name).read_text() if (tmp_path / name).exists() else ""
        return 2 * text if twice else text

    assert content("a") == "" and content("a") == ""
    (tmp_path / "a").write_text("x")
    assert content("a") == "x" and content("a", twice=True) == "xx" and content("a") == "x"
    assert len(read) == 3
    (tmp_path / "a").write_text("y")
    os.utime(tmp_path / "a", ns=(1, 1))
    assert content("a") == "y" and content("a") == "y" and len(read) == 4
    content.cache_clear()
    assert content("a") == "y" and len(read) == 5
    assert content.__name__ == "content"


def test_annotations_and_views(data_dir: Path, tmp_path: Path) -> None:
    def prepared() -> tuple[Roster, int]:
        own = {"dir": str(data_dir), "cache_dir": str(tmp_path / "cache"), "min_word_count": 1}
        config = changed(FedVLNConfig(), **own, features=str(tmp_path / "views"))
        sources = prepare_sources(config)
        assert open_sources(config) is sources
        return make_roster(config, sources), sources.feature_size

    features = data_dir / "features.tsv"
    own = {"dir": str(data_dir), "cache_dir": str(tmp_path / "cache"), "features": str(features)}
    prepare_sources(changed(FedVLNConfig(), **own))
    (views,) = (tmp_path / "cache").glob("views-*")
    views.rename(tmp_path / "views")
    (before, width), (again, _) = prepared(), prepared()
    assert before.digest == again.digest
    file = data_dir / "annotations" / "R2R_train.json"
    file.write_text(file.read_text().replace("Walk", "Stride"))
    after, _ = prepared()
    assert "stride" in {*after.words} - {*before.words}
    for house in (tmp_path / "views").glob("*.npy"):
        np.save(house, np.load(house)[..., :-1].copy())
    assert prepared()[1] == width - 1


def test_networks(tmp_path: Path) -> None:
    file = tmp_path / "matrix.csv"
    config = changed(CDLConfig(), scenario="custom", underlay_file=str(file), num_silos=2)
    for own in (0.5, 0.9):
        matrix = np.array([[own, 1 - own], [1 - own, own]])
        np.savetxt(file, matrix, delimiter=",")
        assert np.allclose(make_plan(config).mixing.matrix(0), matrix)
        assert make_plan(config) is make_plan(config)


def test_maps(tmp_path: Path) -> None:
    config = changed(FedRLConfig(), data_dir=str(tmp_path), grid_size=8)
    worlds = []
    for seed in (0, 1):
        write_generated(tmp_path / "frl_grid_8.npz", 40, 8, seed)
        worlds.append(open_gridworld(config))
        assert open_gridworld(config) is worlds[-1]
    assert worlds[0].facts["shared-maps"] != worlds[1].facts["shared-maps"]


@pytest.mark.slow
def test_word_vectors(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    own = {"world": "text2action", "cache_dir": str(tmp_path), "word_vectors": str(file)}
    for text, words in (("to 1 2\n", 1), ("to 1 2\nthe 3 4\n", 2)):
        file.write_text(text)
        table = open_text_world(changed(FedRLConfig(), **own)).table
        assert len(table.word_vectors) == 1 + words
