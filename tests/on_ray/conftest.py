"""Tests that start Ray. All of this folder runs in one process of pytest, one after the other (tests/conftest.py): several
Rays that start side by side on a small machine make each other many times slower.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulations.engines.ray.placement import Placement
from simulations.engines.ray.session import ray_for


@pytest.fixture(scope="module")
def one_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Ray that all runs of a file use, with room for eight workers and two GPUs that are only counted; its logs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # Ray would count these
        with ray_for(Placement(8, 2), tmp_path_factory.mktemp("ray")) as logs:
            yield logs
