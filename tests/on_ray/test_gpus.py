"""Ray gives every GPU its share of the workers; the GPUs of these tests are only counted."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import Value
from simulations.engines.ray import launch
from simulations.engines.ray.placement import Placement
from simulations.systems import to_run_config
from tests.harness import results_of, run_toy, toy_settings
from tests.placed_toy import FILE

LOGICAL_GPUS = 2
# One run of Ray for each: WORKERS_PER_GPU=1,2,4 tries more than every test does.
TRIED = [int(k) for k in os.environ.get("WORKERS_PER_GPU", "2").split(",")]


@pytest.mark.ray
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("one_ray")
@pytest.mark.parametrize("per_gpu", TRIED)
def test_every_gpu_has_as_many_workers_and_the_bytes_are_those_without_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_gpu: int
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # Ray would count these
    placed = Placement(LOGICAL_GPUS * per_gpu, LOGICAL_GPUS)
    sizes: dict[str, Value] = {
        "num_clients": placed.workers,
        "num_rounds": 1,
        "system": "tests.placed_toy:SYSTEM",
    }
    settings = toy_settings(tmp_path / "ray", **sizes)
    folder = RunFolder(tmp_path / "ray" / settings.name)
    launch.run_ray(to_run_config(settings), folder, placed.workers, placed)

    told = [json.loads(file.read_text()) for file in folder.clients.glob(f"*/{FILE}")]
    assert len({worker["pid"] for worker in told}) == placed.workers
    assert Counter(worker["gpu"] for worker in told) == {
        str(gpu): per_gpu for gpu in range(LOGICAL_GPUS)
    }
    record = {"engine": "ray", "workers": placed.workers, "gpus": LOGICAL_GPUS}
    assert folder.status()["placement"] == {**record, "workers-per-gpu": per_gpu}
    assert results_of(folder) == results_of(run_toy(tmp_path / "plain", **sizes))
