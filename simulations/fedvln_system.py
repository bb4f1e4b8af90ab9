"""FedVLN wired to the app: which partition holds which houses, and what is done before, in and after a run.

Partitions: federated and local-only, one per training house in order of first appearance, then one per unseen house;
centralised, partition 0 holds all training houses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from flwr.client import NumPyClient
from flwr.common import Context

from clients.house import HouseClient, HouseSite
from clients.private_state import PrivateState
from fedsuite.arrays import module_arrays
from fedsuite.devices import check_device, device_of
from fedsuite.errors import InputError
from fedsuite.federation import RoundStrategy
from fedsuite.randomness import rng_for
from fedsuite.run_folder import folder_of
from fedsuite.vln.agent import Agent, AgentSizes, build_agent
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.controls import apply_controls
from fedsuite.vln.dataset import House, join_houses, load_house
from fedsuite.vln.mattersim import make_simulator
from fedsuite.vln.sources import Sources, open_sources, prepare_sources
from simulations.systems import System, settings_of
from strategies.house_averaging import HouseAveraging
from strategies.local_only import LocalOnly

ALL_HOUSES = "all-training-houses"


@dataclass(frozen=True)
class Partition:
    """One client: its name and the scans it owns."""

    name: str
    scans: tuple[str, ...]


def partitions(config: FedVLNConfig, sources: Sources) -> list[Partition]:
    """All clients of a run, in order of their partition ids."""
    seen = [Partition(s, (s,)) for s in sources.training_scans]
    if config.method == "centralised":
        seen = [Partition(ALL_HOUSES, tuple(sources.training_scans))]
    return seen + [Partition(s, (s,)) for s in sources.unseen_scans]


def validate(config: FedVLNConfig) -> None:
    """Combinations of keys that no single range can rule out."""
    if config.hidden_size % 2:
        raise InputError(f"hidden-size: must be even for a two-way LSTM, got {config.hidden_size}")
    if config.angle_feature_size % 4:
        raise InputError(
            f"angle-feature-size: must be a multiple of 4, got {config.angle_feature_size}"
        )
    if config.teacher_weight == 0 and (config.objective == "none" or config.sampled_weight == 0):
        raise InputError(
            "teacher-weight: 0 with objective none leaves nothing to learn; raise one of them"
        )
    if config.method == "local-only" and config.client_optimizer == "shared":
        raise InputError("client-optimizer: local-only houses share nothing; choose kept or fresh")
    if config.method == "local-only" and config.submission:
        raise InputError(
            "submission: local-only training has no single agent to submit; set submission=false"
        )
    if config.simulator != "tables":
        make_simulator(config.simulator)
    check_device(config.device)


def prepare(config: FedVLNConfig, progress: Callable[[str], None]) -> None:
    """Generate, convert and check the data."""
    prepare_sources(config, progress)


def num_partitions(config: FedVLNConfig) -> int:
    """Number of clients; the data must be prepared."""
    return len(partitions(config, open_sources(config)))


def agent_sizes(config: FedVLNConfig, sources: Sources) -> AgentSizes:
    """Sizes of the run's agent."""
    return AgentSizes(
        vocabulary=sources.vocabulary_size,
        feature=sources.feature_size,
        angle=config.angle_feature_size,
        hidden=config.hidden_size,
        word=config.word_embedding_size,
        action=config.action_embedding_size,
        dead_layers=config.dead_layers,
    )


def initial_agent(config: FedVLNConfig, sources: Sources) -> Agent:
    """The agent before round 1, the same for every method with the same seed."""
    seed = int(rng_for(config.seed, "initial agent").integers(2**31))
    return build_agent(agent_sizes(config, sources), seed, config.masked_pooling)


def make_strategy(config: FedVLNConfig, run_dir: Path) -> RoundStrategy:
    """Server side."""
    initial = module_arrays(initial_agent(config, open_sources(config)))
    return (
        LocalOnly(config, initial)
        if config.method == "local-only"
        else HouseAveraging(config, initial)
    )


@lru_cache(maxsize=2)
def _agent_shell(config: FedVLNConfig) -> Agent:
    return initial_agent(config, open_sources(config)).to(device_of(config.device))


@lru_cache(maxsize=128)
def _open_site(config: FedVLNConfig, partition: int, run_dir: Path) -> HouseSite:
    sources = open_sources(config)
    who = partitions(config, sources)[partition]
    houses = tuple(open_house(config, sources, scan, partition) for scan in who.scans)
    folder = run_dir / "clients" / who.name
    return HouseSite(
        partition,
        who.name,
        houses,
        join_houses(houses, device_of(config.device)),
        PrivateState(folder),
        folder,
    )


def open_house(config: FedVLNConfig, sources: Sources, scan: str, partition: int) -> House:
    """One house as the run's controls let the agent know it."""
    house = load_house(
        sources.houses_dir,
        sources.connectivity_dir,
        sources.views_dir,
        scan,
        config.max_instruction_length,
        config.simulator,
    )
    return apply_controls(house, config, partition)


def partition_of(config: FedVLNConfig, context: Context) -> int:
    """A SuperNode says which scan it is; a simulated node is told its partition."""
    scan = context.node_config.get("scan")
    if scan is None:
        return int(context.node_config["partition-id"])
    names = [p.name for p in partitions(config, open_sources(config))]
    if scan not in names:
        raise InputError(
            f"node-config scan: {scan!r} is no house of this run; expected one of {names}"
        )
    return names.index(str(scan))


def make_client(context: Context) -> NumPyClient:
    """Client side: opened once per process and house."""
    _, config = settings_of(context.run_config)
    assert isinstance(config, FedVLNConfig)
    run_dir = folder_of(config).path
    site = _open_site(config, partition_of(config, context), run_dir)
    return HouseClient(site, config, _agent_shell(config))


def closing(config: FedVLNConfig, run_dir: Path) -> None:
    """Tables and plots of the finished run."""
    from simulations.fedvln_closing import write_closing

    write_closing(config, run_dir)


SYSTEM = System(
    config_class=FedVLNConfig,
    validate=validate,
    prepare=prepare,
    num_partitions=num_partitions,
    make_strategy=make_strategy,
    make_client=make_client,
    closing=closing,
)
