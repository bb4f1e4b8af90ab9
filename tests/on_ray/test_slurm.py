"""The sbatch file: played by stand-ins of srun and scontrol on two "nodes" of this machine, put back into the queue once."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fedsuite.runs.folder import RunFolder
from simulations.engines.processes import Family
from tests.golden.runs import RUNS
from tests.harness import NOT_LAST, ROOT, here, results_of, toml_from, wait_for_checkpoint

LIMIT_S = 400.0
JOB = 7
PYTHON = shlex.quote(sys.executable)
PROGRAMS = {
    "srun": 'while [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"',
    "scontrol": 'if [ "$1" = show ]; then printf "127.0.0.1\\n127.0.0.1\\n"; else echo "$@" >> queue; fi',
    "ray": 'more="--node-ip-address 127.0.0.1"\n[ "$2" = --head ] && more="$more --temp-dir $RAY_HOME"\n'
    f'exec {PYTHON} -m tests.loopback_ray "$@" $more',
    "fedsuite": f'exec {PYTHON} -m simulations.commands.cli "$@"',
}


def job_of(folder: Path, *typed: str) -> str:
    """What `fedsuite slurm` prints."""
    done = here(folder, "slurm", *typed)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.ray
@pytest.mark.timeout(1200)
def test_a_job_that_is_put_back_goes_on_to_the_same_bytes(tmp_path: Path, cache: Path) -> None:
    values = {**RUNS["vln-train-parallel"], "system": "fedvln", "num-rounds": 6}
    (tmp_path / "tiny.toml").write_text(toml_from(values, cache_dir=str(cache)))
    (tmp_path / "bin").mkdir()
    for name, text in PROGRAMS.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/bash\n{text}\n")
        program.chmod(0o755)
    typed = ("tiny.toml", "--nodes", "2", "--cpus-per-node", "1", "--set", "name=job")
    (tmp_path / "job.sbatch").write_text(job_of(tmp_path, *typed))
    run, queue, family = RunFolder(tmp_path / "runs" / "job"), tmp_path / "queue", Family()
    with tempfile.TemporaryDirectory("", "fs-", "/tmp", ignore_cleanup_errors=True) as home:
        environment = family.environment(
            {
                "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "RAY_HOME": home,
                "SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_ID": str(JOB + os.getpid() % 10_000),
                "SLURM_JOB_NODELIST": "two", **NOT_LAST,
            }
        )  # fmt: skip

        def submitted() -> subprocess.Popen[str]:
            return subprocess.Popen(
                ["bash", "job.sbatch"], cwd=tmp_path, env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip

        try:
            first = submitted()
            wait_for_checkpoint(first, run, 1)
            first.send_signal(signal.SIGTERM)
            said, _ = first.communicate(timeout=LIMIT_S)
            assert first.returncode != 0 and "requeue" in queue.read_text(), said
            assert run.status()["status"] == "stopped", said
            family.end()  # as SLURM does with all of a job
            second = submitted()
            said, _ = second.communicate(timeout=LIMIT_S)
            assert second.returncode == 0 and queue.read_text().count("requeue") == 1, said
        finally:
            family.end()
    assert run.status()["placement"]["hosts"]
    done = here(tmp_path, "run", "tiny.toml", "--engine", "inprocess", "--set", "name=alone")
    assert done.returncode == 0, done.stderr
    assert results_of(run) == results_of(RunFolder(tmp_path / "runs" / "alone"))


def test_the_file_says_what_was_asked_for(tmp_path: Path) -> None:
    job = job_of(
        tmp_path, "fedvln/train", "--nodes", "4", "--gpus-per-node", "8", "--seeds", "0,1", "--time", "2:00:00",
        "--option", "--partition=big gpus", "--set", "num-rounds=3",
    )  # fmt: skip
    for line in (
        "#SBATCH --nodes=4", "#SBATCH --gpus-per-node=8", "#SBATCH --time=2:00:00", "#SBATCH --partition=big gpus",
        "#SBATCH --requeue",
    ):  # fmt: skip
        assert line in job.splitlines()
    assert "--set num-rounds=3 --set device=cuda --seeds 0,1 --set name=train" in job
    assert "--hosts 4 --workers-per-gpu 1" in job
    assert (
        "--min-worker-port 0 --max-worker-port 0" in job
    )  # two jobs that share a node have no port in common
    assert subprocess.run(["bash", "-n"], input=job, text=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (
            ("--gpus-per-node", "1", "--set", "device=cpu"),
            "--gpus-per-node: device=cpu uses no GPU",
        ),
        (("--option", "partition=gpu"), "--option: expected one line as --partition=gpu"),
        (("--option", "--x\ntouch y"), "--option: expected one line"),
        (("--set", "num-rounds=no"), "num-rounds must be a whole number"),
        (("--workers-per-gpu", "2"), "--workers-per-gpu: only --gpus-per-node uses it"),
    ],
)
def test_mistakes_are_told_before_anything_is_printed(
    tmp_path: Path, typed: tuple[str, ...], told: str
) -> None:
    done = here(tmp_path, "slurm", "fedvln/train", *typed)
    assert done.returncode == 2 and told in done.stderr and not done.stdout
