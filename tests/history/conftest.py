"""A finished run of each system, which all tests of histories look at."""

from pathlib import Path

import pytest

from tests.golden.runs import Plays

NAMES = ("cdl-ring", "rl-joint", "vln-train-parallel")


@pytest.fixture(scope="session")
def three_runs(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A folder with the runs `NAMES`."""
    runs = Plays(tmp_path_factory.mktemp("three"), cache)
    folders = [runs.folder(name) for name in NAMES]
    return folders[0].parent
