"""A client's half of FedVLN: opens its own houses and nothing of others."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import Any

from flwr.client import NumPyClient

from clients.house import HouseClient
from clients.house_base import HouseSite
from clients.side_by_side import Ask
from clients.speaker_house import SpeakerClient
from clients.together import TogetherClient
from fedsuite.errors import InputError
from fedsuite.roster.members import Roster
from fedsuite.runs.versions import Versions
from fedsuite.settings.devices import device_of
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.ablations import with_false_directions
from fedsuite.vln.data.dataset import join_houses
from fedsuite.vln.data.instructions import Vocabulary
from fedsuite.vln.data.roster import UNSEEN, open_house, prepare_own
from fedsuite.vln.data.sampled_paths import sampled_paths
from fedsuite.vln.data.sources import places_of
from fedsuite.vln.evaluation.joint_walks import Walks, walk_together
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.model.recording import Recordings
from fedsuite.vln.model.speaker import Speaker
from fedsuite.vln.plan import initial_agent, initial_speaker
from fedsuite.vln.refusals import IN_SIMULATION
from fedsuite.vln.stacking import replays, stacks
from fedsuite.vln.stages import describes_paths, has_own, samples_paths
from fedsuite.vln.training.stacked import train_stacked
from simulations.app.opened import Opened
from simulations.systems import Node


def make_client(config: FedVLNConfig, node: Node) -> NumPyClient:
    """Opened once per process and house."""
    config.sabotage.check(real=node.real)
    if not config.federation.houses_per_message:
        return _client_of(config, node)
    if node.real:
        raise InputError(IN_SIMULATION)
    device = device_of(config.device, config.precision)
    recordings = _recordings() if replays(config, device) else None
    together = partial(_answered, recordings) if stacks(config, device) else None
    personal = has_own(config)

    def open_client(
        partition: int, place: int = 0, scores: bool = False, ask: Ask | None = None
    ) -> NumPyClient:
        """scores: with the server's model, which is all houses' unless they have their own."""
        place = 0 if scores and not personal else place
        client = _client_of(config, _neighbour(node, partition), place)
        if isinstance(client, HouseClient):
            client.ask = ask
        return client

    return TogetherClient(node.partition, node.roster.names, open_client, together)


def _answered(recordings: Recordings | None, asked: Sequence[Any]) -> Sequence[Any]:
    """What the houses of a message ask for at the same time: all to train, or all to walk."""
    if isinstance(asked[0], Walks):
        return walk_together(asked)
    return train_stacked(asked, recordings)


@cache
def _recordings() -> Recordings:
    """All of this process."""
    return Recordings()


@lru_cache(maxsize=512)
def _neighbour(node: Node, partition: int) -> Node:
    """Another house of the same simulation."""
    folder = node.folder.parent / node.roster.names[partition]
    return replace(node, partition=partition, folder=folder)


def _client_of(config: FedVLNConfig, node: Node, place: int = 0) -> NumPyClient:
    """place: among the houses that train side by side, which need agents of their own."""
    site = _open_site(config, node)
    if config.stage == "speaker":
        words = Vocabulary(node.roster.words)
        return SpeakerClient(site, config, _speaker_template(config, node.roster), words)
    speaker = _speaker_template(config, node.roster) if describes_paths(config) else None
    agent = _agent_template(config, node.roster)
    return HouseClient(site, config, _another(agent, place) if place else agent, speaker)


@lru_cache(maxsize=2)
def _agent_template(config: FedVLNConfig, roster: Roster) -> Agent:
    return initial_agent(config, roster).to(device_of(config.device, config.precision))


@lru_cache(maxsize=16)
def _another(agent: Agent, place: int) -> Agent:
    """A shell like it, of its own for each place; beyond 16 houses a message they are made anew."""
    return copy.deepcopy(agent)


@lru_cache(maxsize=2)
def _speaker_template(config: FedVLNConfig, roster: Roster) -> Speaker:
    return initial_speaker(config, roster).to(device_of(config.device, config.precision))


@Opened
def _open_site(config: FedVLNConfig, node: Node) -> HouseSite:
    places, member = places_of(config), node.member
    scans, numbers = member.names("houses"), member.listed("numbers", int)
    unseen = member.role == UNSEEN
    if node.own is not None:
        prepare_own(config, node.roster, member)
    words = Vocabulary(node.roster.words)
    # A house draws the same headings, and shuffles the same instructions, whoever holds it.
    known = zip(scans, numbers, strict=True)
    houses = tuple(open_house(config, places, scan, number, words) for scan, number in known)
    if config.sabotage.flips_labels(node.partition):
        houses = with_false_directions(houses, words)
    wanted = samples_paths(config, unseen)
    numbered = zip(houses, numbers, strict=True)
    sampled = [sampled_paths(h, config.seed, number) for h, number in numbered if wanted]
    world = join_houses(houses, device_of(config.device, config.precision))
    private = Versions(node.folder, member.name)
    return HouseSite(
        node.partition, member.name, houses, world, private, node.folder, unseen, tuple(sampled)
    )
