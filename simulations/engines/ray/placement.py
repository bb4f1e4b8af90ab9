"""How many Ray workers a run gets, and how they lie on the GPUs of this host.

Ray packs: workers that take a share of a GPU fill one GPU before the next. So where every worker takes exactly 1/K and there
are exactly N x K of them, each of N GPUs has K. K is a power of two: Flower's own simulation, to which a share may be
typed as well, keeps it as a 32-bit float, in which these are exact and others leave a worker without its GPU.
"""

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fedsuite.errors import InputError
from fedsuite.storage.installed import has_no_gpu

PER_GPU = (1, 2, 4, 8, 16)
FILLED = 0.9  # share of a GPU's free memory that workers may be expected to take
_NOT_HERE = (
    "but no GPU is visible here; leave it out, or see to the driver and CUDA_VISIBLE_DEVICES"
)


@dataclass(frozen=True)
class Placement:
    """Workers of one run. gpus: those that they share evenly; 0: they see none. worker_bytes: on a GPU; 0: not known."""

    workers: int
    gpus: int = 0
    worker_bytes: int = 0

    @property
    def per_gpu(self) -> int:
        return self.workers // self.gpus if self.gpus else 0

    def __str__(self) -> str:
        workers = _counted(self.per_gpu or self.workers, "worker")
        size = f" of about {self.worker_bytes / 1e9:.2g} GB" if self.worker_bytes else ""
        return f"{_counted(self.gpus, 'GPU')}, {workers}{size} on each" if self.gpus else workers

    def record(self) -> dict[str, Any]:
        """For run.json."""
        record = {"engine": "ray", "workers": self.workers, "gpus": self.gpus}
        record["workers-per-gpu"] = self.per_gpu
        if self.worker_bytes:
            record["gpu-bytes-per-worker"] = self.worker_bytes
        return record

    def environment(self) -> dict[str, str]:
        """Of the workers. Ray gives those with a share of a GPU theirs, and means to stop hiding GPUs from all others."""
        return {} if self.gpus else {"CUDA_VISIBLE_DEVICES": ""}


@dataclass(frozen=True)
class Weight:
    """What a dry step has seen, in bytes of one GPU.

    free: before; first: taken by a worker that has answered one message; each: what the data of a further client leave
    there. side_by_side: messages that are under way at the same time; together: clients of the first.
    """

    free: int
    first: int
    each: int
    side_by_side: int
    together: int = 1

    def placed(self, gpus: int, kept: int, cores: int) -> Placement:
        """As many workers a GPU as give a round the fewest turns, of those for which there are memory and cores; at least 1.

        kept: clients whose data a worker comes to keep open.
        """
        size = self.first + self.each * max(0, kept - self.together)
        fit = [k for k in PER_GPU if k * size <= FILLED * self.free and k * gpus <= cores]
        best = min(fit or [1], key=lambda k: (math.ceil(self.side_by_side / (gpus * k)), k))
        return Placement(best * gpus, gpus, size)


