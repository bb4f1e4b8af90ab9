"""A secure sum over TLS, among nodes that know each other by the keys of the kit; one of them is lost in the middle."""

import time
from pathlib import Path

import pytest

from fedsuite.history import TIMINGS, Kind, kind_of, load_run
from simulations.engines.nodes.following import Tail
from tests.deployed import worlds
from tests.deployed.site import Site
from tests.deployed.test_one_node_killed import LIMIT_S, deployed
from tests.harness import config_from
from tests.summed_runs import LosingGrid, played

WORLD = worlds.generated_drives(
    **{
        "num-silos": 4, "num-rounds": 1, "train-frames": 12, "test-frames": 4, "scenario": "star", "secure-sum": True,
        "min-reply-fraction": 0.5, "lost-node-patience-s": 0.0,
    }
)  # fmt: skip


def wait_for_training(site: Site) -> None:
    """Until the masked changes of round 1 are asked for: keys and shares are through."""
    tail, give_up = Tail(site.folder.path / TIMINGS), time.monotonic() + LIMIT_S
    while not any(kind_of(r) == Kind.EXCHANGE and r["task"] == "train" for r in tail.rows()):
        assert site.processes["run"].poll() is None, site.said("run")
        assert time.monotonic() < give_up, site.said("run")
        time.sleep(0.05)


@pytest.mark.deployed
@pytest.mark.timeout(900)
def test_a_node_lost_before_its_masked_change(tmp_path: Path) -> None:
    """Its peers' shares take its masks off; the model is that of a simulation that loses the same silo there."""
    with deployed(tmp_path, WORLD) as site:
        first = site.roster.names[0]
        assert all('own-key = "node.key"' in f.read_text() for f in site.kit.rglob("node.toml"))
        site.start_run()
        wait_for_training(site)
        assert site.kill(first, "flower-supernode")
        assert site.processes["run"].wait(LIMIT_S) == 0, site.said("run")
        found = load_run(site.folder.path).rounds
        model = site.folder.model.read_bytes()
        assert [*found["secure-sum.members"].dropna()] == [3]
    paths = {
        "cache-dir": str(tmp_path / "cache"),
        "results-dir": str(tmp_path),
        "name": "simulated",
    }
    config = config_from({**WORLD.settings, **paths})
    assert played(LosingGrid(config, {(1, "masked"): [0]}), config).model.read_bytes() == model
