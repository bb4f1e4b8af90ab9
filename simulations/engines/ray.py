"""The default engine: Flower's Ray simulation, launched, watched and cleared away.

`flwr run` leaves a SuperLink behind, reuses whatever SuperLink is up (with that one's environment),
simulates two nodes, may install dependencies, and exits 0 although the run failed. So every launch
gets its own Flower home, its own SuperLink on a free port of 127.0.0.1, the exact number of nodes,
and is judged by the run's real status. Nothing that it started survives it.

The app that is handed to Flower is a generated pyproject.toml with this run's configuration and no
code: server and clients import the installed packages, so what runs is what is installed, extension
systems included, and nothing is copied. Progress comes from the files of the run folder.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuite.config import Value
from fedsuite.errors import InputError, RunFailed
from fedsuite.history import TIMINGS
from fedsuite.run_folder import RunFolder
from simulations.engines.processes import Family, can_follow, end_with_parent, wait_until
from simulations.engines.tail import Tail

START_LIMIT_S = 120.0
POLL_S = 0.2
CONNECTION = "fedsuite"
OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Resources:
    """workers: client processes side by side; gpus_per_client: share of a GPU that each may use."""

    workers: int
    gpus_per_client: float = 0.0

    def federation_config(self, num_clients: int) -> str:
        """Flower's words for it."""
        return (
            f"num-supernodes={num_clients} client-resources-num-cpus=1 "
            f"client-resources-num-gpus={self.gpus_per_client} init-args-num-cpus={self.workers}"
        )


def run_ray(
    run_config: Mapping[str, Value],
    folder: RunFolder,
    num_clients: int,
    resources: Resources,
    on_event: OnEvent = lambda _: None,
) -> None:
    """Run to the end; InputError or RunFailed with one line if it does not get there."""
    before = _stamp(folder.status_file)
    with tempfile.TemporaryDirectory(prefix="fs-", ignore_cleanup_errors=True) as home:
        launch = _Launch(Path(home))
        try:
            launch.start_superlink()
            launch.submit(run_config, resources.federation_config(num_clients))
            _watch(launch, folder, before, on_event)
        finally:
            launch.stop()