@dataclass(frozen=True)
class Resources:
    """What was asked for with --workers, --gpus and --workers-per-gpu; None: as suits. cluster: address of a Ray cluster
    that is there, "auto" for the one of this host, "": none; hosts: how many of it are waited for."""

    workers: int | None = None
    gpus: int | None = None
    workers_per_gpu: int | None = None
    cluster: str = ""
    hosts: int = 0

    @property
    def _given(self) -> Mapping[str, int]:
        """Options of the GPUs that were typed."""
        typed = {"--gpus": self.gpus, "--workers-per-gpu": self.workers_per_gpu}
        return {option: value for option, value in typed.items() if value is not None}

    @property
    def options(self) -> str:
        """What has to be typed again with --resume: without it another device might be used."""
        typed = "".join(f" {option} {value}" for option, value in self._given.items())
        hosts = f" --hosts {self.hosts}" if self.hosts else ""
        return f"{typed} --cluster {self.cluster}{hosts}" if self.cluster else typed

    def check(self, engine: str) -> None:
        """InputError for what can work in no run, of this host or with this engine; "auto": of one not yet known."""
        typed = [*(["--workers"] if self.workers is not None else []), *self._given]
        if engine in ("inprocess", "deploy") and typed:
            raise InputError(
                f"{typed[0]}: engine {engine} starts no workers; use --engine ray, or leave it out"
            )
        if self.cluster and engine not in ("ray", "auto"):
            raise InputError(
                f"--cluster: engine {engine} uses no Ray; use --engine ray, or leave it out"
            )
        if self.hosts and not self.cluster:
            raise InputError("--hosts: only a cluster has several; add --cluster, or leave it out")
        if self.cluster and self.gpus is not None:
            raise InputError("--gpus: with --cluster all GPUs of its hosts are used; leave it out")
        if self.workers is not None and self.workers < 1:
            raise InputError(f"--workers: {self.workers} can run no client; give at least 1")
        per_gpu = self.workers_per_gpu
        if per_gpu is not None and per_gpu not in PER_GPU:
            raise InputError(f"--workers-per-gpu: {per_gpu} given; give one of 1, 2, 4, 8 and 16")
        if per_gpu is not None and self.gpus == 0:
            raise InputError("--workers-per-gpu: --gpus 0 means no GPU; leave one of them out")
        if self.cluster or (not self.gpus and per_gpu is None):
            return
        here = visible_gpus()
        if not here:
            option, value = next(iter(self._given.items()))
            raise InputError(f"{option}: {value} wanted, {_NOT_HERE}")
        if self.gpus is not None and not 0 < self.gpus <= here:
            raise InputError(f"--gpus: {self.gpus} wanted, but {here} visible; give at most {here}")

    def placed(self, device: str, clients: int) -> Placement:
        """For a run with this key `device`: all GPUs unless it is cpu, or as many as were asked for.

        InputError where the device and what was asked for cannot both be had.
        """
        gpus = self.gpus
        if gpus is None:
            wanted = device != "cpu" or self.workers_per_gpu is not None
            gpus = visible_gpus() if wanted else 0
        if device == "cuda" and not gpus:
            raise InputError(
                "device: cuda was asked for, but the workers get no GPU; set device=cpu or auto, or see to --gpus"
            )
        if not gpus:
            return Placement(self.workers or default_workers(clients))
        placement = Placement(gpus * (self.workers_per_gpu or 1), gpus)
        if self.workers not in (None, placement.workers):
            raise InputError(
                f"--workers: {self.workers} given, but {placement} are {placement.workers}; leave it out, or add --gpus 0"
            )
        return placement

    def leaves_open(self, device: str, placement: Placement) -> bool:
        """Whether nobody has said how many workers a GPU gets, and clients use it."""
        said = self.workers is not None or self.workers_per_gpu is not None
        return bool(placement.gpus) and device != "cpu" and not said

    def remarks(self, device: str, clients: int) -> Iterator[str]:
        """What to tell before a run where GPUs are left idle."""
        placement = self.placed(device, clients)
        gpus, workers = _counted(placement.gpus, "GPU"), placement.workers
        if device == "cpu" and placement.gpus:
            yield f"device: cpu, so clients train on the CPU, although {gpus} were asked for; set device=auto to use them"
        elif placement.gpus and clients < workers:
            yield f"{workers} workers for {clients} clients: a GPU may stay idle while another has several; take fewer"
        if device == "auto" and self.gpus == 0 and (here := visible_gpus()):
            yield f"device: auto, but clients train on the CPU: --gpus 0 hides {_counted(here, 'GPU')}"


def visible_gpus() -> int:
    """GPUs that torch sees."""
    if has_no_gpu():
        return 0
    import torch

    return torch.cuda.device_count()


def default_workers(num_clients: int) -> int:
    """Without GPUs: one for each core that this process may use, no more than there are clients."""
    return max(1, min(cores(), num_clients))


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
