"""FedRL wired to the app: which partition is which party, the world that its node opens, and what is done around a run.

Partition 0 is the party with rewards (alpha, or the only learner of a baseline); partition 1 is beta, partition 2 gamma.
A real node may have, in its node-config, "party" (alpha, beta), "data-dir" (where its data lies, in place of the run's) and
"noise-seed" (of its own noise, so that no other party can take the noise off again).
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import cast

from flwr.client import NumPyClient
from flwr.common import Context

from clients.party import PartyClient, PartySite
from fedsuite.devices import check_device, device_of
from fedsuite.errors import InputError
from fedsuite.federation import RoundStrategy
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.gridworld.world import check_expert
from fedsuite.fedrl.opening import open_world, prepare_world
from fedsuite.fedrl.worlds import Role
from fedsuite.run_folder import folder_of
from simulations.systems import System, settings_of
from strategies.two_party import TwoParty


def validate(config: FedRLConfig) -> None:
    """Combinations of keys that no single range can rule out."""
    check_device(config.device)
    if config.min_reply_fraction < 1:
        raise InputError("min-reply-fraction: a party cannot go on without the others; set it to 1")
    if config.world == "gridworld" and config.method in ("oracle", *_IMITATING):
        check_expert(config)
    if config.world == "text2action":
        if config.parties > 2:
            raise InputError("parties: a third party exists in gridworld only; set it to 2")
        if config.corpus == "generated" and config.data_dir:
            raise InputError(
                "data-dir: corpus generated reads no files; name another corpus, or none"
            )
        if config.text_source != "generated" and not config.data_dir:
            raise InputError(
                f"data-dir: corpus {config.corpus} is read from t2a_{config.corpus}.json.gz; give its folder, "
                "or set corpus=generated"
            )
    if config.method in ("random", "oracle", *_IMITATING) and config.round_unit == "episodes":
        raise InputError(
            f"round-unit: {config.method} plays no episodes in training; set it to steps"
        )
    if config.batch_size + config.history >= config.memory:
        raise InputError(
            f"memory: {config.memory} records are no more than batch-size + history; make it larger"
        )
    if config.exchange_every > config.memory:
        raise InputError("exchange-every: more parallel episodes than memory has records; lower it")


_IMITATING = ("fcn-alpha", "fcn-full")


def prepare(config: FedRLConfig, progress: Callable[[str], None]) -> None:
    """Generate maps or texts, train word vectors, or read and check the files."""
    prepare_world(config, progress)


def num_partitions(config: FedRLConfig) -> int:
    """Number of parties."""
    return len(config.roles)


def make_strategy(config: FedRLConfig, run_dir: Path) -> RoundStrategy:
    """Server side; it opens no data."""
    return TwoParty(config)


@lru_cache(maxsize=8)
def _open_site(
    config: FedRLConfig, partition: int, run_dir: Path, resident: bool, noise_seed: int | None
) -> PartySite:
    role = cast(Role, config.roles[partition])
    return PartySite(
        partition=partition,
        role=role,
        config=config,
        world=open_world(config),
        folder=run_dir / "clients" / role,
        resident=resident,
        device=device_of(config.device),
        noise_seed=noise_seed,
    )


def partition_of(config: FedRLConfig, context: Context) -> int:
    """A SuperNode says which party it is; a simulated node is told its partition."""
    party = context.node_config.get("party")
    if party is None:
        return int(context.node_config["partition-id"])
    if party not in config.roles:
        raise InputError(
            f"node-config party: {party!r} is no party of this run; expected one of {list(config.roles)}"
        )
    return config.roles.index(str(party))


def make_client(context: Context) -> NumPyClient:
    """Client side: opened once per process and party."""
    _, config = settings_of(context.run_config)
    assert isinstance(config, FedRLConfig)
    run_dir, partition = folder_of(config).path, partition_of(config, context)
    data_dir = str(context.node_config.get("data-dir", config.data_dir))
    own = dataclasses.replace(config, data_dir=data_dir)
    resident = bool(context.node_config.get("resident", False))
    noise_seed = context.node_config.get("noise-seed")
    own_seed = None if noise_seed is None else int(noise_seed)
    return PartyClient(_open_site(own, partition, run_dir, resident, own_seed))


def closing(config: FedRLConfig, run_dir: Path) -> None:
    """Tables and plots of the finished run."""
    from simulations.fedrl_closing import write_closing

    write_closing(config, run_dir)


def compare(folder: Path, runs: Mapping[str, FedRLConfig]) -> None:
    """The table of all methods."""
    from simulations.fedrl_comparison import write_comparison

    write_comparison(folder, runs)


SYSTEM = System(
    config_class=FedRLConfig,
    validate=validate,
    prepare=prepare,
    num_partitions=num_partitions,
    make_strategy=make_strategy,
    make_client=make_client,
    closing=closing,
    compare=compare,
    engine="inprocess",
)
