"""A SuperLink of our own, the run submitted to it, and everything that the two start."""

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsuite.errors import RunFailed
from fedsuite.settings.config import Value
from simulations.engines.flower import Commands, command_path
from simulations.engines.processes import Family, can_follow, wait_until
from simulations.engines.ray.guard import Guard

START_LIMIT_S = 120.0
CONNECTION = "fedsuite"
CLIENT_APP = "simulations.engines.ray.client_app:app"


class Launch:
    def __init__(self, home: Path, variables: Mapping[str, str]) -> None:
        """variables: more for the environment of all that is started."""
        self.home, self.family = home, Family()
        self.guard = Guard(self.family, home)
        self.port = free_port()
        environment = self.family.environment({**flower_settings(home), **variables})
        environment.pop("RAY_ADDRESS", None)  # never join someone else's cluster
        self.detached: dict[str, Any] = {"env": environment, "stdin": subprocess.DEVNULL}
        self.detached["start_new_session"] = True
        self.commands = Commands(CONNECTION, environment, client_app=CLIENT_APP)
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
        simulated = ("--federation-config", federation_config)
        self.run_id = self.commands.submit(self.home, run_config, *simulated)

    def status(self) -> tuple[str, str]:
        """Flower's status of the run and its details, one line."""
        return self.commands.status(self.run_id)

    def said(self) -> str:
        """Flower's log of the run, with what server and Ray have printed; "" where there is none."""
        return self.commands.log(self.run_id) if self.run_id and self.is_running() else ""

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


def flower_settings(home: Path) -> dict[str, str]:
    """Environment of Flower's programs: these packages, its home in `home`, no telemetry, nothing installed."""
    root = str(Path(__file__).resolve().parents[3])
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
        # Ray's own 15 nearly stops a run beside one ordinary busy process per core.
        "RAY_worker_niceness": os.environ.get("RAY_worker_niceness", "0"),  # noqa: SIM112
        # A run's workers are started with its own environment: those that Ray starts beforehand are thrown away unused.
        "RAY_enable_worker_prestart": "0",
        "RAY_prestart_worker_first_driver": "0",
        "PYTHONPATH": os.pathsep.join(paths),
        "PATH": os.pathsep.join(programs),
    }


def free_port() -> int:
    """One of 127.0.0.1 that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
