"""A SuperLink of our own, the run submitted to it, and everything that the two start.

The app handed to Flower is a generated pyproject.toml with this run's configuration and no code: server and clients import
the installed packages, so what runs is what is installed, extension systems included, and nothing is copied.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsuite.config import Value
from fedsuite.errors import InputError, RunFailed
from simulations.engines.guard import Guard
from simulations.engines.processes import Family, can_follow, wait_until
from simulations.run_config import as_toml

START_LIMIT_S = 120.0
CONNECTION = "fedsuite"


class Launch:
    def __init__(self, home: Path) -> None:
        self.home, self.family = home, Family()
        self.guard = Guard(self.family, home)
        self.port = free_port()
        environment = self.family.environment(flower_settings(home))
        environment.pop("RAY_ADDRESS", None)  # never join someone else's cluster
        self.detached: dict[str, Any] = {"env": environment, "stdin": subprocess.DEVNULL}
        self.detached["start_new_session"] = True
        self.superlink: subprocess.Popen[bytes] | None = None
        self.simulation: int | None = None
        self.run_id = ""
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f'address = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )

    def start_superlink(self) -> None:
        """Start it and wait until it answers."""
        command = [command_path("flower-superlink"), "--insecure", "--simulation"]
        command += ["--isolation", "subprocess", "--disable-runtime-dependency-installation"]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        with (self.home / "superlink.log").open("wb") as log:
            self.superlink = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, **self.detached
            )
        if not wait_until(lambda: self.is_up() or not self.is_running(), START_LIMIT_S):
            raise RunFailed(f"Flower's SuperLink did not answer within {START_LIMIT_S:g} s")
        if not self.is_running():
            text = (self.home / "superlink.log").read_text(errors="replace")
            last_words = " ".join(text.split())[-300:]
            raise RunFailed(f"Flower's SuperLink could not start: {last_words}")

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
        command = [command_path("flwr"), *arguments, "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self.detached)
        try:
            return dict(json.loads(done.stdout[done.stdout.index("{") :]))
        except ValueError:
            return {"error-message": " ".join((done.stdout + done.stderr).split())[-500:]}

    def is_up(self) -> bool:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(f"http://127.0.0.1:{self.port}/health", timeout=1) as answer:
                return int(answer.status) == 200
        except (urllib.error.URLError, OSError):
            return False

    def is_running(self) -> bool:
        return self.superlink is not None and self.superlink.poll() is None

    def has_simulation(self) -> bool:
        """Whether the process that holds server and Ray lives; remembers it once seen."""
        if not can_follow():
            return self.is_running()
        if self.simulation is None:
            self.simulation = self.family.find("flwr-simulation")
            return self.simulation is not None
        return self.simulation in self.family.update()

    def stop(self) -> None:
        if self.superlink is not None and self.superlink.poll() is None:
            self.superlink.terminate()
        self.family.end()
        if self.superlink is not None:
            self.superlink.wait()
        self.guard.dismiss()


def app_toml(run_config: Mapping[str, Value]) -> str:
    """A Flower app that consists of references to the installed packages and this run's configuration."""
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

{as_toml(run_config, "tool.flwr.app.config")}"""


def flower_settings(home: Path) -> dict[str, str]:
    """Environment of Flower's programs: these packages, its home in `home`, no telemetry, nothing installed."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    here = ",".join(filter(None, [os.environ.get("NO_PROXY", ""), "127.0.0.1,localhost"]))
    return {
        "NO_PROXY": here,
        "no_proxy": here,
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


def command_path(name: str) -> str:
    """A Flower program of the environment that this Python belongs to."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise InputError(f"{name}: program not found; install flwr[simulation] in this environment")
    return found


def free_port() -> int:
    """One of 127.0.0.1 that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
