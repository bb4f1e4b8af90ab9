"""Clients that keep something, or answer in stages: workers of Ray make the bytes of one process, whoever is killed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedsuite.history import read_rows
from fedsuite.runs.folder import folder_of
from simulations.engines.inprocess import run_inprocess
from simulations.engines.ray.launch import run_ray
from simulations.engines.ray.placement import Placement
from simulations.systems import settings_of
from tests import cdl_runs, fedrl_runs, summed_runs
from tests.fedvln_runs import METHODS, chain_in
from tests.harness import config_from, here, prepared, results_of, run_toy
from tests.simulations.experiments.test_experiment import run_at, write
from tests.simulations.test_many_clients import SOME
from tests.simulations.test_sums_of_systems import NOISED

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("one_ray")]


def _many_clients(cache: Path, results: Path, name: str) -> dict[str, Any]:
    paths = {"cache-dir": str(cache), "results-dir": str(results), "name": name}
    return config_from({**SOME, **paths})


def _sealed(cache: Path, results: Path, name: str) -> dict[str, Any]:
    ring = {"system": "tests.golden.runs:CDL", "scenario": "ring", "sealed": True}
    return cdl_runs.config_of(cache, results, name, **ring, num_rounds=2, checkpoint_every=2)


def _noised_sum(_: Path, results: Path, name: str) -> dict[str, Any]:
    return summed_runs.config_of(results, name, **NOISED)


RUNS: dict[str, Callable[[Path, Path, str], dict[str, Any]]] = {
    "more clients than nodes, a sample of which is asked": _many_clients,
    "messages that only peers can read": _sealed,
    "a sum with each member's own noise": _noised_sum,
}


DRAWN = ("/secure-sum-peers/", "/sealed-keys/")  # keys, which no seed tells


def on_ray(config: dict[str, Any], workers: int = 2) -> None:
    folder = folder_of(settings_of(config)[1])
    run_ray(config, folder, min(len(prepared(config)), 5), Placement(workers))


@pytest.mark.parametrize("name", RUNS)
def test_two_workers_make_the_bytes_of_one_process(name: str, cache: Path, tmp_path: Path) -> None:
    alone, shared = (RUNS[name](cache, tmp_path, run) for run in ("alone", "shared"))
    run_inprocess(alone)
    on_ray(shared)
    found = [
        {file: said for file, said in results.items() if not any(map(file.count, DRAWN))}
        for results in (results_of(folder_of(settings_of(config)[1])) for config in (alone, shared))
    ]
    assert found[0] == found[1] and len(found[0]) > 2


def test_encoders_that_houses_keep(tmp_path_factory: pytest.TempPathFactory) -> None:
    chain = chain_in(tmp_path_factory.getbasetemp(), __name__)
    changes = {"num_rounds": 2, **METHODS["fed-lan"]}
    chain.play("alone", **changes)
    on_ray(chain.config("shared", **changes))
    found = [results_of(folder_of(chain.settings(name))) for name in ("alone", "shared")]
    assert found[0] == found[1] and len(found[0]) > 2


def test_a_killed_worker_costs_its_message_alone(cache: Path, tmp_path: Path) -> None:
    """kill -9 while beta learns: the message is sent again, and all equals an undisturbed run."""
    few = {"round_length": 16, "step_limit": 3, "evaluate_every": 2, "test_noise": "noisy"}
    alone, shared = (
        fedrl_runs.config_of(cache, tmp_path, name, **few, parallel_episodes=8)
        for name in ("alone", "shared")
    )
    fedrl_runs.play(alone)
    (cache / "shared.dies").touch()
    on_ray(shared, workers=1)
    assert not (cache / "shared.dies").exists()
    rows = read_rows(tmp_path / "shared" / "timings.jsonl")
    assert sum(row["kind"] == "sent-again" for row in rows) == 1
    assert fedrl_runs.artefacts(tmp_path, "shared") == fedrl_runs.artefacts(tmp_path, "alone")


def test_experiments(tmp_path: Path) -> None:
    write(tmp_path, top="num-rounds = 2")
    done = here(tmp_path, "run", "exp.toml", "--workers", "1")
    assert done.returncode == 0, done.stderr
    for label, keys in (("wide", {"width": 6}), ("a-narrow", {"width": 2, "step_size": 0.05})):
        alone = run_toy(tmp_path / label, num_rounds=2, **keys)
        assert results_of(run_at(tmp_path, label)) == results_of(alone)
