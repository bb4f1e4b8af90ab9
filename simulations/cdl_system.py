"""CDL wired to the app: which partition holds which silos, the overlay they mix over, and what is done around a run.

Silos stand at the first N nodes of the network, in its order. Partition p holds silos p S .. (p + 1) S - 1 with
S = silos-per-client; a pooled run has one partition with all data.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from flwr.client import NumPyClient
from flwr.common import Context

from clients.private_state import PrivateState
from clients.vehicle import VehicleClient, VehicleSite
from fedsuite.arrays import module_arrays
from fedsuite.devices import check_device, device_of
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.fleet import names_of
from fedsuite.driving.learner import contrastive_settings
from fedsuite.driving.plan import initial_network, make_plan
from fedsuite.driving.sources import open_silos, prepare_sources, silos_folder
from fedsuite.errors import InputError
from fedsuite.federation import RoundStrategy
from fedsuite.run_folder import folder_of
from simulations.systems import System, settings_of
from strategies.neighbour_averaging import Costs, NeighbourAveraging


def validate(config: CDLConfig) -> None:
    """Combinations of keys that no single range can rule out; builds the network and the overlay once."""
    check_device(config.device)
    if config.share_stem and config.model != "resnet8":
        raise InputError("share-stem: only resnet8 has a stem to share; set share-stem=false")
    if config.batch_norm == "local" and config.cross_evaluation:
        raise InputError(
            "cross-evaluation: with batch-norm=local a backbone is not whole away from home; set it to false"
        )
    if config.pooled and config.silos_per_client > 1:
        raise InputError(
            "silos-per-client: scenario cll has one silo that holds all data; set it to 1"
        )
    if config.influence == "exponential" and config.influence_floor <= 0:
        raise InputError(
            "influence-floor: an exponential schedule never gets to 0; set it above 0 or choose influence=linear"
        )
    contrastive_settings(config)
    _check_batch(config, initial_network(config))
    make_plan(config)


def _check_batch(config: CDLConfig, network: torch.nn.Module) -> None:
    """BatchNorm has no variance of a single frame whose last map is a single pixel."""
    if config.batch_size > 1 or config.batch_norm == "group":
        return
    frame = torch.zeros(1, config.channels, config.image_size, config.image_size)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            network.train()(frame)
    except ValueError:
        raise InputError(
            f"batch-size: {config.model} at {config.image_size} pixels cannot normalise a batch of 1; set it to 2 "
            "or more, or batch-norm=group"
        ) from None


def prepare(config: CDLConfig, progress: Callable[[str], None]) -> None:
    """Generate roads or convert drives."""
    prepare_sources(config, make_plan(config).num_data_silos, progress)


def num_partitions(config: CDLConfig) -> int:
    """Number of clients."""
    return len(make_plan(config).holders)


def make_strategy(config: CDLConfig, run_dir: Path) -> RoundStrategy:
    """Server side."""
    plan, network = make_plan(config), initial_network(config)
    mixed = names_of(network, config.batch_norm).mixed
    initial = {k: v for k, v in module_arrays(network).items() if k in mixed}
    costs = Costs(plan.cycle_time_ms, plan.links_per_mixing, plan.message_bits)
    schedule = plan.schedule(_frames_per_silo(config) if config.data_weighted else None)
    return NeighbourAveraging(config, initial, plan.holders, schedule, costs)


def _frames_per_silo(config: CDLConfig) -> list[int]:
    folder = silos_folder(config, make_plan(config).num_data_silos)
    return [len(s.train) for s in open_silos(folder, config.pooled)]


@lru_cache(maxsize=128)
def _open_site(config: CDLConfig, partition: int, run_dir: Path) -> VehicleSite:
    plan = make_plan(config)
    numbers = plan.holders[partition]
    folder = silos_folder(config, plan.num_data_silos)
    silos = open_silos(folder, config.pooled)
    own = tuple(silos[i] for i in numbers)
    name = own[0].name if len(own) == 1 else f"{own[0].name}..{own[-1].name}"
    network = initial_network(config).to(device_of(config.device))
    return VehicleSite(
        partition=partition,
        name=name,
        numbers=numbers,
        silos=own,
        private=PrivateState(run_dir / "clients" / name),
        network=network,
        names=names_of(network, config.batch_norm),
        initial=module_arrays(network),
        device=device_of(config.device),
    )


def partition_of(config: CDLConfig, context: Context) -> int:
    """A SuperNode says which silo it is; a simulated node is told its partition."""
    silo = context.node_config.get("silo")
    if silo is None:
        return int(context.node_config["partition-id"])
    plan = make_plan(config)
    names = [s.name for s in open_silos(silos_folder(config, plan.num_data_silos), config.pooled)]
    if silo not in names:
        raise InputError(
            f"node-config silo: {silo!r} is no silo of this run; expected one of {names}"
        )
    return names.index(str(silo)) // config.silos_per_client


def make_client(context: Context) -> NumPyClient:
    """Client side: opened once per process and partition."""
    _, config = settings_of(context.run_config)
    assert isinstance(config, CDLConfig)
    site = _open_site(config, partition_of(config, context), folder_of(config).path)
    schedule = make_plan(config).schedule(
        _frames_per_silo(config) if config.data_weighted else None
    )
    held = list(site.numbers)

    def own_matrix(t: int) -> np.ndarray:
        return schedule.matrix(t)[np.ix_(held, held)]

    return VehicleClient(site, config, own_matrix)


def closing(config: CDLConfig, run_dir: Path) -> None:
    """Tables and plots of the finished run."""
    from simulations.cdl_closing import write_closing

    write_closing(config, run_dir)


def compare(folder: Path, runs: Mapping[str, CDLConfig]) -> None:
    """Tables and plots of several runs beside each other."""
    from simulations.cdl_comparison import write_comparison

    write_comparison(folder, runs)


SYSTEM = System(
    config_class=CDLConfig,
    validate=validate,
    prepare=prepare,
    num_partitions=num_partitions,
    make_strategy=make_strategy,
    make_client=make_client,
    closing=closing,
    compare=compare,
)
