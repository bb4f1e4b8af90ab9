"""The default engine: Flower's Ray simulation, launched, watched and cleared away.

`flwr run` leaves a SuperLink behind, reuses whatever SuperLink is up (with that one's environment), simulates two nodes, may
install dependencies, and exits 0 although the run failed. So every launch gets its own Flower home, its own SuperLink on a
free port of 127.0.0.1 and the exact number of nodes, and is judged by the run's real status. Nothing that it started
survives it. Progress comes from the files of the run folder.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuite.config import Value
from fedsuite.errors import InputError, RunFailed
from fedsuite.run_folder import RunFolder
from simulations.engines.following import Follower, OnEvent, raise_failure
from simulations.engines.superlink import START_LIMIT_S, Launch

POLL_S = 0.2
LONGEST_TMPDIR = 24  # Ray's socket paths start there and must stay under 107 characters


@dataclass(frozen=True)
class Resources:
    """workers: client processes side by side, None: as suits; gpus_per_client: share of a GPU that each may use."""

    workers: int | None = None
    gpus_per_client: float = 0.0

    def check(self) -> None:
        """InputError where no client could ever start: Ray would wait for what is not there."""
        if self.workers is not None and self.workers < 1:
            raise InputError(f"--workers: {self.workers} can run no client; give at least 1")
        if self.gpus_per_client <= 0:
            return
        import torch

        gpus = torch.cuda.device_count()
        given = f"--client-gpus: {self.gpus_per_client:g} wanted"
        if not gpus:
            raise InputError(
                f"{given}, but no GPU is visible here; leave it out, or see to the driver and CUDA_VISIBLE_DEVICES"
            )
        if self.gpus_per_client > gpus:
            raise InputError(f"{given}, but {gpus} visible; give at most {gpus}")
        if self.gpus_per_client > 1 and self.gpus_per_client % 1:
            raise InputError(f"{given}; above 1 only whole GPUs can be given")

    def federation_config(self, num_clients: int) -> str:
        """Flower's words for it."""
        workers = self.workers or default_workers(num_clients)
        return (
            f"num-supernodes={num_clients} client-resources-num-cpus=1 "
            f"client-resources-num-gpus={self.gpus_per_client} init-args-num-cpus={workers}"
        )


def run_ray(
    run_config: Mapping[str, Value],
    folder: RunFolder,
    num_clients: int,
    resources: Resources,
    on_event: OnEvent = lambda _: None,
) -> None:
    """Run to the end; InputError or RunFailed with one line if it does not get there."""
    resources.check()
    follower = Follower(folder)
    short = None if len(tempfile.gettempdir()) <= LONGEST_TMPDIR else "/tmp"
    with tempfile.TemporaryDirectory("", "fs-", short, ignore_cleanup_errors=True) as home:
        launch = Launch(Path(home))
        try:
            launch.start_superlink()
            launch.submit(run_config, resources.federation_config(num_clients))
            _watch(launch, follower, on_event)
        finally:
            launch.stop()


def default_workers(num_clients: int) -> int:
    """One for each core that this process may use, no more than there are clients."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, num_clients))


def _watch(launch: Launch, follower: Follower, on_event: OnEvent) -> None:
    """Pass on progress until the run has ended; raise if it did not end well."""
    give_up = time.monotonic() + START_LIMIT_S
    while True:
        alive = launch.is_running() and launch.has_simulation()
        # What comes last: whatever was written before the run ended is there.
        state = follower.state(on_event)
        if state.get("status") in ("completed", "failed"):
            break
        waiting = launch.is_running() and launch.simulation is None
        if not alive and not (waiting and time.monotonic() < give_up):
            break
        time.sleep(POLL_S)
    _judge(launch, follower.folder, state)


def _judge(launch: Launch, folder: RunFolder, state: Mapping[str, Any]) -> None:
    """The server's last word is in run.json. Only if there is none, Flower is asked what happened."""
    raise_failure(folder, state)
    if state.get("status") == "completed":
        return  # nothing is left to do but Ray's own slow farewell, which stop() cuts short
    reported, details = launch.status()
    reason = f"the simulation ended without a word (killed, or out of memory?); Flower reports {reported}: {details}"
    folder.path.mkdir(parents=True, exist_ok=True)
    log = folder.path / "flower.log"
    shutil.copyfile(launch.home / "superlink.log", log)
    folder.end("failed", reason, "bug")
    raise RunFailed(f"{reason} (log: {log})")
