"""Each system on a GPU: the numbers of a CPU to rounding, and its own to the last bit.

Dropout and sampled actions are drawn where the network is, so a GPU draws others; the runs here have neither.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

from simulations.engines.inprocess import run_inprocess
from simulations.engines.ray.dry_step import weighed
from tests.golden.record import fingerprint_of_file
from tests.golden.runs import RUNS, Settings
from tests.harness import config_from

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")

_HOUSES: Settings = {
    "dropout": 0.0,
    "feature-dropout": 0.0,
    "objective": "none",
    "teacher-weight": 1.0,
}
_SIDE_BY_SIDE: Settings = {"houses-per-message": 2, "stacked": "yes"}
# Sizes in eights, with which whole turns are replayed (fedsuite/vln/model/replayed_turns.py).
_REPLAYED: Settings = {"cuda-graphs": "auto", "action-embedding-size": 8}
_SCAFFOLD: Settings = {"control-variates": True, "server-optimizer": "none"}
_ROADS: Settings = {"silos-per-client": 4, "network.dropout": 0.0}
# By name: a run of tests/golden, and what is different here.
COMPARED: dict[str, tuple[str, Settings]] = {
    "houses": ("vln-train-parallel", _HOUSES),
    "houses, centralised": ("vln-train-centralised", _HOUSES),
    "houses, stacked": ("vln-train-parallel", {**_HOUSES, **_SIDE_BY_SIDE}),
    "houses, stacked, SCAFFOLD": ("vln-train-parallel", {**_HOUSES, **_SIDE_BY_SIDE, **_SCAFFOLD}),
    "houses, replayed": ("vln-train-parallel", {**_HOUSES, **_SIDE_BY_SIDE, **_REPLAYED}),
    "speaker": ("vln-speaker", {"dropout": 0.0, "feature-dropout": 0.0}),
    "roads, none": ("cdl-ring", {**_ROADS, "loss": "none", "stacked": "no"}),
    "roads, none, stacked": ("cdl-ring", {**_ROADS, "loss": "none", "stacked": "yes"}),
    "roads, kl, stacked": ("cdl-ring", {**_ROADS, "loss": "kl", "stacked": "yes"}),
    "roads, cd_k, stacked": ("cdl-ring", {**_ROADS, "loss": "cd_k", "stacked": "yes"}),
    "roads, group norm": ("cdl-ring", {**_ROADS, "batch-norm": "group", "stacked": "yes"}),
    "roads, kl": ("cdl-ring", {**_ROADS, "loss": "kl", "stacked": "no"}),
    "roads, mixed on the GPU": ("cdl-ring-two-mixings", {**_ROADS, "stacked": "yes"}),
    "roads, tracking": (
        "cdl-ring-two-mixings",
        {**_ROADS, "stacked": "yes", "training.optimizer": "gradient-tracking", "loss": "none"},
    ),
    "maps, alternating": ("rl-alternating", {}),
    "maps, joint": ("rl-joint", {}),
    "texts": ("rl-text", {}),
}
REPEATED: dict[str, tuple[str, Settings]] = {
    **COMPARED,
    "houses, a2c, dropout": ("vln-train-centralised", {"dropout": 0.5, "objective": "a2c"}),
    "houses, stacked, a2c, dropout": (
        "vln-train-parallel",
        {**_SIDE_BY_SIDE, "dropout": 0.5, "objective": "a2c"},
    ),
    "houses, replayed, sizes not in eights": (
        "vln-train-parallel",
        {**_HOUSES, **_SIDE_BY_SIDE, "cuda-graphs": "auto"},
    ),
    "houses, replayed, a2c, dropout": (
        "vln-train-parallel",
        {**_SIDE_BY_SIDE, **_REPLAYED, "dropout": 0.5, "objective": "a2c"},
    ),
    "houses, shared": ("vln-train-shared", {"dropout": 0.5}),
    "speaker, dropout": ("vln-speaker", {"dropout": 0.5}),
    "roads, dropout, stacked": ("cdl-ring", {"silos-per-client": 4, "stacked": "yes"}),
    "roads, dropout": ("cdl-ring", {"silos-per-client": 4, "stacked": "no"}),
}

Play = Callable[[str, Settings], Path]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """`play(name of a golden run, changes)`: carries it out anew, and gives its folder."""
    count = 0

    def play(name: str, changes: Settings) -> Path:
        nonlocal count
        count += 1
        own: Settings = {"name": f"{name}-{count}", "results-dir": str(tmp_path / "runs")}
        run_inprocess(
            config_from({**own, "cache-dir": str(tmp_path / "cache"), **RUNS[name], **changes})
        )
        return tmp_path / "runs" / f"{name}-{count}"

    return play


def apart_and_learnt(cpu: Path, gpu: Path) -> tuple[float, float]:
    """How far two runs' last models are from each other, and the first one's from where it began."""
    start, expected, came = (
        _flat(folder / "checkpoints" / file)
        for folder, file in (
            (cpu, "round-000000.safetensors"),
            (cpu, _last(cpu)),
            (gpu, _last(gpu)),
        )
    )
    names = [k for k in expected if k in start and start[k].shape == expected[k].shape]
    assert expected.keys() == came.keys()
    learnt = _norm({k: expected[k] - start[k] for k in names})
    return _norm({k: expected[k] - came[k] for k in names}), learnt


@pytest.mark.parametrize("case", COMPARED)
def test_learns_what_a_cpu_learns(play: Play, case: str) -> None:
    name, changes = COMPARED[case]
    one_by_one: Settings = {"stacked": "no"} if "stacked" in changes else {}
    cpu = play(name, {**changes, **one_by_one, "device": "cpu"})
    gpu = play(name, {**changes, "device": "cuda"})
    apart, learnt = apart_and_learnt(cpu, gpu)
    assert learnt > 0
    print(f"{case}: {apart / learnt:.1e} of what was learnt")
    assert apart < 1e-3 * learnt


@pytest.mark.parametrize("case", REPEATED)
def test_repeats_itself_to_the_last_bit(play: Play, case: str) -> None:
    name, changes = REPEATED[case]
    folders = [play(name, {**changes, "device": "cuda"}) for _ in range(2)]
    first, second = (fingerprint_of_file(f / "model.safetensors") for f in folders)
    assert first == second


def _last(folder: Path) -> str:
    return max(path.name for path in (folder / "checkpoints").glob("round-*"))


def _flat(path: Path) -> dict[str, np.ndarray]:
    arrays = safetensors.numpy.load(path.read_bytes())
    return {k: v.astype(np.float64) for k, v in arrays.items() if v.dtype.kind == "f"}


def _norm(arrays: dict[str, np.ndarray]) -> float:
    return float(np.sqrt(sum((v**2).sum() for v in arrays.values())))


def test_a_dry_step_weighs_two_houses(tmp_path: Path) -> None:
    places: Settings = {"results-dir": str(tmp_path / "runs"), "cache-dir": str(tmp_path / "cache")}
    small: Settings = {**RUNS["vln-train-parallel"], **places, "name": "weighed", "device": "cuda"}
    weight = weighed(config_from(small))
    total = torch.cuda.get_device_properties(0).total_memory
    assert 10**8 < weight.first < weight.free <= total  # CUDA itself takes hundreds of MB
    assert 0 < weight.each < weight.first and weight.side_by_side >= 2
