"""A client's half of CDL: opens its own silos and nothing of others."""

from functools import cache, lru_cache

import numpy as np
from flwr.client import NumPyClient

from clients.sealed_vehicle import SealedVehicle
from clients.vehicle import VehicleClient, VehicleSite
from fedsuite.arrays import module_arrays
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.frames import with_false_angles
from fedsuite.driving.data.sources import open_own, prepare_own, roster_folder, with_limit
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network, mixing_of
from fedsuite.driving.topology.mixing_matrix import MixingSchedule
from fedsuite.runs.versions import Versions
from fedsuite.settings.devices import device_of
from simulations.app.members_of_sums import sealed_keys
from simulations.app.opened import Opened
from simulations.systems import Node


def make_client(config: CDLConfig, node: Node) -> NumPyClient:
    """A client's half: its own silos, opened once per process."""
    config.sabotage.check(real=node.real)
    config = with_limit(config, node.roster)
    site = _open_site(config, node)
    schedule = cache(lambda: mixing_of(config, node.roster))  # a silo by itself never asks

    def own_matrix(t: int) -> np.ndarray:
        rows = schedule().rows_of(site.numbers)
        return schedule().matrix(t)[np.ix_(rows, rows)]

    silo = VehicleClient(site, config, own_matrix)
    if not config.federation.sealed:
        return silo
    return SealedVehicle(silo, sealed_keys(config, node), lambda: _schedule(config, node))


@lru_cache(maxsize=16)
def _schedule(config: CDLConfig, node: Node) -> MixingSchedule:
    """Who mixes with whom in a sealed run, which a silo asks in every round."""
    return mixing_of(config, node.roster)


@Opened
def _open_site(config: CDLConfig, node: Node) -> VehicleSite:
    folder = (
        prepare_own(config.drawn_data, node.roster, node.member)
        if node.own
        else roster_folder(config.drawn_data, node.roster)
    )
    network = initial_network(config).to(device_of(config.device, config.precision))
    silos = tuple(open_own(folder, name) for name in node.member.names("names"))
    if config.sabotage.flips_labels(node.partition):
        silos = tuple(with_false_angles(silo) for silo in silos)
    return VehicleSite(
        partition=node.partition,
        name=node.member.name,
        numbers=tuple(node.member.listed("silos", int)),
        silos=silos,
        private=Versions(node.folder, node.member.name),
        network=network,
        names=names_of(network, config),
        initial=module_arrays(network),
        device=device_of(config.device, config.precision),
    )