def default_workers(num_clients: int) -> int:
    """One a core that this process may use, no more than there are clients."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, num_clients))


class _Launch:
    """A SuperLink of our own and the run submitted to it."""

    def __init__(self, home: Path) -> None:
        self.home, self.family = home, Family()
        self.port = _free_port()
        self.environment = self.family.environment(_settings(home))
        self.environment.pop("RAY_ADDRESS", None)  # never join someone else's cluster
        self.superlink: subprocess.Popen[bytes] | None = None
        self.simulation: int | None = None
        self.run_id = ""
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f'address = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )

    def start_superlink(self) -> None:
        """Start it and wait until it answers."""
        command = [_command("flower-superlink"), "--insecure", "--simulation"]
        command += ["--isolation", "subprocess", "--disable-runtime-dependency-installation"]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        with (self.home / "superlink.log").open("wb") as log:
            self.superlink = subprocess.Popen(
                command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent(),  # noqa: PLW1509 - no threads run yet
            )
        if not wait_until(lambda: self.is_up() or not self.is_running(), START_LIMIT_S):
            raise RunFailed(f"Flower's SuperLink did not answer within {START_LIMIT_S:g} s")
        if not self.is_running():
            raise RunFailed(f"Flower's SuperLink could not start: {self.last_words()}")

    def submit(self, run_config: Mapping[str, Value], federation_config: str) -> None:
        """`flwr run` the generated app."""
        app = self.home / "app"
        app.mkdir()
        (app / "pyproject.toml").write_text(app_toml(run_config), encoding="utf-8")
        answer = self.flwr("run", str(app), CONNECTION, "--federation-config", federation_config)
        if "run-id" not in answer:
            words = " ".join(str(answer.get("error-message", answer)).split())
            raise RunFailed(f"`flwr run` refused the run: {words}")
        self.run_id = str(answer["run-id"])

    def status(self) -> tuple[str, str]:
        """Flower's status of the run and its details, one line."""
        answer = self.flwr("ls", CONNECTION, "--run-id", self.run_id)
        try:
            run = answer["runs"][0]
            return str(run["status"]), " ".join(str(run["status-details"]).split())
        except (KeyError, IndexError, TypeError):
            return "unknown", str(answer)

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """The JSON answer of a `flwr` command; {} with the text under "error-message" if there is none."""
        done = subprocess.run(
            [_command("flwr"), *arguments, "--format", "json"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )
        try:
            return dict(json.loads(done.stdout[done.stdout.index("{") :]))
        except ValueError:
            return {"error-message": " ".join((done.stdout + done.stderr).split())[-500:]}

    def is_up(self) -> bool:
        """Whether the SuperLink answers."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/health", timeout=1
            ) as answer:
                return int(answer.status) == 200
        except (urllib.error.URLError, OSError):
            return False

    def is_running(self) -> bool:
        """Whether the SuperLink process lives."""
        return self.superlink is not None and self.superlink.poll() is None

    def has_simulation(self) -> bool:
        """Whether the process that holds server and Ray lives; remembers it once seen."""
        if not can_follow():
            return self.is_running()
        if self.simulation is None:
            self.simulation = self.family.find("flwr-simulation")
            return self.simulation is not None
        return self.simulation in self.family.update()

    def last_words(self) -> str:
        """The end of the SuperLink's log."""
        text = (self.home / "superlink.log").read_text(errors="replace")
        return " ".join(text.split())[-300:]

    def stop(self) -> None:
        """End everything that this launch started."""
        if self.superlink is not None and self.superlink.poll() is None:
            self.superlink.terminate()
        self.family.end()
        if self.superlink is not None:
            self.superlink.wait()


def app_toml(run_config: Mapping[str, Value]) -> str:
    """A Flower app that consists of references to the installed packages and this run's configuration."""
    config = "\n".join(f"{k} = {json.dumps(v)}" for k, v in sorted(run_config.items()))
    return f"""[project]
name = "fedsuite-run"
version = "1.0.0"
description = "one run"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "fedsuite"

[tool.flwr.app.components]
serverapp = "simulations.server_app:app"
clientapp = "simulations.client_app:app"

[tool.flwr.app.config]
{config}
"""


def _watch(
    launch: _Launch, folder: RunFolder, before: tuple[int, int] | None, on_event: OnEvent
) -> None:
    """Pass on progress until the run has ended; raise if it did not end well."""
    tail = Tail(folder.path / TIMINGS)
    give_up = time.monotonic() + START_LIMIT_S
    while True:
        begun = _stamp(folder.status_file) != before
        if begun:
            for row in tail.rows():
                on_event(row)
        alive = launch.is_running() and launch.has_simulation()
        state = folder.status() if begun else {}
        if state.get("status") in ("completed", "failed"):
            break
        waiting = launch.is_running() and launch.simulation is None
        if not alive and not (waiting and time.monotonic() < give_up):
            break
        time.sleep(POLL_S)
    for row in tail.rows() if begun else []:
        on_event(row)
    _judge(launch, folder, state)


def _judge(launch: _Launch, folder: RunFolder, state: Mapping[str, Any]) -> None:
    """The server's last word is in run.json. Only if there is none, Flower is asked what happened."""
    error = str(state.get("error", ""))
    if state.get("status") == "completed":
        return  # nothing is left to do but Ray's own slow farewell, which stop() cuts short
    if state.get("status") == "failed" and state.get("error-kind") == "input":
        raise InputError(error)
    if state.get("status") == "failed" and state.get("error-kind") == "run":
        raise RunFailed(error)
    status, details = launch.status()
    reason = error or f"Flower reports {status}: {details or launch.last_words()}"
    folder.path.mkdir(parents=True, exist_ok=True)
    log = folder.path / "flower.log"
    shutil.copyfile(launch.home / "superlink.log", log)
    folder.end("failed", reason, "bug")
    raise RunFailed(f"{reason} (log: {log})")


def _settings(home: Path) -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": str(home),
        "PYTHONPATH": os.pathsep.join(paths),
        "PATH": os.pathsep.join(programs),
    }


def _command(name: str) -> str:
    """A Flower program of the environment that this Python belongs to."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise InputError(f"{name}: program not found; install flwr[simulation] in this environment")
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _stamp(path: Path) -> tuple[int, int] | None:
    """Tells one writing of a file from another; None if it is not there."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns
