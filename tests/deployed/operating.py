"""What an operator does within the life of a federation, on this machine, beside what a simulation writes.

    python -m tests.deployed.operating FOLDER NODES ROUNDS

NODES vehicles begin; one is added, the SuperLink's certificate is renewed, the SuperLink is away in the middle of a run, and
a vehicle is revoked. Prints a line for each step; every run's bytes are those of a simulation of all drives.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fedsuite.history import TIMINGS
from fedsuite.roster.members import read_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import Value
from simulations.app.in_python import run
from simulations.engines.nodes.following import Tail
from tests import cdl_runs
from tests.deployed import worlds
from tests.deployed.site import Site
from tests.deployed.worlds import World

LIMIT_S = 600.0  # of each wait; seconds on a quiet machine
FILES = ("model.safetensors", "history.jsonl")


class Operator:
    """nodes: those of the beginning; rounds: of each run; away_s: how long the SuperLink is away in the middle of one."""

    def __init__(
        self, home: Path, nodes: int, rounds: int, away_s: float, say: Callable[[str], None]
    ) -> None:
        self.home, self.rounds, self.away_s, self.say = home, rounds, away_s, say
        self.metrics, self.drives = home / "metrics", home / "drives"
        self.metrics.mkdir(parents=True)  # refused where the folder has one
        names = tuple(f"vehicle-{i:02d}" for i in range(nodes))
        settings: dict[str, Value] = {
            **worlds.drives().settings,
            "scenario": "star",
            "num-rounds": rounds,
            "evaluate-every": 0,
        }
        self.world = World(settings, names, self._drive, {"dir": "."})
        self.site = Site(home, self.world, self.world.toml(home / "run.toml"))
        toml = self.site.kit / "server" / "server.toml"
        named = f"metrics = {json.dumps(str(self.metrics))}"
        toml.write_text(toml.read_text().replace('metrics = ""', named))
        self._began = time.monotonic()

    def _drive(self, folder: Path, name: str) -> None:
        """A vehicle's own, which the simulation has as well."""
        for place in (folder, self.drives):
            cdl_runs.write_drives(place, (name,), 40 + int(name[-2:]))

    def told(self, words: str) -> None:
        self.say(f"{time.monotonic() - self._began:6.0f} s  {words}")

    def play(self) -> None:
        """All of it."""
        site = self.site
        try:
            site.start("--warm")
            self.told(f"{len(site.roster)} nodes are connected")
            self._end(self._begin("first"), "first")
            self.adds_a_node(f"vehicle-{len(site.roster):02d}")
            self.renews_the_certificate()
            self.loses_the_superlink("over-a-gap")
            self.revokes_a_node()
        finally:
            site.end()
        self.told("everything has ended")

    # --- what an operator does --------------------------------------------------------------------

    def adds_a_node(self, name: str) -> None:
        """Its operator says what it has; the others go on, with the new roster in their folders."""
        site, part, before = self.site, self.home / f"{name}.json", len(self.site.roster)
        kit, own = str(site.kit), site.node(name)
        site.do("deploy", "add", kit, name)
        self._drive(own / "data", name)
        with (own / "node.toml").open("a") as file:
            file.write('dir = "data"\n')
        key = str(own / "node.key.pub")
        said = ("--key", key, "--out", str(part))
        site.do("data", "prepare-node", str(own / "node.toml"), str(site.toml), *said)
        told = site.do("deploy", "add", kit, name, "--part", str(part))
        assert f"{name} is {before + 1} of {before + 1}" in told, told
        told = site.do("deploy", "register", str(site.kit / "server"))
        assert told.count("is registered already") == before, told
        assert f"{name}: registered" in told, told
        site.roster = read_roster(site.kit / "server" / "roster.json")
        site.start_node(name, "--warm")
        site.wait_for(name, "is connected to", LIMIT_S)
        self.told(f"{name} is one of {len(site.roster)}")

    def renews_the_certificate(self) -> None:
        """Nodes need nothing; the SuperLink reads it when it starts again."""
        site = self.site
        before = (site.kit / "server" / "server.pem").read_bytes()
        assert "server.key beside it is new" in site.do("deploy", "renew", str(site.kit))
        assert (site.kit / "server" / "server.pem").read_bytes() != before
        self._stop("server")
        site.start_server()
        self._all_online(len(site.roster))
        self.told("the SuperLink has a new certificate, and all nodes are back")

    def loses_the_superlink(self, name: str) -> None:
        """The run ends; it is resumed when the SuperLink is back."""
        site, folder = self.site, self._begin(name)
        self._wait_for_round(folder, 1)
        self._stop("server")
        time.sleep(self.away_s)
        site.start_server()
        assert site.processes["run"].wait(LIMIT_S) == 1, site.said("run")
        assert "--resume" in site.said("run") and "Traceback" not in site.said("run")
        self._all_online(len(site.roster))
        self.told(
            f"the SuperLink was away for {self.away_s:.0f} s: {site.said('run').strip().splitlines()[-1][:120]}"
        )
        site.start_run(resume=True)
        self._end(folder, name)

    def revokes_a_node(self) -> None:
        """Its connection ends, and its key is never taken again."""
        site, name = self.site, self.site.roster.names[-1]
        said = site.do("deploy", "revoke", str(site.kit / "server"), name)
        assert f"{name}: unregistered (online)" in said, said
        assert site.processes[name].wait(LIMIT_S) == 1, site.said(name)
        assert self._status()[name] not in ("online", "offline"), self._status()
        self.told(f"{name} is revoked")

    # --- runs -------------------------------------------------------------------------------------

    def _begin(self, name: str) -> RunFolder:
        site = self.site
        site.folder = RunFolder(self.home / "runs" / name)
        site.start_run()
        return site.folder

    def _end(self, folder: RunFolder, name: str) -> None:
        """Log and metrics say what was; the bytes are a simulation's."""
        site = self.site
        assert site.processes["run"].wait(LIMIT_S) == 0, site.said("run")
        said = site.said("run")
        assert (
            f"round {self.rounds}/{self.rounds}" in said and f"completed: {folder.path}" in said
        ), said
        numbers = (self.metrics / f"fedsuite-{name}.prom").read_text()
        for key, value in (("members", len(site.roster)), ("round", self.rounds), ("running", 0)):
            assert f'fedsuite_{key}{{run="{name}"}} {value}' in numbers, numbers
        own = {
            "data.dir": str(self.drives),
            "data.cache-dir": str(self.home / "cache"),
            "roster": str(site.kit / "server" / "roster.json"),
        }
        run(site.toml, name=name, results_dir=self.home / "simulated", quiet=True, **own)
        for file in FILES:
            assert (folder.path / file).read_bytes() == (
                self.home / "simulated" / name / file
            ).read_bytes(), file
        self.told(f"run {name} has ended, {len(site.roster)} members, bytes of a simulation")

    def _wait_for_round(self, folder: RunFolder, number: int) -> None:
        tail, give_up = Tail(folder.path / TIMINGS), time.monotonic() + LIMIT_S
        while not any(row["round"] == number and row["kind"] == "round" for row in tail.rows()):
            assert self.site.processes["run"].poll() is None, self.site.said("run")
            assert time.monotonic() < give_up, self.site.said("run")
            time.sleep(0.1)

    # --- processes --------------------------------------------------------------------------------

    def _stop(self, name: str) -> None:
        """As a service manager does it."""
        self.site.processes[name].terminate()
        self.site.processes[name].wait(LIMIT_S)

    def _status(self) -> dict[str, str]:
        """By name."""
        said = self.site.do("deploy", "status", str(self.site.kit / "server"), "--json")
        return {row["member"]: row["status"] for row in json.loads(said)}

    def _all_online(self, count: int) -> None:
        give_up = time.monotonic() + LIMIT_S
        while [*self._status().values()].count("online") < count:
            assert time.monotonic() < give_up, self._status()
            time.sleep(1)


def main(home: Path, nodes: int, rounds: int) -> None:
    Operator(home.absolute(), nodes, rounds, 60.0, lambda line: print(line, flush=True)).play()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
