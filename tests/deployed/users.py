"""Vehicles, parties and houses as users of this machine, each with its data in a folder that nobody else may enter.

    python -m tests.deployed.users FOLDER NODES SERVER VIEWS.hdf5 [vehicles parties houses]

By hand, as root, with ../shared at hand; follows docs/deployment.md. FOLDER is new, and all users may pass through the
folders above it. NODES and SERVER are the pythons of two environments that all users may read: one with fedsuite[hdf5], as a
node needs it, and one with fedsuite[simulation,hdf5]. Users are numbers from 61000 on, without names, so that nothing is
left of them. VIEWS.hdf5 is made by ../shared/tools/make_r2r_views.py. Prints a line for each system: the bytes are those of
the simulation that the docs describe, no process is another's or root's, and no member can list the folder of another.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedsuite.settings.config import Value
from tests.deployed import worlds
from tests.deployed.campaign import simulate
from tests.deployed.digests import simulated, unlike
from tests.deployed.site import Site, command, environment
from tests.deployed.worlds import World

FIRST_USER, LIMIT_S = 61000, 1200.0
PASSED_ON = ("PATH", "LANG", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")
LOOK = """
import os, sys
for folder in sys.argv[1:]:
    try:
        os.listdir(folder)
    except PermissionError:
        continue
    print(folder)
