"""A client's half of FedRL: opens its own world."""

from functools import lru_cache
from typing import cast

from flwr.client import NumPyClient

from clients.party import PartyClient, PartySite
from fedsuite.config import with_keys
from fedsuite.devices import device_of
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.open_world import open_world, prepare_world
from fedsuite.fedrl.worlds import Role
from fedsuite.progress import silent
from simulations.systems import Node


def make_client(config: FedRLConfig, node: Node) -> NumPyClient:
    """A client's half: its own world, opened once per process and party."""
    data_dir = str(node.options.get("data-dir", config.data.dir))
    if node.own is not None:
        prepare_world(config, silent)
    return PartyClient(_open_site(with_keys(config, {"data.dir": data_dir}), node))


@lru_cache(maxsize=8)
def _open_site(config: FedRLConfig, node: Node) -> PartySite:
    noise_seed = node.options.get("noise-seed")
    if node.own is not None and node.own.noise_seed >= 0:
        noise_seed = node.own.noise_seed
    return PartySite(
        partition=node.partition,
        role=cast(Role, node.member.role),
        config=config,
        world=open_world(config),
        folder=node.folder,
        resident=bool(node.options.get("resident", False)),
        device=device_of(config.device, config.precision),
        noise_seed=None if noise_seed is None else int(noise_seed),
    )
