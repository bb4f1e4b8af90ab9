"""The Ray engine through the command line: same bytes as in process, failures told in one line, nothing left behind."""

import os
import shutil
import signal
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedsuite.errors import InputError, RunFailed
from fedsuite.history import read_rows
from fedsuite.runs.folder import RunFolder
from simulations.engines.flower import app_toml
from simulations.engines.processes import living_processes, wait_until
from simulations.engines.ray import superlink
from simulations.engines.ray.launch import run_ray
from simulations.engines.ray.logs import FLOWER_LOG, RAY_LOGS
from simulations.engines.ray.placement import Placement
from simulations.experiments.result_tables import runs_table
from tests.harness import cli, results_of, run_toy, start_cli, wait_for_checkpoint, write_toml


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


def answers_by_round(folder: RunFolder) -> dict[int, list[int]]:
    """By round, partitions in the order in which their answers to its training came; of repeated ones the newest."""
    found: dict[int, list[int]] = {}
    for row in read_rows(folder.path / "timings.jsonl"):
        if row["kind"] == "client" and row["task"] == "train":
            rest = [p for p in found.get(row["round"], []) if p != row["partition"]]
            found[row["round"]] = [*rest, row["partition"]]
    return found


def test_the_generated_app_holds_the_configuration_and_no_code() -> None:
    config = {"a": 'say "x"\\', "b": 3, "c": 1e-5, "d": True, "e": "ü"}
    app = tomllib.loads(app_toml(config))["tool"]["flwr"]["app"]
    assert app["config"] == config
    assert app["components"]["serverapp"] == "simulations.server_app:app"


def test_a_missing_program_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match=r"flower-superlink: program not found; install flwr"):
        superlink.command_path("flower-superlink")


def test_a_superlink_that_cannot_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_left_behind: Path
) -> None:
    broken = tmp_path / "flower-superlink"
    broken.write_text("#!/bin/sh\necho the port is taken; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(superlink, "command_path", lambda name: str(broken))
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(RunFailed, match="could not start: the port is taken") as told:
        run_ray({"num-rounds": 4}, folder, 3, Placement(1))
    assert (folder.path / FLOWER_LOG).read_text() == "the port is taken\n"
    assert str(folder.path / FLOWER_LOG) in str(told.value)
    assert folder.status()["status"] == "failed" and "the port is" in folder.status()["error"]
    table, complaints = runs_table(tmp_path)
    assert (table.row_count, complaints) == (1, [])
    assert list(table.columns[2].cells) == ["0/4"]
    assert "the port is taken" in str(next(iter(table.columns[4].cells)))


@pytest.mark.slow
@pytest.mark.ray
def test_a_ray_that_cannot_start_is_told_with_its_cause_and_listed(
    tmp_path: Path, nothing_left_behind: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_toml(tmp_path)
    monkeypatch.setenv("RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES", "1000")
    done = cli(tmp_path, "run", "toy.toml")
    folder = tmp_path / "runs" / "toy"
    cause = "the simulation failed: ValueError: Attempting to cap object store memory usage at 1000"
    assert done.returncode == 1 and done.stderr.startswith(f"error: {cause} bytes, but")
    assert done.stderr.endswith(f"(logs: {folder / FLOWER_LOG}, {RAY_LOGS} beside it)\n")
    assert "Traceback" in (folder / FLOWER_LOG).read_text()
    assert (folder / RAY_LOGS / "gcs_server.out").is_file()
    assert RunFolder(folder).status()["error"].startswith(cause)
    table, complaints = runs_table(tmp_path / "runs")
    assert list(table.columns[1].cells) == ["failed"] and not complaints
    assert list(nothing_left_behind.iterdir()) == []


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.timeout(600)
def test_two_workers_interrupted_killed_and_resumed_give_the_same_bytes(
    tmp_path: Path, nothing_left_behind: Path
) -> None:
    write_toml(tmp_path, num_rounds=12, round_time_s=0.3)
    folder = RunFolder(tmp_path / "runs" / "toy")

    process = start_cli(tmp_path, "run", "toy.toml", "--workers", "2", start_new_session=True)
    wait_for_checkpoint(process, folder, 2)
    running = processes_in(tmp_path, nothing_left_behind)
    assert len(running) > 5  # the check below sees something
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

    done = cli(tmp_path, "run", "--resume", "toy", "--workers", "2", "--set", "round-time-s=0")
    assert done.returncode == 0, done.stderr
    own = run_toy(tmp_path / "own", num_rounds=12)
    assert results_of(folder) == results_of(own)
    # Site 2 has most samples, site 0 fewest: two workers take 2 and 1, and who is free first takes 0.
    for answered, clients in ((answers_by_round(folder), 1), (answers_by_round(own), 3)):
        assert len(answered) == 12
        assert {tuple(a[-clients:]) for n, a in answered.items() if n <= 4} == {
            (2, 1, 0)[-clients:]
        }


@pytest.mark.slow
@pytest.mark.ray
def test_a_bug_in_the_server_and_a_killed_simulation_are_told(
    tmp_path: Path, nothing_left_behind: Path
) -> None:
    write_toml(tmp_path, fault="server-bug", num_rounds=9, round_time_s=0.2)
    done = cli(tmp_path, "run", "toy.toml")
    folder = RunFolder(tmp_path / "runs" / "toy")
    told = f"error: KeyError: 'a bug in the strategy' (traceback: {folder.errors})\n"
    assert (done.returncode, done.stderr) == (1, told)
    assert 'raise KeyError("a bug in the strategy")' in folder.errors.read_text()

    process = start_cli(tmp_path, "run", "--overwrite", "toy.toml", "--set", "fault=")
    wait_for_checkpoint(process, folder, 2)
    for pid in processes_in(tmp_path, nothing_left_behind):
        command = (Path("/proc") / str(pid) / "cmdline").read_bytes()
        if b"flwr-simulation" in command:
            os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and err.count("\n") == 1
    assert err.startswith("error: the simulation ended without a word (killed, or out of memory?)")
    assert folder.status()["status"] == "failed"


@pytest.mark.slow
@pytest.mark.ray
def test_a_dead_worker_fails_the_run_in_one_line(tmp_path: Path, nothing_left_behind: Path) -> None:
    write_toml(tmp_path, fault="exit", num_clients=4)
    done = cli(tmp_path, "run", "toy.toml", "--set", "min-reply-fraction=0.1")
    assert done.returncode == 1
    assert done.stderr.startswith("error: round 2, train: site-")
    assert ": the worker process died" in done.stderr
    assert done.stderr.count("\n") == 1
    status = RunFolder(tmp_path / "runs" / "toy").status()
    assert status["status"] == "failed" and status["error"] in done.stderr
    assert list(nothing_left_behind.iterdir()) == []