"""


class Users(Site):
    """people/NAME is the home of each member, and of "server". pythons: of nodes, and of the server."""

    def __init__(
        self, home: Path, world: World, toml: Path, words: Path | None, pythons: tuple[Path, Path]
    ) -> None:
        self.pythons, self.people = pythons, home / "people"
        self.numbers = {name: FIRST_USER + i for i, name in enumerate(("server", *world.names))}
        super().__init__(home, world, toml, words)

    @property
    def server(self) -> Path:
        return self.people / "server" / "server"

    @property
    def runs(self) -> Path:
        return self.people / "server" / "runs"

    def node(self, name: str) -> Path:
        founders = super().node(name)
        return founders if founders.exists() else self.people / name / "node"

    def settle(self, names: Sequence[str]) -> None:
        places = {"server": self.kit / "server", **{n: self.kit / "nodes" / n for n in names}}
        for name, place in places.items():
            (self.people / name).mkdir(parents=True)
            new = self.people / name / ("server" if name == "server" else "node")
            shutil.move(place, new)
            self._own(self.people / name, self.numbers[name])
            (self.people / name).chmod(0o700)

    def hand(self, file: Path, to: Path) -> Path:
        made = super().hand(file, to)
        self._own(made, to.stat().st_uid)
        return made

    @staticmethod
    def _own(top: Path, user: int) -> None:
        for path in (top, *top.rglob("*")):
            os.chown(path, user, user)

    def acting(self, name: str) -> dict[str, Any]:
        if not name:
            return {"env": {**os.environ, "PYTHONPATH": ""}, "cwd": self.home}
        name = "server" if name == "run" else name
        home, user = self.people / name, self.numbers[name]
        own = {"HOME": str(home), "FLWR_HOME": str(home / "flwr"), "USER": name, "LOGNAME": name}
        env = {k: v for k, v in os.environ.items() if k in PASSED_ON}
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "PYTHONUNBUFFERED": "1"}
        who = {"user": user, "group": user, "extra_groups": [], "umask": 0o077}
        return {"env": {**env, **own, **quiet}, "cwd": home, **who}

    def command(self, name: str, *arguments: str) -> list[str]:
        python = self.pythons[name in ("", "run", "server")]
        return [str(python), *command(*arguments)[1:]]

    # --- what has to hold ---------------------------------------------------------------------------

    def entered(self) -> list[str]:
        """Who can list whose home; nobody should."""
        found = []
        for name in self.numbers:
            others = [str(self.people / n) for n in self.numbers if n != name]
            look = [str(self.pythons[0]), "-c", LOOK, *others]
            said = subprocess.run(
                look, **self.acting(name), check=True, capture_output=True, text=True
            )
            found += [f"{name} can list {line}" for line in said.stdout.splitlines()]
        return found

    def strangers(self) -> list[str]:
        """Processes of the federation that are another user's than their member's."""
        found = []
        for name in self.processes:
            user = self.numbers["server" if name == "run" else name]
            for pid in self.below(name, ""):
                try:
                    owner = Path(f"/proc/{pid}").stat().st_uid
                except FileNotFoundError:
                    continue
                if owner != user:
                    found.append(f"process {pid} of {name} is {owner}'s")
        return found

    def left_outside(self) -> list[str]:
        """Files of these users beside their homes, in temporary folders, that others may read."""
        return sorted(map(str, self._outside()))

    def _outside(self) -> Iterator[Path]:
        for place in (Path(tempfile.gettempdir()), Path("/dev/shm")):
            for top, folders, files in os.walk(place):
                folders[:] = [f for f in folders if Path(top, f).lstat().st_mode & 0o005 == 0o005]
                for path in (Path(top, f) for f in files):
                    told = path.lstat()
                    if told.st_uid in self.numbers.values() and told.st_mode & 0o044:
                        yield path


# --- the three federations --------------------------------------------------------------------------


def party(folder: Path, name: str) -> None:
    """What a party has after `fedsuite data split-parties`."""
    with tempfile.TemporaryDirectory() as made:
        source = worlds.SHARED / "data" / "fedrl" / "frl_grid_8.npz"
        split = command("data", "split-parties", str(source), "-o", f"{made}/own")
        subprocess.run(split, env=environment(), check=True, stdout=subprocess.DEVNULL)
        shutil.copytree(Path(made) / "own" / name, folder, dirs_exist_ok=True)


def world_of(name: str, views: Path) -> World:
    if name == "vehicles":
        return replace(
            worlds.drives(**{"num-rounds": 3, "evaluate-every": 1}), names=worlds.DRIVES[:3]
        )
    if name == "houses":
        wanted = worlds.houses(views, **{"num-rounds": 2, "evaluate-every": 1})
        return replace(wanted, names=worlds.HOUSES[:3])
    settings = {**worlds.maps().settings, "maps": 200, "step-limit": 4}
    return World(settings, ("alpha", "beta"), party, {"dir": "."})


def joint(name: str, world: World, views: Path, folder: Path) -> Path:
    """The data of all in one folder, for the simulation."""
    if name == "parties":
        return worlds.SHARED / "data" / "fedrl"
    if name == "houses":
        worlds.write_houses(folder, world.names, views)
    else:
        for member in world.names:
            worlds.drive(folder, member)
    return folder


def play(name: str, home: Path, pythons: tuple[Path, Path], views: Path) -> None:
    """The simulation, then the deployment; AssertionError where they differ, or somebody sees what is not its own."""
    home.mkdir(parents=True)
    home.chmod(0o755)
    world = world_of(name, views)
    toml, data = world.toml(home / "run.toml"), joint(name, world, views, home / "all")
    toml.chmod(0o644)
    sets: dict[str, Value] = {f"data.{key}": str(data / value) for key, value in world.keys.items()}
    folder = simulate(toml, home / "simulated", {**sets, "name": "run"})
    words = folder.path / "vocabulary.json"
    site = Users(home, world, toml, words if words.exists() else None, pythons)
    try:
        began = time.monotonic()
        site.start()
        for member in world.names:
            site.do("deploy", "check", str(site.node(member) / "node.toml"), str(toml), by=member)
        site.start_run()
        wrong = site.entered()
        while site.processes["run"].poll() is None:
            assert time.monotonic() - began < LIMIT_S, site.said("run")
            wrong += site.strangers()
            time.sleep(0.5)
        assert site.processes["run"].returncode == 0, site.said("run")
    finally:
        site.end()
    wrong += site.left_outside()
    found = site.results()
    differ = unlike(found, simulated(folder, site.roster.names))
    assert not wrong and not differ, f"{name}: {wrong[:5]} {differ[:5]}"
    print(
        f"{name}: {len(world.names)} nodes and a server as {len(site.numbers)} users, {time.monotonic() - began:.0f} s, "
        f"bytes of the simulation in {len(found)} files, nobody could list another's folder",
        flush=True,
    )


def main(home: Path, pythons: tuple[Path, Path], views: Path, chosen: Sequence[str]) -> None:
    if os.geteuid() != 0:
        raise SystemExit("expected root, who alone can act as other users; run this with sudo")
    for name in chosen or ("vehicles", "parties", "houses"):
        play(name, home / name, pythons, views)


if __name__ == "__main__":
    folder, nodes, server, views = (Path(given).absolute() for given in sys.argv[1:5])
    main(folder, (nodes, server), views, sys.argv[5:])
