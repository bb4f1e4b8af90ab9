"""The smallest deployment of each system, over TLS and with keys: a node is killed, comes back, and leaves no trace.

The run is one command, which has to tell of the loss and to go on; bytes are those of a simulation.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedsuite.history import TIMINGS, Kind, kind_of
from simulations.engines.nodes.following import Tail
from tests.deployed import worlds
from tests.deployed.digests import of_a_simulation
from tests.deployed.site import Site
from tests.deployed.worlds import World

LIMIT_S = 400.0  # of each wait; seconds on a quiet machine
HOUSES = World(
    {
        "system": "fedvln", "generated-seen-houses": 2, "generated-unseen-houses": 1, "generated-paths-per-house": 4,
        "hidden-size": 16, "word-embedding-size": 8, "action-embedding-size": 4, "angle-feature-size": 4, "max-actions": 4,
        "train-max-actions": 3, "num-rounds": 1, "objective": "imitation", "participation-rate": 1.0, "min-word-count": 1,
    }
)  # fmt: skip
_SILOS: dict[str, Any] = {"num-silos": 2, "num-rounds": 1, "train-frames": 12, "test-frames": 4}
_PARTIES: dict[str, Any] = {
    "num-rounds": 1,
    "round-length": 16,
    "step-limit": 1,
    "evaluation-episodes": 4,
}
WORLDS = {
    "houses": HOUSES,
    "silos": worlds.generated_drives(**_SILOS),
    "parties": worlds.maps(**_PARTIES),
    "sealed silos": worlds.generated_drives(**_SILOS, sealed=True),
    "sealed parties": worlds.maps(**_PARTIES, sealed=True),
}
# How a lost node is noticed and asked again knows no system. In `make test` are those who keep most between rounds.
LATER = [pytest.param(name, marks=pytest.mark.deployed) for name in WORLDS if name != "parties"]


@contextmanager
def deployed(home: Path, world: World) -> Iterator[Site]:
    """SuperLink and connected nodes; a node without heartbeats is missed soon."""
    site = Site(home, world, world.toml(home / "run.toml"))
    site.heartbeats = True
    try:
        site.start("--warm")
        yield site
    finally:
        site.end()


def wait_for_task(site: Site, round: int) -> None:
    """Until tasks of a round are sent."""
    tail, give_up = Tail(site.folder.path / TIMINGS), time.monotonic() + LIMIT_S
    sent = (Kind.EXCHANGE, Kind.MESSAGES)
    while not any(row["round"] == round and kind_of(row) in sent for row in tail.rows()):
        assert site.processes["run"].poll() is None, site.said("run")
        assert time.monotonic() < give_up, site.said("run")
        time.sleep(0.05)


@pytest.mark.ray
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["parties", *LATER])
def test_a_killed_node_is_told_and_waited_for(tmp_path: Path, name: str) -> None:
    with deployed(tmp_path, WORLDS[name]) as site:
        first = site.roster.names[0]
        site.start_run()
        wait_for_task(site, 1)
        assert site.kill(first, "flower-supernode")
        site.processes[first].wait(LIMIT_S)  # which says that it has lost it
        site.wait_for("run", f"{first} is lost", LIMIT_S)
        site.start_node(first, "--warm")
        site.wait_for("run", f"{first} is back and was sent its task again", LIMIT_S)
        assert site.processes["run"].wait(LIMIT_S) == 0, site.said("run")
        assert "Traceback" not in site.said("run")
        found = site.results()
    assert found == of_a_simulation(site.toml, site.server / "roster.json", tmp_path)
