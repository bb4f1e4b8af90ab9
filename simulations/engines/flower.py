"""What it takes to have a SuperLink run something: the app that is handed to it, and `flwr` commands with their answers.

The app is a generated pyproject.toml with a run's configuration and no code: server and clients import the installed
packages, so what runs is what is installed, extension systems included, and nothing is copied.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError, RunFailed
from fedsuite.settings.config import Value
from simulations.app.run_config import as_toml
from simulations.engines.proxies import directly

CONNECTION = "fedsuite"  # its name in the config.toml of a server folder
INSIDE = "Internal server error"  # what Flower says of an error 500


@dataclass(frozen=True)
class Commands:
    """`flwr` for one connection of Flower's config.toml. environment: names the folder of that file as FLWR_HOME."""

    connection: str
    environment: Mapping[str, str]
    folder: Path | None = None

    def submit(self, place: Path, run_config: Mapping[str, Value]) -> str:
        """Write the app into `place`, which is empty, and start a run of it; the run's id. RunFailed if it is refused."""
        app = place / "app"
        app.mkdir()
        (app / "pyproject.toml").write_text(app_toml(run_config), encoding="utf-8")
        answer = self.flwr("run", str(app), self.connection)
        if not answer.get("run-id"):
            told = complaint(answer)
            log = "; why stands in the SuperLink's log" if INSIDE in told else ""
            raise RunFailed(f"`flwr run` refused the run: {told}{log}")
        return str(answer["run-id"])

    def status(self, run_id: str) -> tuple[str, str]:
        """Flower's status of the run (pending, starting, running, finished:...) and its details, one line."""
        answer = self.flwr("ls", self.connection, "--run-id", run_id)
        try:
            run = answer["runs"][0]
            return str(run["status"]), " ".join(str(run["status-details"]).split())
        except (KeyError, IndexError, TypeError):
            return "unknown", complaint(answer)

    def stop(self, run_id: str) -> None:
        """Have Flower stop the run; one that has ended stays as it is."""
        self.flwr("stop", run_id, self.connection)

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """The JSON answer of a `flwr` command; {} with the text under "error-message" if there is none."""
        done = subprocess.run(
            [command_path("flwr"), *arguments, "--format", "json"],
            capture_output=True,
            text=True,
            check=False,
            env=dict(self.environment),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal is not for it
        )
        try:
            return dict(json.loads(done.stdout[done.stdout.index("{") :]))
        except ValueError:
            return {"error-message": " ".join((done.stdout + done.stderr).split())[-500:]}


def complaint(answer: Mapping[str, Any]) -> str:
    """What an answer says went wrong, one line."""
    return " ".join(str(answer.get("error-message", answer)).split())


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


def command_path(name: str) -> str:
    """A Flower program of the environment that this Python belongs to."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise InputError(f"{name}: program not found; install flwr in this environment")
    return found


def flower_settings(home: Path) -> dict[str, str]:
    """Environment of Flower's programs: these packages, its home in `home`, no telemetry, nothing installed."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {
        **directly(),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        "PYTHONPATH": os.pathsep.join(paths),
        "PATH": os.pathsep.join(programs),
    }


def free_port() -> int:
    """One of 127.0.0.1 that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
