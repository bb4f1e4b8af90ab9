"""The Ray engine: same bytes as in process whoever is killed, failures told in one line, nothing left behind."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from fedsuite.errors import InputError, RunFailed
from fedsuite.history import TIMINGS, Kind, line_about, read_rows
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import Value
from simulations.engines.flower import app_toml, command_path
from simulations.engines.processes import living_processes, wait_until
from simulations.engines.ray import launch
from simulations.engines.ray.grid import MOST_DEATHS, RayGrid
from simulations.engines.ray.hands import ThisHost
from simulations.engines.ray.launch import run_ray
from simulations.engines.ray.logs import RAY_LOGS
from simulations.engines.ray.placement import Placement
from simulations.engines.ray.worker import LONG, Worker, opened, packed
from simulations.experiments.result_tables import runs_table
from simulations.systems import to_run_config
from strategies.runtime.packing import PACKED, arrays_of, packed_record
from tests.harness import (
    cli,
    here,
    results_of,
    run_toy,
    start_cli,
    toy_settings,
    wait_for_checkpoint,
    write_toml,
)
from tests.placed_toy import FILE


def processes_in(*folders: Path) -> set[int]:
    """Pids of all that work in one of the folders or have a file open there, whoever started them."""
    found = set()
    for process in living_processes():
        try:
            folder = Path("/proc") / str(process.pid)
            links = [folder / "cwd", *(folder / "fd").iterdir()]
            targets = [os.readlink(link) for link in links]
        except OSError:
            continue  # it ended meanwhile, or belongs to someone else
        if any(target.startswith(str(f)) for target in targets for f in folders):
            found.add(process.pid)
    return found - {os.getpid()}


@pytest.fixture
def nothing_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Fails if processes outlive the test; gives the folder for temporary files."""
    temporary = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))  # Ray's sockets need short paths
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield temporary
    gone = wait_until(lambda: not processes_in(tmp_path, temporary), 15)
    assert gone, f"processes left: {processes_in(tmp_path, temporary)}"
    shutil.rmtree(temporary)


def runner(folder: Path, **keys: Value) -> tuple[dict[str, Any], RunFolder]:
    """The run-config of a toy run, and its folder."""
    settings = toy_settings(folder, **keys)
    return to_run_config(settings), RunFolder(folder / settings.name)


def sent_again(folder: RunFolder) -> list[dict[str, Any]]:
    return [row for row in read_rows(folder.path / TIMINGS) if row["kind"] == Kind.SENT_AGAIN]


def test_the_generated_app_holds_the_configuration_and_no_code() -> None:
    config = {"a": 'say "x"\\', "b": 3, "c": 1e-5, "d": True, "e": "ü"}
    app = tomllib.loads(app_toml(config))["tool"]["flwr"]["app"]
    assert app["config"] == config
    assert app["components"]["serverapp"] == "simulations.server_app:app"


def test_a_missing_program_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match=r"flower-superlink: program not found; install flwr"):
        command_path("flower-superlink")


def test_long_blocks_travel_beside_the_pickle() -> None:
    long, short = b"x" * LONG, b"y" * (LONG - 1)
    small, blocks = packed({"a": [long], "b": short})
    assert blocks == [long] and blocks[0] is long and len(small) < LONG + 200
    assert opened(small, blocks) == {"a": [long], "b": short}


def test_arrays_of_messages_to_several_clients_are_one_block() -> None:
    given = {"w": np.arange(LONG, dtype=np.float32)}
    record = packed_record(given)
    (first, (block,)), (_, (again,)) = packed([record]), packed([record.copy()])
    assert again is block == record[PACKED].data and len(first) < LONG
    np.testing.assert_array_equal(arrays_of(opened(first, [block])[0])["w"], given["w"])


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
def test_a_ray_of_this_process_that_is_too_small_is_refused(tmp_path: Path) -> None:
    config, folder = runner(tmp_path)
    with pytest.raises(InputError, match=r"--workers: 9 wanted, .* has 8 CPUs; give fewer"):
        run_ray(config, folder, 3, Placement(9))


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("one_ray")
def test_workers_killed_at_random_moments_cost_their_tasks_alone(tmp_path: Path) -> None:
    """kill -9 of whichever worker has begun to work on the run, four times, at moments that differ from run to run."""
    keys: dict[str, Value] = {"num_rounds": 12, "num_clients": 5, "checkpoint_every": 5}
    config, folder = runner(
        tmp_path / "ray", **keys, round_time_s=0.2, system="tests.placed_toy:SYSTEM"
    )
    over, killed, rng = threading.Event(), set[int](), random.Random()

    def kill_now_and_then() -> None:
        """Once a round at most: three deaths in a row of one message would end the run."""
        reached = 0
        while not over.wait(rng.uniform(0.1, 0.7)) and len(killed) < 4:
            timings = folder.path / TIMINGS
            rows = read_rows(timings, torn_end=True) if timings.is_file() else []
            rounds = sum(row["kind"] == Kind.ROUND for row in rows)
            if rounds <= reached:
                continue
            reached = rounds
            files = folder.clients.glob(f"*/{FILE}")
            pids = {json.loads(file.read_text() or "{}").get("pid", 0) for file in files}
            if living := sorted(pids - killed - {0}):
                killed.add(victim := rng.choice(living))
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    try:
        run_ray(config, folder, 5, Placement(2))
    finally:
        over.set()
        killer.join()
    own = run_toy(tmp_path / "own", **keys, system="tests.placed_toy:SYSTEM")
    assert results_of(folder) == results_of(own)
    assert len(killed) >= 3
    lines = sent_again(folder)
    assert lines and all(line["worker"] in (1, 2) and line["reason"] for line in lines)
    assert "was sent again" in line_about(lines[0])


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
def test_all_workers_of_a_lost_host_are_replaced_and_no_message_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: set[int] = set()
    ready = RayGrid.ready

    class Losing(ThisHost):
        def worker(self, number: int) -> tuple[Any, bool]:
            lost.discard(number)
            return super().worker(number)

        def lost(self, number: int) -> bool:
            return number in lost

    def then_lost(grid: RayGrid) -> None:
        ready(grid)
        for place in grid._idle:
            lost.add(place.number)
            ray.kill(place.actor)

    monkeypatch.setattr(launch, "ThisHost", Losing)
    monkeypatch.setattr(RayGrid, "ready", then_lost)
    config, folder = runner(tmp_path, num_clients=1)
    run_ray(config, folder, 1, Placement(MOST_DEATHS + 1))
    assert not lost
    assert results_of(folder) == results_of(run_toy(tmp_path / "alone", num_clients=1))


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
def test_a_message_that_kills_three_workers_fails_the_run_in_one_line(tmp_path: Path) -> None:
    config, folder = runner(tmp_path, fault="exit", num_clients=4, min_reply_fraction=0.1)
    with pytest.raises(RunFailed) as told:
        run_ray(config, folder, 4, Placement(2))
    line = str(told.value)
    assert line.startswith("round 2, train: site-1: the worker process died (out of memory")
    assert str(folder.path / RAY_LOGS) in line and "\n" not in line
    assert [row["client"] for row in sent_again(folder)] == ["site-1"] * 2
    assert "3 workers died one after another" in folder.errors.read_text()
    assert list((folder.path / RAY_LOGS).glob("worker-*.err"))
    status = folder.status()
    assert status["status"] == "failed" and status["error"] in line


