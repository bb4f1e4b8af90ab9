"""A client's half of FedRL: opens its own world."""

from functools import partial
from typing import cast

from flwr.client import NumPyClient

from clients.party import PartyClient, PartySite
from clients.sealed_party import SealedParty
from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.own_noise import OwnNoise
from fedsuite.fedrl.open_world import open_world, prepare_world
from fedsuite.fedrl.worlds import Role
from fedsuite.settings.config import with_keys
from fedsuite.settings.devices import device_of
from fedsuite.storage.progress import silent
from simulations.app.members_of_sums import sealed_keys
from simulations.app.opened import Opened
from simulations.systems import Node


def make_client(config: FedRLConfig, node: Node) -> NumPyClient:
    """A client's half: its own world, opened once per process and party."""
    roles, wanted = tuple(m.role for m in node.roster.members), config.federation.roles
    if roles != wanted:
        raise InputError(
            f"federation.method: the run is one of {', '.join(wanted)}, this node's roster has {', '.join(roles)}; give it "
            "the roster that was made for this run"
        )
    if "noise-seed" in node.options:
        raise InputError(
            "node-config noise-seed: others on this machine can read it; write it into a file of the node's own, and "
            "name that in the node-config as node"
        )
    data_dir = str(node.options.get("data-dir", config.data.dir))
    if node.own is not None:
        prepare_world(config, silent, (node.member.role,))
    party = PartyClient(_open_site(with_keys(config, {"data.dir": data_dir}), node))
    return SealedParty(party, sealed_keys(config, node)) if config.federation.sealed else party


@partial(Opened, at_least=8)
def _open_site(config: FedRLConfig, node: Node) -> PartySite:
    world = open_world(config)
    world.check_party(node.member.role)
    return PartySite(
        partition=node.partition,
        role=cast(Role, node.member.role),
        config=config,
        world=world,
        folder=node.folder,
        resident=bool(node.options.get("resident", False)),
        device=device_of(config.device, config.precision),
        own_noise=_own_noise(node),
    )


def _own_noise(node: Node) -> OwnNoise | None:
    """What a node with a noise-seed adds to its Q-values. Its folder lies in the run's, whose name is the run's key."""
    if node.own is None or node.own.noise_seed < 0:
        return None
    return OwnNoise(node.own.noise_seed, node.folder.parent.name, node.folder)
