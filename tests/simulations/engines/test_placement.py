"""Workers on GPUs: how many there are, what is refused, and what is told before a run."""

import os
import sys
from pathlib import Path

import pytest

from fedsuite.errors import InputError
from simulations.commands import cli as command
from simulations.engines.ray import dry_step, launch, placement
from simulations.engines.ray.placement import (
    Placement,
    Resources,
    Weight,
    default_workers,
)
from tests.harness import exit_code_of, write_toml


def see(monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    monkeypatch.setattr(placement, "visible_gpus", lambda: gpus)


def test_without_gpus_workers_are_limited_by_cores_and_clients() -> None:
    assert default_workers(1) == 1
    assert default_workers(10_000) == len(os.sched_getaffinity(0))
    assert Placement(3).environment()["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize("per_gpu", [1, 2, 4, 8, 16])
def test_there_is_a_worker_for_each_share(monkeypatch: pytest.MonkeyPatch, per_gpu: int) -> None:
    see(monkeypatch, 4)
    placed = Resources(gpus=3, workers_per_gpu=per_gpu).placed("auto", 5)
    assert (placed.workers, placed.gpus, placed.per_gpu) == (3 * per_gpu, 3, per_gpu)
    assert str(placed) == f"3 GPUs, {per_gpu} worker{'s' * (per_gpu > 1)} on each"
    told = {"engine": "ray", "workers": 3 * per_gpu, "gpus": 3, "workers-per-gpu": per_gpu}
    assert placed.record() == told


@pytest.mark.parametrize(
    ("resources", "device", "gpus", "expected"),
    [
        (Resources(2), "cpu", 4, "2 workers"),
        (Resources(1), "auto", 0, "1 worker"),
        (Resources(), "auto", 4, "4 GPUs, 1 worker on each"),
        (Resources(workers_per_gpu=2), "cuda", 1, "1 GPU, 2 workers on each"),
        (Resources(gpus=2), "cpu", 4, "2 GPUs, 1 worker on each"),
        (Resources(2, gpus=0), "auto", 4, "2 workers"),
        (Resources(4, gpus=2, workers_per_gpu=2), "auto", 4, "2 GPUs, 2 workers on each"),
    ],
)
def test_who_says_nothing_gets_all_gpus_unless_the_device_is_the_cpu(
    monkeypatch: pytest.MonkeyPatch, resources: Resources, device: str, gpus: int, expected: str
) -> None:
    see(monkeypatch, gpus)
    resources.check("ray")
    assert str(resources.placed(device, 30)) == expected


@pytest.mark.parametrize(
    ("resources", "engine", "gpus", "complaint"),
    [
        (Resources(0), "ray", 1, "--workers: 0 can run no client; give at least 1"),
        (Resources(gpus=2), "auto", 0, "--gpus: 2 wanted, but no GPU is visible here; leave it"),
        (Resources(gpus=2), "ray", 1, "--gpus: 2 wanted, but 1 visible; give at most 1"),
        (Resources(workers_per_gpu=3), "ray", 1, "--workers-per-gpu: 3 given; give one of 1, 2, 4"),
        (Resources(workers_per_gpu=2), "ray", 0, "--workers-per-gpu: 2 wanted, but no GPU is vis"),
        (Resources(None, 0, 2), "ray", 1, "--workers-per-gpu: --gpus 0 means no GPU; leave one"),
        (Resources(gpus=0), "deploy", 1, "--gpus: engine deploy starts no workers; use --engine"),
        (Resources(2), "inprocess", 1, "--workers: engine inprocess starts no workers; use"),
    ],
)
def test_what_can_work_in_no_run_is_refused(
    monkeypatch: pytest.MonkeyPatch, resources: Resources, engine: str, gpus: int, complaint: str
) -> None:
    see(monkeypatch, gpus)
    with pytest.raises(InputError, match=complaint):
        resources.check(engine)


def fedsuite(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, *typed: str
) -> tuple[int, str, str]:
    """Exit code, output and complaints of `fedsuite run toy.toml ...` on 4 GPUs; no Ray is started.

    A dry step says that a worker fills a GPU.
    """
    see(monkeypatch, 4)
    monkeypatch.setattr(dry_step, "weighed", lambda _: Weight(10**9, 10**9, 0, 9))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["fedsuite", "run", "toy.toml", *typed])
    code = exit_code_of(command.main)
    return code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (
            ["--gpus", "0", "--set", "device=cuda"],
            "device: cuda was asked for, but the workers get",
        ),
        (
            ["--workers", "3", "--set", "device=auto"],
            "--workers: 3 given, but 4 GPUs, 1 worker on each are 4; leave it out, or add --gpus 0",
        ),
        (["--gpus", "2", "--engine", "inprocess"], "--gpus: engine inprocess starts no workers"),
    ],
)
def test_what_does_not_go_with_a_run_is_refused_before_anything_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: list[str],
    complaint: str,
) -> None:
    write_toml(tmp_path)
    code, out, err = fedsuite(monkeypatch, capsys, tmp_path, *typed)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert err.startswith(f"error: {complaint}")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("typed", "placed", "remarks"),
    [
        (
            ["--set", "num-clients=4", "--set", "device=auto"],
            "4 GPUs, 1 worker of about 1 GB on each",
            [],
        ),
        (
            ["--gpus", "0", "--workers", "2", "--set", "device=auto"],
            "2 workers",
            ["device: auto, but clients train on the CPU: --gpus 0 hides 4 GPUs"],
        ),
        (
            ["--gpus", "2"],
            "2 GPUs, 1 worker on each",
            ["device: cpu, so clients train on the CPU, although 2 GPUs were asked for"],
        ),
        (
            ["--workers-per-gpu", "2", "--set", "device=auto"],
            "4 GPUs, 2 workers on each",
            ["8 workers for 3 clients: a GPU may stay idle while another has several"],
        ),
    ],
)
def test_the_placement_and_what_stays_idle_are_told_before_the_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: list[str],
    placed: str,
    remarks: list[str],
) -> None:
    write_toml(tmp_path)

    def ray_is_not_started(*given: object, **_: object) -> None:
        raise InputError(f"would run on: {given[3]}")

    monkeypatch.setattr(launch, "run_ray", ray_is_not_started)
    code, out, err = fedsuite(monkeypatch, capsys, tmp_path, *typed)
    assert (code, err) == (2, f"error: would run on: {placed}\n")
    assert f" clients, ray: {placed})" in out
    told = [line for line in out.splitlines() if "device:" in line or "workers for" in line]
    assert len(told) == len(remarks)
    assert all(remark in line for remark, line in zip(remarks, told, strict=True)), told
