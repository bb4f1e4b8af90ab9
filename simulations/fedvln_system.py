"""FedVLN wired to the app: which partition holds which houses, and what is done before, in and after a run.

Partitions: one per training house in order of first appearance, then one per unseen house; centralised training has
all training houses in partition 0. Pre-exploration has the unseen houses (centralised: all in partition 0), after the
training houses if those learn along. Checks of settings are in fedvln_checks.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from flwr.client import NumPyClient
from flwr.common import Context

from clients.house import HouseClient
from clients.house_member import HouseSite
from clients.private_state import PrivateState
from clients.speaking_house import SpeakingHouse
from fedsuite.arrays import Arrays, module_arrays
from fedsuite.devices import device_of
from fedsuite.errors import InputError
from fedsuite.federation import RoundStrategy
from fedsuite.randomness import rng_for
from fedsuite.run_folder import folder_of
from fedsuite.vln.agent import Agent, AgentSizes, build_agent
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.controls import apply_controls
from fedsuite.vln.dataset import House, join_houses, load_house, load_vocabulary
from fedsuite.vln.sampled_paths import sampled_paths
from fedsuite.vln.sources import Sources, open_sources, prepare_sources
from fedsuite.vln.speaker import Speaker, SpeakerSizes, build_speaker
from fedsuite.vln.stages import describes_paths, is_personal, leaves_house
from fedsuite.vln.starting import (
    VOCABULARY,
    checked_model,
    house_model,
    leave_vocabulary,
    run_of,
)
from simulations.fedvln_checks import validate
from simulations.systems import System, settings_of
from strategies.house_averaging import HouseAveraging
from strategies.language_encoder_fedavg import LanguageEncoderFedAvg
from strategies.local_only import LocalOnly

ALL_HOUSES, ALL_UNSEEN = "all-training-houses", "all-unseen-houses"


@dataclass(frozen=True)
class Partition:
    """One client: its name, the scans it owns, and whether these are unseen houses."""

    name: str
    scans: tuple[str, ...]
    unseen: bool = False


def partitions(config: FedVLNConfig, sources: Sources) -> list[Partition]:
    """All clients of a run, in order of their partition ids."""
    seen = [Partition(s, (s,)) for s in sources.training_scans]
    unseen = [Partition(s, (s,), unseen=True) for s in sources.unseen_scans]
    if config.stage == "pre-explore":
        if config.method == "centralised":
            return [Partition(ALL_UNSEEN, tuple(sources.unseen_scans), unseen=True)]
        return seen + unseen if config.seen_participation_rate else unseen
    if config.method == "centralised":
        seen = [Partition(ALL_HOUSES, tuple(sources.training_scans))]
    return seen + unseen


def prepare(config: FedVLNConfig, progress: Callable[[str], None]) -> None:
    """Generate, convert and check the data, and the models that the run starts from."""
    sources = prepare_sources(config, progress)
    starting_model(config, sources)
    if describes_paths(config):
        starting_speaker(config, sources)


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


def speaker_sizes(config: FedVLNConfig, sources: Sources) -> SpeakerSizes:
    """Sizes of the run's speaker."""
    return SpeakerSizes(
        vocabulary=sources.vocabulary_size,
        feature=sources.feature_size,
        angle=config.angle_feature_size,
        hidden=config.hidden_size,
        word=config.word_embedding_size,
        dead_layers=config.dead_layers,
    )


def initial_speaker(config: FedVLNConfig, sources: Sources) -> Speaker:
    """The speaker before round 1, the same for every method with the same seed."""
    seed = int(rng_for(config.seed, "initial speaker").integers(2**31))
    return build_speaker(speaker_sizes(config, sources), seed)


def starting_model(config: FedVLNConfig, sources: Sources) -> Arrays:
    """What the run starts from: the model of an earlier run, or a new one; InputError if that does not fit."""
    new = module_arrays(
        initial_speaker(config, sources)
        if config.stage == "speaker"
        else initial_agent(config, sources)
    )
    if not config.start_from:
        return new
    shapes = {k: v.shape for k, v in new.items()}
    if is_personal(config) and all(
        house_model(config, p.name) for p in partitions(config, sources)
    ):
        # Every house goes on with its own agent; the server needs no more than it merges.
        shapes = {k: v.shape for k, v in leaves_house(config, new).items()}
    return checked_model(
        run_of(config.start_from, config.seed), "start-from", shapes, words_of(sources)
    )


def starting_speaker(config: FedVLNConfig, sources: Sources) -> Arrays:
    """The speaker of an earlier run."""
    shapes = {k: v.shape for k, v in module_arrays(initial_speaker(config, sources)).items()}
    return checked_model(
        run_of(config.speaker_from, config.seed), "speaker-from", shapes, words_of(sources)
    )


def words_of(sources: Sources) -> Path:
    """The file with the run's vocabulary."""
    return sources.houses_dir / VOCABULARY


def make_strategy(config: FedVLNConfig, run_dir: Path) -> RoundStrategy:
    """Server side."""
    sources = open_sources(config)
    leave_vocabulary(run_dir, words_of(sources))
    initial = starting_model(config, sources)
    speaker = starting_speaker(config, sources) if describes_paths(config) else {}
    if is_personal(config):
        return LanguageEncoderFedAvg(config, initial, speaker)
    if config.method == "local-only":
        return LocalOnly(config, initial)
    return HouseAveraging(config, initial, speaker)


@lru_cache(maxsize=2)
def _agent_shell(config: FedVLNConfig) -> Agent:
    return initial_agent(config, open_sources(config)).to(device_of(config.device))


@lru_cache(maxsize=2)
def _speaker_shell(config: FedVLNConfig) -> Speaker:
    return initial_speaker(config, open_sources(config)).to(device_of(config.device))


@lru_cache(maxsize=128)
def _open_site(config: FedVLNConfig, partition: int, run_dir: Path) -> HouseSite:
    sources = open_sources(config)
    who = partitions(config, sources)[partition]
    houses = tuple(open_house(config, sources, scan, partition) for scan in who.scans)
    folder = run_dir / "clients" / who.name
    # A house draws the same headings whoever holds it.
    order = [*sources.training_scans, *sources.unseen_scans]
    wanted = config.stage == "augment" or (config.stage == "pre-explore" and who.unseen)
    sampled = [sampled_paths(h, config.seed, order.index(h.graph.scan)) for h in houses if wanted]
    return HouseSite(
        partition,
        who.name,
        houses,
        join_houses(houses, device_of(config.device)),
        PrivateState(folder),
        folder,
        who.unseen,
        tuple(sampled),
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
    if config.stage == "speaker":
        words = load_vocabulary(open_sources(config).houses_dir)
        return SpeakingHouse(site, config, _speaker_shell(config), words)
    speaker = _speaker_shell(config) if describes_paths(config) else None
    return HouseClient(site, config, _agent_shell(config), speaker)


def closing(config: FedVLNConfig, run_dir: Path) -> None:
    """Tables and plots of the finished run."""
    from simulations.fedvln_closing import write_closing

    write_closing(config, run_dir)


def compare(folder: Path, runs: Mapping[str, FedVLNConfig]) -> None:
    """Tables of the paper over the completed runs of an experiment."""
    from simulations.fedvln_comparison import write_comparison

    write_comparison(folder, runs)


SYSTEM = System(
    config_class=FedVLNConfig,
    validate=validate,
    prepare=prepare,
    num_partitions=num_partitions,
    make_strategy=make_strategy,
    make_client=make_client,
    closing=closing,
    compare=compare,
)
