"""The plan of a run, from its settings and the number of silos: who holds them, over what they mix, what that costs.

Silos stand at the first N nodes of the network, in its order. Where N is smaller than the network, the others only
carry traffic: two silos are as far apart as the shortest path between them through the whole network.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import networkx as nx
import numpy as np
import torch

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.federation_settings import CUSTOM, SERVER_SCENARIOS
from fedsuite.driving.message_keys import silo_metric
from fedsuite.driving.model.networks import Norm, build_network
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS
from fedsuite.driving.plan_checks import (
    check_merge,
    check_optimizer,
    check_relay,
    check_roster,
    check_silos_of,
)
from fedsuite.driving.topology import (
    NETWORKS,
    DelayModel,
    Network,
    Overlay,
    build_overlay,
    cycle_time_ms,
    load_network,
)
from fedsuite.driving.topology.mixing_matrix import MixingSchedule, rebalance, schedule_of
from fedsuite.driving.topology.relay import relay_schedule
from fedsuite.errors import InputError
from fedsuite.federation import ClientInfo, Scalar
from fedsuite.randomness import rng_for
from fedsuite.roster.members import Roster
from fedsuite.storage.read_once import read_once

BY_SIZE = ("gaia", "nws", "geant", "exodus", "ebone")
ONE_WAY = ("fedavg", "fedprox")  # counted as the papers count FedAvg; STAR pays for both ways


@dataclass(frozen=True, eq=False)
class Plan:
    """num_data_silos: silos that the data are made of; silos_of: silos of every partition; overlay: their links."""

    num_data_silos: int
    silos_of: tuple[tuple[int, ...], ...]
    network: Network
    overlay: Overlay
    mixing: MixingSchedule = field(repr=False)
    message_bits: int
    cycle_time_ms: float | None

    @property
    def links_per_mixing(self) -> float:
        """Directed links in use in one mixing step; MATCHA's expectation."""
        if self.overlay.matcha is None:
            return float(len(self.overlay.edges))
        support = [self.mixing.matrix(t) for t in range(200)]
        return float(np.mean([(a != 0).sum() - len(a) for a in support]))

    @property
    def directed(self) -> bool:
        """Whether some link goes one way only."""
        return any((j, i) not in set(self.overlay.edges) for i, j in self.overlay.edges)

    def schedule(self, frames: Sequence[int] | None = None) -> MixingSchedule:
        """Mixing matrices; frames [N]: weight silos by their number of frames, as FedAvg does."""
        if frames is None:
            return self.mixing
        row = np.asarray(frames, np.float64) / sum(frames)
        matrix = np.repeat(row[None], len(row), axis=0)
        return MixingSchedule(self.mixing.name, len(row), matrix > 0, constant=matrix)


def _own_network(config: CDLConfig, num_silos: int = 0, names: tuple[str, ...] = ()) -> list[Path]:
    return [Path(file)] if (file := config.federation.underlay_file) else []


@read_once(_own_network, kept=64)
def make_plan(config: CDLConfig, num_silos: int = 0, names: tuple[str, ...] = ()) -> Plan:
    """InputError where data, network, scenario and clients do not fit each other.

    num_silos: that the data are made of; 0: as configured, or one per node of the network. names: what silos are called
    where that is not the place they stand at.
    """
    whole = _network(config, num_silos or config.data.num_silos)
    count = num_silos or config.data.num_silos or whole.num_silos
    network = first_silos(whole, 1 if config.federation.pooled else count, names)
    if len(names) == network.num_silos:
        network = replace(network, labels=names)
    bits = message_bits(config)
    delay = delay_of(config)
    overlay = _overlay(config, network, bits, delay)
    mixing = _mixing(config, network, overlay)
    cycle_ms = None
    if network.has_distances and not config.federation.pooled:
        cycle_ms = cycle_time_ms(
            network, overlay, bits, config.wall_clock.computation_time_ms, delay,
            one_way=config.federation.scenario in ONE_WAY, budget=config.federation.matcha_budget, seed=config.seed,
        )  # fmt: skip
    check_merge(config, mixing)
    check_optimizer(config, mixing, network.labels)
    scenario = config.federation.scenario
    size = config.federation.silos_per_client or network.num_silos
    if size > network.num_silos:
        raise InputError(
            f"federation.silos-per-client: {size}, but {scenario} has {network.num_silos} silos here; set it to "
            f"{network.num_silos} at most, or to 0 for all"
        )
    silos = range(network.num_silos)
    silos_of = tuple(tuple(silos[i : i + size]) for i in range(0, len(silos), size))
    check_silos_of(config, network, mixing, silos_of)
    return Plan(count, silos_of, network, overlay, mixing, bits, cycle_ms)


def plan_of(config: CDLConfig, roster: Roster) -> Plan:
    """The plan, as the roster's silos make it; InputError where they are not numbered, named and counted."""
    count = roster.fact("silos", int)
    check_roster(roster, 1 if config.federation.pooled else count)
    drives = roster.facts.get("source") == "drives"
    names = tuple(name for member in roster.members for name in member.names("names"))
    return make_plan(config, count, names if drives else ())


