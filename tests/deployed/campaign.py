"""Deployed runs of every system on this machine, beside what a simulation writes; run by hand, with ../shared at hand.

    python -m tests.deployed.campaign FOLDER VIEWS.hdf5 ROUNDS KILLS [WORLD ...]

KILLS: how often each kind of process is killed by kill -9 at a random moment, 0 = nothing goes wrong.
VIEWS.hdf5 is made by ../shared/tools/make_r2r_views.py. A line per run: seconds, messages, kills, how often --resume was
needed, and whether the bytes are those of `--engine inprocess` (history, model, members' newest private states).
"""

import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedsuite.history import read_rows
from fedsuite.randomness import rng_for
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import Value
from tests.deployed import worlds
from tests.deployed.digests import simulated, unlike
from tests.deployed.site import Site, command, environment
from tests.deployed.worlds import World

# What is killed: a word of its command line.
KINDS = ("flower-supernode", "flower-superlink", "flwr-serverapp", "flwr-clientapp")
LIMIT_S = 3600.0
EXPLORE: dict[str, Value] = {
    "stage": "pre-explore", "share": "language-encoder", "seen-participation-rate": 0.5,
}  # fmt: skip


class Campaign:
    """Each world's own folder below `root`; runs that later stages start from are simulations."""

    def __init__(self, root: Path, views: Path, rounds: int) -> None:
        self.root, self.views = root, views
        self.pause_s = (5.0, 25.0)  # between two kills
        every: dict[str, Value] = {"num-rounds": rounds, "evaluate-every": 2}
        # A step of all parallel episodes a round: four messages, and a checkpoint.
        parties: dict[str, Value] = {
            "num-rounds": rounds, "evaluate-every": max(1, rounds // 4), "round-length": 16,
        }  # fmt: skip
        self.worlds: dict[str, World] = {
            "houses-train": worlds.houses(views, **every),
            "houses-speaker": worlds.houses(views, **every, stage="speaker"),
            "houses-explore": worlds.houses(views, **every, **EXPLORE),
            "drives": worlds.drives(**every),
            "generated-drives": worlds.generated_drives(**every),
            "maps": worlds.maps(**parties),
            "texts": worlds.texts(**parties),
        }

    def play(self, name: str, kills: Sequence[str]) -> None:
        """One run, deployed, beside the simulated one; prints its line."""
        world, home = self.worlds[name], self.root / name
        home.mkdir(parents=True)
        toml = world.toml(home / "run.toml", **self._starts(name))
        words = self._words() if name.startswith("houses") else None
        site = Site(home, world, toml, words)
        wanted = self._simulated(world, home, toml, site)
        site.watched = True
        begin = time.monotonic()
        try:
            site.start()
            began = time.monotonic()
            resumed = self._run(site, list(kills))
            seconds = time.monotonic() - began
        finally:
            site.end()
        rows = read_rows(site.folder.path / "timings.jsonl")
        asked = sum(row.get("messages", 1) for row in rows if row["kind"].endswith("client"))
        differ = unlike(site.results(), wanted)
        equal = f"DIFFERENT: {differ}" if differ else "equal"
        print(
            f"{name}: start {began - begin:.0f} s, run {seconds:.0f} s, {asked} messages, {len(kills)} kills, "
            f"{resumed} resumed, {equal}, {len(strayed := site.strayed())} files opened by others {strayed[:3]}",
            flush=True,
        )

    def _run(self, site: Site, kills: list[str]) -> int:
        """To the end, with each of `kills` at a random moment; how often it had to be continued."""
        rng, resumed, give_up = rng_for(0, "kills", len(kills)), 0, time.monotonic() + LIMIT_S
        site.start_run()
        strike_at = time.monotonic() + float(rng.uniform(*self.pause_s))
        while True:
            assert time.monotonic() < give_up, "the run does not end"
            time.sleep(0.05)
            self._look_after(site)
            status = site.processes["run"].poll()
            if status == 0:
                assert not kills, f"ended before {kills}"
                return resumed
            if status is not None:
                print(
                    f"  run ended with {status}: {site.said('run').strip().splitlines()[-1]}",
                    flush=True,
                )
                resumed += 1
                assert resumed < 40
                site.start_run(resume=site.folder.config.exists())
            if kills and time.monotonic() >= strike_at and self._strike(site, kills[0], rng):
                kills.pop(0)
                strike_at = time.monotonic() + float(rng.uniform(*self.pause_s))

    def _strike(self, site: Site, kind: str, rng: object) -> bool:
        """kill -9. False if there is no such process now."""
        names = site.roster.names
        owner = names[int(rng.integers(len(names)))] if kind in (KINDS[0], KINDS[3]) else "server"  # type: ignore[attr-defined]
        if not site.folder.is_being_written() or not site.kill(owner, kind):
            return False
        print(f"  {time.strftime('%X')} killed {kind} of {owner}", flush=True)
        return True

    @staticmethod
    def _look_after(site: Site) -> None:
        """What a service manager does: start again what ended."""
        for name in ("server", *site.roster.names):
            if site.processes[name].poll() is None:
                continue
            if name == "server":
                site.start_server()
            else:
                site.start_node(name)

    # --- simulations ------------------------------------------------------------------------------

    def _simulated(self, world: World, home: Path, toml: Path, site: Site) -> dict[str, str]:
        sets: dict[str, Value] = {
            "roster": str(site.kit / "server" / "roster.json"),
            "name": "deployed",
        }
        if world.own is not None:
            sets |= {
                f"data.{key}": str(self._joint(world, home) / value)
                for key, value in world.keys.items()
            }
        return simulated(simulate(toml, home / "simulated", sets), site.roster.names)

    def _joint(self, world: World, home: Path) -> Path:
        """The data of all nodes in one folder."""
        folder = home / "joint"
        if folder.exists():
            return folder
        if world.names == worlds.HOUSES:
            worlds.write_houses(folder, world.names, self.views)
        else:
            for name in world.names:
                worlds.drive(folder, name)
        return folder

    def _earlier(self, stage: str) -> Path:
        """A short simulation of an earlier stage in the same houses."""
        home = self.root / "earlier"
        if not (home / stage / "run.json").exists():
            home.mkdir(exist_ok=True)
            world = worlds.houses(self.views, **{"stage": stage, "num-rounds": 2})
            data = self._joint(world, home)
            own: dict[str, Value] = {"name": stage, "data.dir": str(data)}
            own["data.features"] = str(data / "views.hdf5")
            simulate(world.toml(home / f"{stage}.toml"), home, own)
        return home / stage

    def _words(self) -> Path:
        return self._earlier("train") / "vocabulary.json"

    def _starts(self, name: str) -> dict[str, Value]:
        if name != "houses-explore":
            return {}
        return {
            "start-from": str(self._earlier("train")),
            "speaker-from": str(self._earlier("speaker")),
        }


def simulate(toml: Path, home: Path, sets: Mapping[str, Value]) -> RunFolder:
    """The run of a TOML in one process; its folder is home/NAME, by the key `name` of `sets`."""
    sets = {**sets, "results-dir": str(home), "data.cache-dir": str(home / "cache")}
    given = [part for key, value in sets.items() for part in ("--set", f"{key}={value}")]
    run = command("run", str(toml), "--engine", "inprocess", *given)
    subprocess.run(run, env=environment(), check=True, stdout=subprocess.DEVNULL)
    return RunFolder(home / str(sets["name"]))


def main(root: Path, views: Path, rounds: int, kills: int, chosen: Sequence[str]) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is ended
    campaign = Campaign(root.absolute(), views.absolute(), rounds)
    for name in chosen or campaign.worlds:
        order = rng_for(0, f"kills of {name}").permutation(KINDS * kills)
        campaign.play(name, [str(kind) for kind in order])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
