"""Secure sums over TLS, among nodes that know each other by the keys of the kit; one of them is killed at each stage.

Models and histories are those of a simulation that loses the same silo at the same stage.
"""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedsuite.history import TIMINGS, Kind, kind_of, load_run
from fedsuite.privacy.sum_terms import KEYS, MASKED, SHARES, UNMASK
from fedsuite.runs.folder import RunFolder
from simulations.engines.inprocess import run_inprocess
from simulations.engines.nodes.following import Tail
from tests.deployed import worlds
from tests.deployed.site import Site
from tests.deployed.test_one_node_killed import LIMIT_S, deployed
from tests.harness import config_from
from tests.summed_runs import LosingGrid, played

STAGES = (KEYS, SHARES, MASKED, UNMASK)
WORLD = worlds.generated_drives(
    **{
        "num-silos": 4, "num-rounds": 1, "train-frames": 12, "test-frames": 4, "scenario": "star", "secure-sum": True,
        "min-reply-fraction": 0.5, "lost-node-patience-s": 0.0,
    }
)  # fmt: skip
WAITING: dict[str, Any] = {
    "num-rounds": 4,
    "lost-node-patience-s": 600.0,
    "min-reply-fraction": 1.0,
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with deployed(tmp_path_factory.mktemp("sums"), WORLD) as site:
        assert all('own-key = "node.key"' in f.read_text() for f in site.kit.rglob("node.toml"))
        yield site


@pytest.fixture(autouse=True)
def as_before(site: Site) -> Iterator[None]:
    """Every test finds all nodes connected, and no run."""
    yield
    for name in ("run", *site.roster.names):
        if name == "run" and site.processes[name].poll() is None:
            site.processes[name].terminate()
            site.processes[name].wait(LIMIT_S)
        elif name != "run" and site.processes[name].poll() is not None:
            start_again(site, name)
    shutil.rmtree(site.folder.path, ignore_errors=True)


def start_again(site: Site, name: str) -> None:
    site.processes[name].wait(LIMIT_S)  # it says that it has lost its SuperNode
    site.start_node(name, "--warm")
    site.wait_for(name, "is connected to", LIMIT_S)


def wait_for_stage(site: Site, tail: Tail, number: int, stage: str) -> None:
    """Until its messages are sent. A sum says how many of its small ones are through, and when training begins."""
    give_up, passed = time.monotonic() + LIMIT_S, 0
    while passed <= STAGES.index(stage):
        for row in tail.rows():
            training = kind_of(row) == Kind.EXCHANGE and row["task"] == "train"
            passed += row["round"] == number and (training or kind_of(row) == Kind.MESSAGES)
        assert site.processes["run"].poll() is None, site.said("run")
        assert time.monotonic() < give_up, site.said("run")
        time.sleep(0.05)


def kill_at(site: Site, name: str, number: int, stage: str) -> None:
    """The SuperNode of this name, before it can have answered."""
    wait_for_stage(site, Tail(site.folder.path / TIMINGS), number, stage)
    assert site.kill(name, "flower-supernode")


def config_of(tmp_path: Path, site: Site, **changes: Any) -> dict[str, Any]:
    """Of the same run as a simulation."""
    paths = {
        "cache-dir": str(site.home / "cache"),
        "results-dir": str(tmp_path),
        "name": "simulated",
    }
    return config_from({**WORLD.settings, **changes, **paths})


def history(folder: RunFolder) -> list[dict[str, Any]]:
    """Without the words for why somebody is missing."""
    lines = (folder.path / "history.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "reason"} for line in lines]


@pytest.mark.deployed
@pytest.mark.timeout(900)
@pytest.mark.parametrize("stage", STAGES)
def test_a_node_lost_at_a_stage(tmp_path: Path, site: Site, stage: str) -> None:
    """Nobody waits for it: three of four are left, which is more than half."""
    first = site.roster.names[0]
    site.start_run()
    kill_at(site, first, 1, stage)
    assert site.processes["run"].wait(LIMIT_S) == 0, site.said("run")
    assert "Traceback" not in site.said("run")
    config = config_of(tmp_path, site)
    losses = {(1, stage): [0], (1, "evaluate"): [0]}
    simulated = played(LosingGrid(config, losses), config)
    assert site.folder.model.read_bytes() == simulated.model.read_bytes()
    assert history(site.folder) == history(simulated)
    (members,) = load_run(site.folder.path).rounds["secure-sum.members"].dropna()
    assert members == (4 if stage == UNMASK else 3)


@pytest.mark.deployed
@pytest.mark.timeout(1800)
def test_a_node_that_comes_back_at_any_stage(tmp_path: Path, site: Site) -> None:
    """Its secrets lie on its disk: it is sent its task again, and the run is that of a simulation that loses nobody."""
    kept, name = site.toml, site.roster.names[1]
    site.toml = WORLD.toml(tmp_path / "waiting.toml", **WAITING)
    try:
        site.start_run()
        for number, stage in enumerate(STAGES, 1):
            kill_at(site, name, number, stage)
            start_again(site, name)
        assert site.processes["run"].wait(LIMIT_S) == 0, site.said("run")
    finally:
        site.toml = kept
    assert site.said("run").count(f"{name} is back and was sent its task again") == len(STAGES)
    config = config_of(tmp_path, site, **WAITING)
    run_inprocess(config)
    simulated = RunFolder(tmp_path / "simulated")
    for file in ("model.safetensors", "history.jsonl"):
        assert (site.folder.path / file).read_bytes() == (simulated.path / file).read_bytes()


@pytest.mark.deployed
@pytest.mark.timeout(1800)
def test_too_few_are_left(tmp_path: Path, site: Site) -> None:
    """The run ends in one line that names the stage and who is missing; resumed with all, it is a simulation's."""
    lost = site.roster.names[:2]
    site.start_run()
    wait_for_stage(site, Tail(site.folder.path / TIMINGS), 1, MASKED)
    assert all([site.kill(name, "flower-supernode") for name in lost])
    assert site.processes["run"].wait(LIMIT_S) == 1
    told = f"secure sum, {MASKED}: 2 of 4 members answered, expected at least 3; missing: {', '.join(lost)}"
    assert told in site.said("run").strip().splitlines()[-1]
    for name in lost:
        start_again(site, name)
    site.start_run(resume=True)
    assert site.processes["run"].wait(LIMIT_S) == 0, site.said("run")
    run_inprocess(config_of(tmp_path, site))
    simulated = RunFolder(tmp_path / "simulated")
    for file in ("model.safetensors", "history.jsonl"):
        assert (site.folder.path / file).read_bytes() == (simulated.path / file).read_bytes()
