"""What all tests of a session share, so that nothing is generated twice: data, and the recorded runs."""

import os
from pathlib import Path

import pytest

from tests.golden.runs import Plays


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated and converted data, by their settings; of all workers. A test that damages data has a folder of its own."""
    return of_all_workers(tmp_path_factory) / "cache"


@pytest.fixture(scope="session")
def plays(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Plays:
    """Runs of tests/golden/runs.py as they stand there, of all workers; read only."""
    return Plays(of_all_workers(tmp_path_factory) / "plays", cache)


def of_all_workers(factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this session have in common."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
