"""Three houses on hosts of their own, over TLS and with keys: what becomes of a run when a line breaks in the middle of it.

The first house's line breaks when the tasks of round 1 have been sent, or the server's own. Nobody is told: packets vanish.
The run has to end by itself, within minutes, with the bytes of a simulation; so has one over lines that are slow, or far
away and lose packets.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from simulations.deploy.lines import SAID
from tests.deployed import hosts
from tests.deployed.digests import of_a_simulation
from tests.deployed.hosts import Hosts
from tests.deployed.test_one_node_killed import HOUSES, wait_for_task

SERVER, FIRST = 1, 2  # hosts
LIMIT_S = 300.0  # of each wait; seconds on a quiet machine, but for the time that a line is broken
THREE = replace(HOUSES, settings={**HOUSES.settings, "num-rounds": 2})
# A model of 7 MB: two of Flower's objects.
LARGE = replace(HOUSES, settings={**HOUSES.settings, "hidden-size": 384, "evaluate-every": 0})


@dataclass(frozen=True)
class Break:
    """begin, end: of the first house's name; away_s: between them. told: what the run has to say; noted: the first node."""

    begin: Callable[[str], None]
    end: Callable[[str], None]
    away_s: float
    told: str = ""
    noted: str = ""


BREAKS = {
    "for seconds": Break(lambda _: hosts.cut(FIRST), lambda _: hosts.mend(FIRST), 20),
    "until the node is missed": Break(
        lambda _: hosts.cut(FIRST), lambda _: hosts.mend(FIRST), 90, "is back and was sent its task again",
    ),
    "with the task on it": Break(
        lambda _: hosts.deafen(FIRST), lambda _: hosts.hear(FIRST), 40, "is back and was sent its task again", SAID,
    ),
    "at the server": Break(
        lambda _: hosts.cut(SERVER), lambda _: hosts.mend(SERVER), 90, "is back and was sent its task again",
    ),
    "for another address": Break(lambda name: hosts.move(name, FIRST, 77), lambda _: None, 0),
}  # fmt: skip


@pytest.fixture(scope="module")
def able() -> None:
    if why := hosts.missing():
        pytest.skip(why)


@pytest.mark.deployed
@pytest.mark.usefixtures("able")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", BREAKS)
def test_a_line_breaks(tmp_path: Path, name: str) -> None:
    planned = BREAKS[name]
    site = Hosts(tmp_path, THREE, THREE.toml(tmp_path / "run.toml"))
    first = site.roster.names[0]
    with hosts.network(site.roster.names):
        try:
            site.start("--warm")
            site.start_run()
            wait_for_task(site, 1)
            planned.begin(first)
            time.sleep(planned.away_s)
            planned.end(first)
            assert site.processes["run"].wait(LIMIT_S) == 0, site.said("run")
            assert planned.told in site.said("run") and planned.noted in site.said(first)
            assert "Traceback" not in site.said("run") + site.said(first)
        finally:
            site.end()
    assert site.results() == of_a_simulation(site.toml, site.server / "roster.json", tmp_path)


@contextmanager
def slow(houses: Sequence[str]) -> Iterator[None]:
    """A model that an uplink of 512 kbit/s takes minutes for."""
    for number, name in enumerate(houses, FIRST):
        hosts.slow(name, number, 512, 4000)
    yield


def far(houses: Sequence[str]) -> AbstractContextManager[None]:
    """600 ms there and back, and one packet in ten is lost each way."""
    return hosts.far({name: number for number, name in enumerate(houses, FIRST)}, 0.3, 0.1)


@pytest.mark.deployed
@pytest.mark.usefixtures("able")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("lines", [slow, far])
def test_lines_that_are_bad_from_the_start(
    tmp_path: Path, lines: Callable[[Sequence[str]], AbstractContextManager[None]]
) -> None:
    site = Hosts(tmp_path, LARGE, LARGE.toml(tmp_path / "run.toml"))
    with hosts.network(site.roster.names), lines(site.roster.names):
        try:
            site.start("--warm")
            site.start_run()
            assert site.processes["run"].wait(3 * LIMIT_S) == 0, site.said("run")
            assert "is lost" not in site.said("run")
        finally:
            site.end()
    assert site.results() == of_a_simulation(site.toml, site.server / "roster.json", tmp_path)
