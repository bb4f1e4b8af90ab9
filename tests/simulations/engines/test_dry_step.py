"""How many workers share a GPU if nobody says: two clients are weighed, and as many are taken as the GPU holds.

No GPU is needed: bytes come from a script. tests/test_gpu.py weighs on a real one.
"""

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from clients.house import HouseClient
from fedsuite.errors import InputError, RunFailed
from fedsuite.roster.members import write_roster
from fedsuite.vln.data import roster as houses
from simulations.commands import cli as command
from simulations.engines.ray import dry_step, launch, placement
from simulations.engines.ray.dry_step import GpuMeter, weigh, weighed
from simulations.engines.ray.placement import Placement, Weight
from simulations.experiments import launching
from simulations.fedvln.client import _open_site
from simulations.systems import to_run_config
from tests import cdl_runs, fedrl_runs
from tests.fedvln_runs import TINY
from tests.harness import config_from, exit_code_of, prepared, toy_settings, write_toml

GB = 10**9


@pytest.mark.parametrize(
    ("weight", "gpus", "kept", "cores", "per_gpu"),
    [
        (Weight(80 * GB, 2 * GB, 0, 12), 1, 72, 16, 16),
        (Weight(80 * GB, 2 * GB, 0, 12), 1, 72, 12, 8),
        (Weight(80 * GB, 2 * GB, GB // 12, 12), 1, 72, 16, 8),  # 7.9 GB each
        (Weight(80 * GB, 2 * GB, GB // 5, 12), 1, 72, 16, 4),  # 16.2 GB each
        (Weight(80 * GB, 2 * GB, GB // 5, 12), 1, 30, 16, 8),  # with 30 open: 7.8
        (Weight(80 * GB, 8 * GB, 0, 12), 1, 1, 16, 8),
        (Weight(80 * GB, 9 * GB + 1, 0, 12), 1, 1, 16, 4),  # nine tenths are 72 GB
        (Weight(80 * GB, 73 * GB, 0, 12), 1, 1, 16, 1),  # nothing fits: the run will tell
        (Weight(80 * GB, 2 * GB, 0, 12), 4, 1, 16, 4),  # one turn; 8 would have none quicker
        (Weight(80 * GB, 2 * GB, 0, 12), 4, 1, 8, 2),
        (Weight(80 * GB, 2 * GB, 0, 12), 8, 1, 64, 2),
        (Weight(80 * GB, 2 * GB, 0, 12), 4, 1, 2, 1),  # fewer cores than GPUs
        (Weight(80 * GB, 2 * GB, 0, 1), 1, 1, 16, 1),  # one after another
        (Weight(80 * GB, 2 * GB, 0, 3), 1, 1, 16, 4),
    ],
)
def test_a_gpu_gets_the_workers_that_make_a_round_short(
    weight: Weight, gpus: int, kept: int, cores: int, per_gpu: int
) -> None:
    placed = weight.placed(gpus, kept, cores)
    assert (placed.gpus, placed.per_gpu, placed.workers) == (gpus, per_gpu, per_gpu * gpus)
    assert placed.worker_bytes == weight.first + weight.each * (kept - 1)


class Script:
    """Bytes in the order in which they are asked for."""

    def __init__(self, free: Sequence[int], held: Sequence[int]) -> None:
        self._free, self._held = iter(free), iter(held)

    def free(self) -> int:
        return next(self._free)

    def held(self) -> int:
        return next(self._held)


def houses_config(folder: Path, **changes: Any) -> dict[str, Any]:
    places = {"results-dir": str(folder / "runs"), "cache-dir": str(folder / "cache")}
    some = {"generated-seen-houses": 4, "participation-rate": 0.75, "num-rounds": 5}
    return config_from({**TINY, **some, "name": "weighed", **places}, **changes)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Houses that were opened."""
    names: list[str] = []
    original = houses.load_house

    def noted(*given: Any) -> Any:
        names.append(given[3])
        return original(*given)

    monkeypatch.setattr(houses, "load_house", noted)
    _open_site.cache_clear()
    yield names
    _open_site.cache_clear()


def test_the_two_with_most_samples_train_and_nobody_else_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    config = houses_config(tmp_path)
    roster = prepared(config)
    trained: list[str] = []
    fit = HouseClient.fit

    def noted(self: HouseClient, *given: Any) -> Any:
        trained.append(self.site.name)
        return fit(self, *given)

    monkeypatch.setattr(HouseClient, "fit", noted)
    opened.clear()
    file = tmp_path / "roster.json"
    write_roster(file, roster)
    config["roster"] = str(file)  # as `fedsuite run` hands it over
    weight = weigh(config, Script([80 * GB, 77 * GB, 76 * GB], [GB, GB + 5]))
    assert weight == Weight(free=80 * GB, first=3 * GB, each=5, side_by_side=3)
    examples = {member.name: member.examples for member in roster.members}
    assert len(trained) == 2 and opened == trained
    assert examples[trained[0]] >= examples[trained[1]]
    assert not (tmp_path / "runs").exists()  # a dry step leaves nothing of a run


@pytest.mark.parametrize(
    "merge", ["mean", "median"]
)  # one sum of a message, and a reply of each house
def test_the_houses_of_a_message_are_weighed_together(tmp_path: Path, merge: str) -> None:
    """As the run trains them: stacked."""
    changes = {
        "houses_per_message": 2,
        "stacked": "yes",
        "merge": merge,
        "generated_seen_houses": 5,
    }
    config = houses_config(tmp_path, **changes, participation_rate=1.0)
    weight = weigh(config, Script([80 * GB, 70 * GB, 69 * GB], [GB, GB + 10]))
    assert weight == Weight(free=80 * GB, first=10 * GB, each=5, side_by_side=3, together=2)
    assert weight.placed(1, 6, 16).worker_bytes == 10 * GB + 4 * 5
    everybody = houses_config(
        tmp_path, **changes | {"houses_per_message": 8}, participation_rate=1.0
    )
    weight = weigh(everybody, Script([80 * GB, 70 * GB], [GB]))
    assert weight == Weight(free=80 * GB, first=10 * GB, each=0, side_by_side=1, together=5)
    assert weight.placed(1, 5, 16) == Placement(
        1, 1, 10 * GB
    )  # a second worker would have nothing to do


def test_houses_in_turn_are_weighed_alone(tmp_path: Path, opened: list[str]) -> None:
    config = houses_config(tmp_path, aggregation="sequential")
    weight = weigh(config, Script([10, 7], [1]))
    assert weight == Weight(free=10, first=3, each=0, side_by_side=1)


@pytest.mark.parametrize("system", ["roads", "maps"])
def test_the_other_systems_are_weighed_too(tmp_path: Path, system: str) -> None:
    tiny = cdl_runs.TINY if system == "roads" else fedrl_runs.TINY
    places = {"results-dir": str(tmp_path / "runs"), "cache-dir": str(tmp_path / "cache")}
    weight = weigh(config_from({**tiny, **places}), Script([10, 7, 6], [1, 1]))
    assert (weight.free, weight.first) == (10, 3) and weight.side_by_side >= 1


def test_a_client_that_fails_is_named(tmp_path: Path) -> None:
    config = to_run_config(toy_settings(tmp_path, fault="raise", fault_round=1, fault_partition=2))
    with pytest.raises(RunFailed, match=r"^site-2: ValueError: the toy broke"):
        weigh(config, Script([10, 7], [1]))


def test_bytes_come_from_another_process_and_its_end_is_noticed() -> None:
    told = "import sys\nfor n, _ in zip((90, 70), sys.stdin):\n    print(n, flush=True)\nsys.exit('too hot')"
    meter = GpuMeter((sys.executable, "-c", told))
    try:
        assert (meter.free(), meter.free()) == (90, 70)
        with pytest.raises(RunFailed, match="memory cannot be read: too hot"):
            meter.free()
    finally:
        meter.close()


@pytest.mark.slow
def test_without_a_gpu_the_dry_step_says_what_is_missing_in_one_line(tmp_path: Path) -> None:
    config = houses_config(tmp_path, device="cuda")
    with pytest.raises(RunFailed) as failed:
        weighed(config)
    (line,) = str(failed.value).splitlines()
    assert line.startswith("the GPU's memory cannot be read: ") and "NVIDIA" in line
    assert not (tmp_path / "runs").exists()


def test_runs_that_differ_in_seed_and_name_are_weighed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Mapping[str, Any]] = []

    def measured(config: Mapping[str, Any]) -> Weight:
        asked.append(config)
        return Weight(len(asked), 1, 1, 1)

    monkeypatch.setattr(dry_step, "_known", {})
    monkeypatch.setattr(dry_step, "_in_a_process", measured)
    config = {"name": "a", "seed": 0, "roster": "a/roster.json", "batch-size": 8}
    first = weighed(config)
    assert weighed({**config, "name": "b", "seed": 1, "roster": "b/roster.json"}) is first
    assert weighed({**config, "batch-size": 16}) is not first and len(asked) == 2


@pytest.mark.parametrize(
    ("typed", "weight", "placed"),
    [
        ([], Weight(80 * GB, 2 * GB, 0, 3), "2 GPUs, 2 workers of about 2 GB on each"),
        ([], Weight(80 * GB, 60 * GB, 0, 3), "2 GPUs, 1 worker of about 60 GB on each"),
        ([], None, "2 GPUs, 1 worker on each"),
        (["--workers-per-gpu", "4"], None, "2 GPUs, 4 workers on each"),
    ],
)
def test_a_run_takes_what_the_dry_step_says_unless_it_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: list[str],
    weight: Weight | None,
    placed: str,
) -> None:
    asked: list[Any] = []

    def measured(config: Mapping[str, Any]) -> Weight:
        asked.append(config["toy.num-clients"])
        if weight is None:
            raise RunFailed("no client has trained in the first round")
        return weight

    def ray_is_not_started(*given: Any, **_: Any) -> None:
        raise InputError(f"would run on: {given[3]}")

    monkeypatch.setattr(placement, "visible_gpus", lambda: 2)
    monkeypatch.setattr(launching, "cores", lambda: 16)
    monkeypatch.setattr(dry_step, "weighed", measured)
    monkeypatch.setattr(launch, "run_ray", ray_is_not_started)
    write_toml(tmp_path, device="auto", num_clients=30)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fedsuite", "run", "toy.toml", *typed])
    assert exit_code_of(command.main) == 2
    out, err = capsys.readouterr()
    assert err == f"error: would run on: {placed}\n"
    assert asked == ([] if typed else [30])
    failed = not typed and weight is None
    told = "dry step: no client has trained in the first round; so each GPU gets one worker"
    assert (told in out) == failed


def test_what_a_worker_takes_is_kept_with_the_placement() -> None:
    placed = dataclasses.replace(placement.Placement(4, 2), worker_bytes=7)
    assert placed.record()["gpu-bytes-per-worker"] == 7
