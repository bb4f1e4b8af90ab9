"""`fedsuite run` with either engine and plain `flwr run` on what `fedsuite config` prints: equal bytes.

`flwr run` brings FedVLN to two workers of Flower's simulation; the Ray engine has one worker with CDL, two with the others.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.runs.folder import RunFolder
from simulations.engines.flower import command_path, flower_settings, free_port
from simulations.engines.processes import Family
from tests.golden.runs import RUNS
from tests.harness import ROOT, results_of, toml_from

LIMIT_S = 240
TOO_SLOW = "Failed to start local SuperLink within"
Call = Callable[..., tuple[int, str, str]]


def flwr_run(folder: Path, run_config: str, num_clients: int) -> str:
    """`flwr run` of this checkout with its own local SuperLink, which it leaves behind; that one is ended here.

    Flower gives up where its SuperLink takes more than 15 s to start, as it may beside other tests. Nothing of the run has
    begun then, so it is tried three times at most.
    """
    (folder / "plain.toml").write_text(run_config)
    for _ in range(3):
        log = _tried(folder, num_clients)
        if TOO_SLOW not in log:
            break
    return log


def _tried(folder: Path, num_clients: int) -> str:
    """What one `flwr run` printed."""
    family, port = Family(), str(free_port())
    ports = {"FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": port, "FLWR_LOCAL_CONTROL_API_PORT": port}
    nodes = f"num-supernodes={num_clients} client-resources-num-cpus=1 init-args-num-cpus=2"
    command = [command_path("flwr"), "run", str(ROOT), "--stream", "--federation-config", nodes]
    # Ray's sockets need a short path.
    with TemporaryDirectory("", "fs-", "/tmp", ignore_cleanup_errors=True) as home:
        try:
            done = subprocess.run(
                [*command, "-c", "plain.toml"],
                cwd=folder,
                env=family.environment(flower_settings(Path(home)) | ports | {"RAY_TMPDIR": home}),
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_S,
            )
        finally:
            family.end()
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.usefixtures("one_ray")
@pytest.mark.parametrize(
    ("system", "run", "workers", "plainly"),
    [
        ("fedvln", "vln-train-parallel", "2", True),
        ("cdl", "cdl-ring", "1", False),
        ("fedrl", "rl-joint", "2", False),
    ],
)
def test_all_ways_of_running_give_the_same_bytes(
    tmp_path: Path, cache: Path, call: Call, system: str, run: str, workers: str, plainly: bool
) -> None:
    tiny = toml_from({**RUNS[run], "system": system}, cache_dir=str(cache))
    (tmp_path / "tiny.toml").write_text(tiny)
    here, plain = (RunFolder(tmp_path / "runs" / name) for name in ("here", "plain"))
    code, out, err = call("run", "tiny.toml", "--set", "name=here")
    assert code == 0 and "round 1/" in out, err
    options = ("--engine", "ray", "--workers", workers, "--set", "name=ray")
    code, out, err = call("run", "tiny.toml", *options, engine=False)
    assert code == 0 and "round 1/" in out, err
    assert results_of(here) == results_of(RunFolder(tmp_path / "runs" / "ray"))
    if plainly:
        code, resolved, err = call("config", "tiny.toml", "--set", "name=plain", engine=False)
        assert code == 0, err
        log = flwr_run(tmp_path, resolved, len(read_roster(here.path / ROSTER)))
        assert plain.status().get("status") == "completed", log
        assert results_of(here) == results_of(plain)
