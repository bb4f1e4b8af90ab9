"""A real SuperLink and real SuperNodes with warm clients: `fedsuite run --engine deploy` makes what a simulation makes."""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fedsuite.history import read_rows
from fedsuite.roster.members import read_roster, write_roster
from fedsuite.runs.folder import RunFolder
from simulations.deploy.warm.start import warm_clients
from simulations.engines.flower import command_path, flower_settings, free_port
from simulations.engines.processes import Family, wait_until
from tests import cdl_runs
from tests.harness import (
    ROOT,
    cli,
    config_from,
    prepared,
    start_cli,
    toml_from,
    wait_for_checkpoint,
)
from tests.nodes import write_node

LIMIT_S = 120.0
TINY = {
    **cdl_runs.TINY, "num-silos": 0, "underlay": "gaia", "checkpoint-every": 1, "evaluate-every": 0, "num-rounds": 4,
}  # fmt: skip
NAMES = ("ada", "bob")


class Deployment:
    """A SuperLink without TLS, and a SuperNode beside each drive."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.family = folder, Family()
        stack.callback(self.family.end)
        self.port = free_port()
        common = self.family.environment(flower_settings(folder / "server"))
        (folder / "server").mkdir()
        (folder / "server" / "config.toml").write_text(
            f'[superlink.here]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )
        link = ["flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(self.port)]
        link += ["--disable-runtime-dependency-installation"]
        self._start(link, common, "superlink")
        assert wait_until(self._is_up, LIMIT_S)
        environment = stack.enter_context(warm_clients(common, None))
        for name in NAMES:
            home = folder / name
            node = [
                *("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{self.port}"),
                *("--host", "127.0.0.1", "--port", str(free_port())),
                *("--node-config", f'node="{home / "node.toml"}"'),
            ]
            self._start(node, environment, name)

    def _start(self, command: list[str], environment: dict[str, str], name: str) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            subprocess.Popen(
                [command_path(command[0]), *command[1:]],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1):
                return True
        except (urllib.error.URLError, OSError):
            return False


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    cdl_runs.write_drives(tmp_path / "drives")
    config = {**TINY, "data-dir": str(tmp_path / "drives")}
    roster = prepared(config_from({**config, "cache-dir": str(tmp_path / "cache")}))
    write_roster(tmp_path / "roster.json", roster)
    for name in NAMES:
        cdl_runs.write_drives(tmp_path / name / "drives", (name,))
        write_node(tmp_path / name, name, tmp_path / "roster.json", data={"dir": "drives"})
    there = {"data-dir": "/no/data/on/the/server", "roster": str(tmp_path / "roster.json")}
    (tmp_path / "run.toml").write_text(toml_from({**TINY, **there}))
    (tmp_path / "all.toml").write_text(toml_from(config))
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "server"))
    with ExitStack() as stack:
        yield Deployment(tmp_path, stack)


@pytest.mark.slow
@pytest.mark.deployed
@pytest.mark.timeout(600)
def test_a_run_on_real_nodes_is_stopped_resumed_and_equal_to_a_simulation(
    deployment: Deployment,
) -> None:
    base = deployment.folder
    run = RunFolder(base / "runs" / "deployed")
    options = ["--engine", "deploy", "--connection", "here"]
    process = start_cli(
        base, "run", "run.toml", "--set", "name=deployed", *options, start_new_session=True
    )
    wait_for_checkpoint(process, run, 1)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, out + err
    assert f"continue with: fedsuite run --resume {run.path} --engine deploy" in err
    assert run.status()["status"] == "stopped" and not run.is_being_written()
    begin = time.monotonic()
    done = cli(base, "run", "--resume", str(run.path), *options)
    assert done.returncode == 0, done.stderr
    print(f"resumed and completed in {time.monotonic() - begin:.1f} s")
    simulated = cli(base, "run", "all.toml", "--set", "name=all", "--engine", "inprocess")
    assert simulated.returncode == 0, simulated.stderr
    other = RunFolder(base / "runs" / "all")
    for name in ("model.safetensors", "history.jsonl"):
        assert (run.path / name).read_bytes() == (other.path / name).read_bytes(), name
    logs = [(base / f"{name}.log").read_text() for name in NAMES]
    assert not any("cold" in log or "leaked" in log for log in logs)
    seconds = [r["seconds"] for r in read_rows(run.path / "timings.jsonl") if r["kind"] == "client"]
    print("seconds of each message:", [round(s, 1) for s in seconds])
    assert read_roster(run.path / "roster.json").names == list(NAMES)


@pytest.mark.slow
@pytest.mark.deployed
@pytest.mark.timeout(600)
def test_two_commands_at_once_and_an_app_bundle_with_code(deployment: Deployment) -> None:
    base = deployment.folder
    options = ["--engine", "deploy", "--connection", "here", "--set", "num-rounds=1"]
    both = [start_cli(base, "run", "run.toml", "--set", f"name={name}", *options) for name in "ab"]
    said = [process.communicate(timeout=2 * LIMIT_S) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    shown = cli(base, "config", "run.toml", "--set", "name=c", "--set", "num-rounds=1")
    (base / "plain.toml").write_text(shown.stdout)
    environment = {**os.environ, **flower_settings(base / "server")}
    command = [command_path("flwr"), "run", str(ROOT), "here", "--stream", "-c", "plain.toml"]
    subprocess.run(command, cwd=base, env=environment, check=True, timeout=2 * LIMIT_S)
    models = [(base / "runs" / name / "model.safetensors").read_bytes() for name in "abc"]
    assert models[0] == models[1] == models[2]
    assert not any("cold" in (base / f"{name}.log").read_text() for name in NAMES)
