"""The sides of benchmarks/peers.py that are runs of this project: in process, and on Ray with two workers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import load_file
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.peer_work import BATCH, RATE, ROWS, WORKERS, WORKS, Merged, Play, Weights, data_of
from fedsuite import FedAvgSettings, Node, Roster, System, roster_of, setting, torch_system
from fedsuite.runs.folder import folder_of
from fedsuite.settings.config import read_config
from simulations.engines.inprocess import run_inprocess
from simulations.engines.ray.launch import run_ray
from simulations.engines.ray.placement import Placement
from simulations.systems import to_run_config


@dataclass(frozen=True)
class Settings(FedAvgSettings):
    system: str = setting("benchmarks.peer_ours:SYSTEM", "this system")
    work: str = setting("regression", "what is trained", choices=tuple(WORKS))


def clients_of(config: Settings) -> Roster:
    count = WORKS[config.work].clients
    return roster_of([f"client-{n}" for n in range(count)], [ROWS] * count)


def rows_of(config: Settings, node: Node) -> tuple[Tensor, Tensor]:
    return data_of(config.work, node.partition)


def model_of(config: Settings) -> torch.nn.Module:
    return WORKS[config.work].make()


SYSTEM: System[Settings] = torch_system(
    "peers", Settings, clients=clients_of, data=rows_of, model=model_of, loss=cross_entropy
)


def settings(name: str, rounds: int, folder: Path) -> Settings:
    """The model is saved at the end; history and timings at every round, as always. The other sides score no model: here
    one client does, before the first round and after the last."""
    work = WORKS[name]
    return read_config(
        Settings,
        {
            "name": name, "results-dir": str(folder / "runs"), "work": name,
            "num-rounds": rounds, "evaluate-every": 0, "evaluation-clients": 1, "checkpoint-every": rounds,
            "federation": {"participation-rate": (work.asked + 0.5) / work.clients},
            "training": {"batch-size": BATCH, "learning-rate": RATE},
        },
    )  # fmt: skip


def _played(
    engine: Callable[[Settings, Callable[[Mapping[str, Any]], None]], object],
    name: str,
    rounds: int,
    merged: Merged,
    folder: Path,
) -> Weights:
    def heard(event: Mapping[str, Any]) -> None:
        if event["kind"] == "round" and event["round"]:
            merged()

    torch.set_num_threads(1)
    config = settings(name, rounds, folder)
    engine(config, heard)
    return load_file(folder_of(config).path / "model.safetensors")


def _in_process(config: Settings, heard: Callable[[Mapping[str, Any]], None]) -> None:
    run_inprocess(to_run_config(config), heard)


def _on_ray(config: Settings, heard: Callable[[Mapping[str, Any]], None]) -> None:
    nodes = SYSTEM.simulated_nodes(config, WORKS[config.work].clients)
    run_ray(to_run_config(config), folder_of(config), nodes, Placement(WORKERS), heard)


in_process: Play = partial(_played, _in_process)
on_ray: Play = partial(_played, _on_ray)
