"""Runs over lines that break at random moments, each member on a host of its own; by hand, as root.

    python -m tests.deployed.breaking FOLDER BREAKS [houses silos parties]

One line after another, the server's too, is cut for all that comes and goes, or for what comes alone, for 2 to 80 s. After
BREAKS of them the run ends undisturbed. Prints a line for each run: seconds, how often members were lost and asked
again, and whether the bytes are those of a simulation.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedsuite.randomness import rng_for
from fedsuite.settings.config import Value
from simulations.deploy.lines import SAID
from tests.deployed import hosts
from tests.deployed.digests import of_a_simulation, unlike
from tests.deployed.hosts import Hosts
from tests.deployed.test_one_node_killed import WORLDS
from tests.deployed.worlds import World

AWAY_S = (2.0, 12.0, 35.0, 50.0, 80.0)
PAUSE_S = (3.0, 15.0)
LIMIT_S = 3600.0
LONGER: dict[str, dict[str, Value]] = {
    "houses": {"num-rounds": 40},
    "silos": {"num-rounds": 40},
    "parties": {"num-rounds": 6, "round-length": 32},
}


def play(home: Path, name: str, breaks: int) -> None:
    """One run; prints its line."""
    home.mkdir(parents=True)
    world: World = WORLDS[name]
    world = replace(world, settings={**world.settings, **LONGER[name]})
    site = Hosts(home, world, world.toml(home / "run.toml"))
    names = site.roster.names
    rng, left = rng_for(0, f"broken lines of {name}"), breaks
    with hosts.network(names):
        try:
            site.start("--warm")
            site.start_run()
            site.wait_for("run", r"round \d+/")
            began = time.monotonic()
            while site.processes["run"].poll() is None:
                assert time.monotonic() - began < LIMIT_S, site.said("run")
                time.sleep(float(rng.uniform(*PAUSE_S)) if left else 1.0)
                if left:
                    left -= 1
                    number = int(rng.integers(1, 2 + len(names)))
                    begin, end = [(hosts.cut, hosts.mend), (hosts.deafen, hosts.hear)][
                        int(rng.integers(2))
                    ]
                    away = float(rng.choice(AWAY_S))
                    begin(number)
                    print(
                        f"  {time.strftime('%X')} {begin.__name__} {['server', *names][number - 1]} {away:g} s",
                        flush=True,
                    )
                    time.sleep(away)
                    end(number)
            took = time.monotonic() - began
        finally:
            site.end()
    assert site.processes["run"].returncode == 0, site.said("run")
    differ = unlike(site.results(), of_a_simulation(site.toml, site.server / "roster.json", home))
    said = site.said("run")
    anew = sum(site.said(member).count(SAID) for member in names)
    lost, again = said.count(" is lost"), said.count("was sent its task again")
    print(
        f"{name}: {took:.0f} s, {breaks - left} breaks, members lost {lost} times, {again} tasks sent again, "
        f"{anew} times said anew who is there; {f'DIFFERENT: {differ}' if differ else 'equal'}",
        flush=True,
    )


def main(root: Path, breaks: int, chosen: Sequence[str]) -> None:
    if why := hosts.missing():
        raise SystemExit(why)
    for name in chosen or LONGER:
        play(root.absolute() / name, name, breaks)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