@pytest.mark.slow
@pytest.mark.ray
def test_a_ray_that_cannot_start_is_told_with_its_cause_and_listed(
    tmp_path: Path, nothing_left_behind: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_toml(tmp_path)
    monkeypatch.setenv("RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES", "1000")
    done = cli(tmp_path, "run", "toy.toml")
    folder = tmp_path / "runs" / "toy"
    cause = "Ray did not start: ValueError: Attempting to cap object store memory usage at 1000"
    assert done.returncode == 1 and done.stderr.startswith(f"error: {cause} bytes, but")
    assert done.stderr.endswith(f"(logs: {folder / RAY_LOGS})\n") and done.stderr.count("\n") == 1
    assert (folder / RAY_LOGS / "gcs_server.out").is_file()
    assert RunFolder(folder).status()["error"].startswith(cause)
    table, complaints = runs_table(tmp_path / "runs")
    assert list(table.columns[1].cells) == ["failed"] and not complaints
    assert list(nothing_left_behind.iterdir()) == []


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("one_ray")
def test_two_workers_interrupted_killed_and_resumed_give_the_same_bytes(
    tmp_path: Path, nothing_left_behind: Path
) -> None:
    write_toml(tmp_path, num_rounds=12, round_time_s=0.3)
    folder = RunFolder(tmp_path / "runs" / "toy")

    process = start_cli(tmp_path, "run", "toy.toml", "--workers", "2", start_new_session=True)
    wait_for_checkpoint(process, folder, 2)
    running = processes_in(tmp_path, nothing_left_behind)
    assert len(running) > 4  # the check below sees something
    # Ray's workers, too, have the priority of whoever starts them.
    assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in running} == {os.nice(0)}
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does on Ctrl-C
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    assert f"continue with: fedsuite run --resume {folder.path}" in err
    assert folder.status()["status"] == "stopped" and not folder.is_being_written()
    assert list(nothing_left_behind.iterdir()) == []

    process = start_cli(tmp_path, "run", "--resume", "toy", "--workers", "2")
    wait_for_checkpoint(process, folder, 6)
    process.kill()
    process.communicate(timeout=60)
    assert wait_until(lambda: not processes_in(tmp_path, nothing_left_behind), 15)
    assert wait_until(lambda: not list(nothing_left_behind.iterdir()), 5)

    process = start_cli(tmp_path, "run", "--resume", "toy", "--workers", "2")
    wait_for_checkpoint(process, folder, 8)
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and folder.status()["status"] == "stopped"
    assert wait_until(lambda: not processes_in(tmp_path, nothing_left_behind), 15)

    done = here(tmp_path, "run", "--resume", "toy", "--workers", "2", "--set", "round-time-s=0")
    assert done.returncode == 0, done.stderr
    assert results_of(folder) == results_of(run_toy(tmp_path / "own", num_rounds=12))


def test_a_worker_imports_what_clients_need_before_a_message_comes() -> None:
    """Else the first messages wait for imports, one worker after the other."""
    said = "import os, sys; from simulations.engines.ray.worker import Worker; before = set(sys.modules); "
    said += "Worker([], os.getcwd(), {}, False, 'cdl'); print(*set(sys.modules) - before)"
    imported = subprocess.run(
        [sys.executable, "-c", said], capture_output=True, text=True, check=True, timeout=120
    ).stdout.split()
    assert {"torch", "simulations.cdl.client"} <= set(imported)
    assert "simulations.fedvln.client" not in imported


def test_a_worker_leaves_an_unknown_system_to_the_message(tmp_path: Path) -> None:
    """Its reply names it; the worker itself lives."""
    assert Worker([], str(tmp_path / "elsewhere"), {}, False, "no-such-system").pid() == os.getpid()