def clients_of(config: CDLConfig, roster: Roster) -> list[ClientInfo]:
    """What the clients say of themselves, from the roster alone."""
    found = []
    for partition, member in enumerate(roster.members):
        own = zip(member.listed("silos", int), member.listed("frames", int), strict=True)
        details: dict[str, Scalar] = {silo_metric(i, "num-examples"): n for i, n in own}
        found.append(ClientInfo(partition, member.name, member.examples, details))
    return found


def mixing_of(config: CDLConfig, roster: Roster) -> MixingSchedule:
    """Mixing matrices over all silos."""
    frames = [n for member in roster.members for n in member.listed("frames", int)]
    return plan_of(config, roster).schedule(frames if config.federation.data_weighted else None)


def _network(config: CDLConfig, count: int) -> Network:
    """Where silos stand: the user's own network, one by name, or the smallest that has `count` nodes."""
    own = config.federation
    if own.underlay_file or own.underlay != "auto":
        return load_network(own.underlay_file or own.underlay)
    known = [load_network(name) for name in BY_SIZE]
    return next((network for network in known if network.num_silos >= count), known[-1])


def first_silos(network: Network, count: int, drives: Sequence[str] = ()) -> Network:
    """The network as its first `count` nodes see it; drives: names of the drives, if each is a silo."""
    if count > network.num_silos:
        have = f"data.dir: {count} drives" if drives else f"data.num-silos: {count} silos"
        cure = f"set data.num-silos={network.num_silos} at most"
        if network.name in NETWORKS and network.name != BY_SIZE[-1]:
            cure = f"choose a larger network (federation.underlay=auto) or {cure}"
        raise InputError(
            f"{have}, but underlay {network.name} has {network.num_silos} nodes; {cure}"
        )
    if count == network.num_silos:
        return network
    if network.weights is not None and count > 1:
        raise InputError(
            f"federation.underlay-file: {network.name} is a matrix of {network.num_silos} silos, but the data have {count}; "
            "give a matrix of as many rows"
        )
    km = dict(nx.all_pairs_dijkstra_path_length(network.underlay, weight="distance_km"))
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(
        (i, j, {"distance_km": float(km[i][j])}) for j in range(count) for i in range(j)
    )
    position = None if network.position_deg is None else network.position_deg[:count]
    return Network(network.name, network.labels[:count], position, graph)


def delay_of(config: CDLConfig) -> DelayModel:
    access = 1e9 * config.wall_clock.access_capacity_gbit_s
    return DelayModel(
        latency_ms_per_km=config.wall_clock.latency_ms_per_km,
        base_latency_ms=config.wall_clock.base_latency_ms,
        core_capacity_bit_per_s=1e9 * config.wall_clock.core_capacity_gbit_s,
        upload_bit_per_s=access,
        download_bit_per_s=access,
        local_updates=config.training.local_updates,
    )


def initial_network(config: CDLConfig) -> torch.nn.Module:
    """The network before training, the same for every silo and scenario with the same seed."""
    seed = int(rng_for(config.seed, "initial network").integers(2**31))
    data, own = config.data, config.network
    norm: Norm = "group" if own.batch_norm == "group" else "batch"
    return build_network(own.model, data.image_size, data.channels, norm, own.dropout, seed)


@lru_cache(maxsize=32)
def message_bits(config: CDLConfig) -> int:
    """M: the backbone as it travels, parameters and mixed buffers; what the local optimizer has mixed; control variates."""
    beside = len(LOCAL_OPTIMIZERS[config.training.optimizer].sent)
    beside += config.federation.control_variates
    if config.wall_clock.model_bits:
        return config.wall_clock.model_bits * (1 + beside)
    network = initial_network(config)
    state, names = network.state_dict(), names_of(network, config)
    bits = {n: 8 * state[n].numel() * state[n].element_size() for n in names.mixed}
    return sum(bits.values()) + beside * sum(bits.get(n, 0) for n in names.parameters)


def _overlay(config: CDLConfig, network: Network, bits: int, delay: DelayModel) -> Overlay:
    scenario = config.federation.scenario
    if config.federation.data_weighted and scenario not in SERVER_SCENARIOS:
        raise InputError(
            f"federation.data-weighted: {scenario} mixes with neighbours; choose fedavg, fedprox or star, or set it to false"
        )
    if network.num_silos == 1:
        return Overlay("local", 1, ())
    kind = "star" if scenario in SERVER_SCENARIOS else scenario
    budget, update_ms = config.federation.matcha_budget, config.wall_clock.computation_time_ms
    return build_overlay(network, kind, bits, update_ms, delay, budget=budget)


def _mixing(config: CDLConfig, network: Network, overlay: Overlay) -> MixingSchedule:
    """Matrices of the overlay, or what the local optimizer mixes by instead; and what absent silos leave of them."""
    method = LOCAL_OPTIMIZERS[config.training.optimizer]
    if method.relays:
        check_relay(config, network, overlay)
        return relay_schedule(overlay)
    own = network.weights if config.federation.scenario == CUSTOM else None
    mixing = schedule_of(overlay, config.seed, config.federation.mixing_matrix, own)
    return replace(mixing, absence=rebalance) if method.rule else mixing
