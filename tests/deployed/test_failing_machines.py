"""What befalls a machine in the middle of a run: a full disk, a locked database, a killed SuperExec.

A run ends by itself, or says what to do and is resumed; either way it has the bytes of a simulation.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from simulations.deploy.programs import SUPEREXEC
from tests.deployed import worlds
from tests.deployed.digests import of_a_simulation
from tests.deployed.site import Site
from tests.deployed.test_one_node_killed import wait_for_task

LIMIT_S = 300.0  # of each wait; seconds on a quiet machine
# SQLite waits 5 s for a lock; a node's heartbeats are 17 to 23 s apart.
LOCKED_S, FULL_S = 25.0, 30.0
DISK, ROOM = "size=400m", 2**16
WORLD = worlds.generated_drives(**{"num-silos": 3, "num-rounds": 6, "scenario": "star"})


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """SuperLink and connected nodes."""
    made = Site(tmp_path / "site", WORLD, WORLD.toml(tmp_path / "run.toml"))
    try:
        yield made
    finally:
        made.end()


def ends_well(site: Site, tmp_path: Path) -> None:
    assert site.processes["run"].wait(LIMIT_S) == 0, site.said("run")
    assert "is lost" not in site.said("run")
    assert site.results() == of_a_simulation(site.toml, site.server / "roster.json", tmp_path)


@pytest.mark.deployed
@pytest.mark.timeout(900)
@pytest.mark.parametrize("when", ["before the run", "in the run"])
def test_the_superlinks_database_is_locked(tmp_path: Path, site: Site, when: str) -> None:
    """As by a program that copies it, or a disk that answers slowly: the SuperLink answers by errors 500 meanwhile."""
    site.start("--warm")
    if when == "in the run":
        site.start_run()
        wait_for_task(site, 1)
    database = sqlite3.connect(site.server / "superlink.db", isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    time.sleep(LOCKED_S)
    database.execute("ROLLBACK")
    database.close()
    assert "database is locked" in site.said("server")
    if when == "before the run":
        site.start_run()
    ends_well(site, tmp_path)


@pytest.mark.deployed
@pytest.mark.timeout(900)
def test_a_full_disk_at_the_superlink_is_waited_for(tmp_path: Path, site: Site) -> None:
    with small_disk(site.server) as disk:
        site.start("--warm")
        site.start_run()
        wait_for_task(site, 0)
        ballast = fill(disk)
        time.sleep(FULL_S)
        ballast.unlink()
        ends_well(site, tmp_path)
    assert "database or disk is full" in site.said("server")


@pytest.mark.deployed
@pytest.mark.timeout(900)
@pytest.mark.parametrize("whose", ["runs", "node"])
def test_a_full_disk_under_a_run_or_a_state_is_told(tmp_path: Path, site: Site, whose: str) -> None:
    folder = site.runs if whose == "runs" else site.node(site.roster.names[1])
    with small_disk(folder) as disk:
        site.start("--warm")
        site.start_run()
        wait_for_task(site, 2)
        ballast = fill(disk)
        assert site.processes["run"].wait(LIMIT_S) == 1
        last = site.said("run").rstrip().rpartition("\n")[2]
        assert str(folder) in last
        assert last.endswith("No space left on device; make room, then continue with --resume")
        ballast.unlink()
        site.start_run(resume=True)
        ends_well(site, tmp_path)


@pytest.mark.deployed
@pytest.mark.timeout(900)
@pytest.mark.parametrize("whose, option", [("server", "--warm"), ("node", "--warm"), ("node", "--cold")])  # fmt: skip
def test_whoever_starts_processes_is_killed(
    tmp_path: Path, site: Site, whose: str, option: str
) -> None:
    """As the system does where memory is short: the program without it ends, so that it is started again."""
    site.start(option)
    name = site.roster.names[0] if whose == "node" else "server"
    for pid in executors(site, name):
        os.kill(pid, signal.SIGKILL)
    assert site.processes[name].wait(LIMIT_S) == 1
    assert f"error: {SUPEREXEC}, which starts the processes of runs, has ended" in site.said(name)
    if whose == "server":
        site.start_server()
    else:
        site.start_node(name, option)
        site.wait_for(name, "is connected to", LIMIT_S)
    site.start_run()
    ends_well(site, tmp_path)


def executors(site: Site, name: str) -> list[int]:
    """Processes of one of ours that run a SuperExec, or stand for one."""
    words = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in site.below(name, SUPEREXEC)}
    found = [p for p, w in words.items() if SUPEREXEC in (Path(x).name for x in w.decode().split("\0"))]  # fmt: skip
    assert found
    return found


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """The folder, with what it has, on a disk of its own."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a disk of its own needs root, and mount")
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name(f"{folder.name}-before")
    folder.rename(aside)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", DISK, "tmpfs", folder], check=True)
    try:
        subprocess.run(["cp", "-a", f"{aside}/.", folder], check=True)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all room, down to the last bytes."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(ROOM))
    return ballast
