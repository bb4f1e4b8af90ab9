"""Topologies of decentralised driving: networks, overlays on them, and how long a round of an overlay takes.

An overlay says which silo sends its model to which. Kinds: ring, mst, delta_mbst (Marfoq et al. 2020), star (a server at
one of the silos; its one-way cycle time is what the papers call FedAvg), complete, matcha and matcha_plus (Wang et al.
2019; the second colours the complete graph instead of the underlay), local (nobody talks), custom (who hears whom in the
user's matrix, or along every link of the network).
"""

from dataclasses import dataclass, field
from pathlib import Path

import networkx as nx
import numpy as np

from fedsuite.driving.topology.custom_topology import read_network
from fedsuite.driving.topology.cycle_time import DelayModel, Edge, Load
from fedsuite.driving.topology.matcha import MatchaPlan, plan_matcha
from fedsuite.driving.topology.overlays import (
    best_bounded_tree,
    christofides_tour,
    minimum_tree,
    star_edges,
    tour_edges,
)
from fedsuite.driving.topology.underlay import FOLDER, NETWORKS, Network
from fedsuite.errors import InputError

__all__ = [
    "KINDS",
    "NETWORKS",
    "DelayModel",
    "Network",
    "Overlay",
    "build_overlay",
    "cycle_time_ms",
    "load_network",
]

KINDS = (
    "ring", "mst", "delta_mbst", "star", "complete", "matcha", "matcha_plus", "local", "custom",
)  # fmt: skip
# The payload of one ResNet-8 with its buffers, and the time of its update, as published for FADNet on Udacity.
MODEL_BITS = 10_091_936
COMPUTATION_TIME_MS = 0.66
MATCHA_ROUNDS = 1000


@dataclass(frozen=True)
class Overlay:
    """Directed edges (i, j), i sends to j, sorted; for MATCHA every edge that may be active, and `matcha` says when."""

    name: str
    num_silos: int
    edges: tuple[Edge, ...]
    hub: int | None = None
    matcha: MatchaPlan | None = field(default=None, repr=False)


def load_network(name_or_path: str | Path) -> Network:
    """A published network by name (gaia, nws, exodus, ebone, geant), or the user's own from a JSON or CSV file.

    InputError if there is no such network, or if the file is faulty.
    """
    known = NETWORKS.get(str(name_or_path))
    path = FOLDER / f"{known}.json" if known else Path(name_or_path)
    if not known and not path.is_file():
        raise InputError(
            f"network {str(name_or_path)!r}: expected {', '.join(NETWORKS)} or an existing file"
        )
    return read_network(path)


def both_ways(edges: list[Edge]) -> tuple[Edge, ...]:
    """Every undirected edge as two directed ones, sorted."""
    return tuple(sorted({*edges, *((j, i) for i, j in edges)}))


def build_overlay(
    network: Network | str,
    kind: str,
    model_bits: float = MODEL_BITS,
    computation_time_ms: float = COMPUTATION_TIME_MS,
    delay: DelayModel | None = None,
    *,
    hub: str | int = "first",
    budget: float = 0.5,
) -> Overlay:
    """The overlay of this kind for a model of `model_bits` whose local update takes `computation_time_ms`.

    hub: where the star's server stands: "first" (silo 0, as published), "best" (shortest cycle time), or a silo's number.
    budget: MATCHA's share of matchings a round. InputError for an unknown kind, or if the network lacks what it needs.
    """
    net = load_network(network) if isinstance(network, str) else network
    size = net.num_silos
    if kind not in KINDS:
        raise InputError(f"overlay {kind!r}: expected one of {', '.join(KINDS)}; correct the name")
    if kind == "local" or size == 1:
        return Overlay(kind, size, ())
    if kind == "custom" and net.weights is not None:
        heard = np.argwhere((net.weights > 0) & ~np.eye(size, dtype=bool))
        return Overlay(kind, size, tuple(sorted((int(j), int(i)) for i, j in heard)))
    if kind in ("complete", "custom", "matcha", "matcha_plus"):
        base = net.underlay if kind in ("custom", "matcha") else nx.complete_graph(size)
        plan = plan_matcha(base, budget) if kind.startswith("matcha") else None
        return Overlay(kind, size, both_ways([(i, j) for i, j in base.edges]), matcha=plan)
    load = Load(net, model_bits, computation_time_ms, delay or DelayModel())
    if kind == "star":
        center = _hub(load, hub)
        return Overlay(kind, size, both_ways(star_edges(center, size)), hub=center)
    if kind == "ring":
        # Computation adds the same to every link, so it cannot change the tour; rounding keeps ties ties.
        weight_ms = np.round(load.link_ms() - load.busy_ms, 9)
        return Overlay(kind, size, tuple(sorted(tour_edges(christofides_tour(weight_ms)))))
    if kind == "mst":
        return Overlay(kind, size, both_ways(minimum_tree(load.core_ms())))
    tree = best_bounded_tree(load.link_ms(), lambda edges: load.cycle_ms(both_ways(edges)))
    return Overlay(kind, size, both_ways(tree))


def _hub(load: Load, hub: str | int) -> int:
    if hub == "first":
        return 0
    if hub == "best":
        stars = (both_ways(star_edges(i, load.size)) for i in range(load.size))
        return int(np.argmin([load.cycle_ms(star) for star in stars]))
    if isinstance(hub, int) and 0 <= hub < load.size:
        return hub
    raise InputError(f"hub {hub!r}: expected first, best or a number below {load.size}; correct it")


def cycle_time_ms(
    network: Network | str,
    overlay: Overlay | str = "ring",
    model_bits: float = MODEL_BITS,
    computation_time_ms: float = COMPUTATION_TIME_MS,
    delay: DelayModel | None = None,
    *,
    one_way: bool = False,
    hub: str | int = "first",
    budget: float = 0.5,
    seed: int = 0,
    rounds: int = MATCHA_ROUNDS,
) -> float:
    """Milliseconds a round: local updates and one exchange of models of `model_bits`.

    Static overlays: maximum cycle mean. Star: the model travels up and then down, 2 (cycle - u T_c) + u T_c; with `one_way`
    (or the name "fedavg") the bare cycle. MATCHA: mean over the first `rounds` rounds of `seed` of the slowest active edge.
    Local, or one silo: computation only. InputError as for `build_overlay`.
    """
    net = load_network(network) if isinstance(network, str) else network
    load = Load(net, model_bits, computation_time_ms, delay or DelayModel())
    if isinstance(overlay, str):
        one_way = one_way or overlay == "fedavg"
        kind = "star" if overlay == "fedavg" else overlay
        overlay = build_overlay(
            net, kind, model_bits, computation_time_ms, delay, hub=hub, budget=budget
        )
    if overlay.num_silos != net.num_silos:
        raise InputError(
            f"overlay {overlay.name}: has {overlay.num_silos} silos, but {net.name} has {net.num_silos}; build it anew"
        )
    if not overlay.edges:
        return load.busy_ms
    if overlay.matcha is not None:
        if rounds < 1:
            raise InputError(f"matcha rounds: expected at least 1, got {rounds}; correct it")
        plan = overlay.matcha
        drawn = [plan.edges(plan.active_in_round(seed, r)) for r in range(1, rounds + 1)]
        return load.mean_round_ms(drawn)
    cycle_ms = load.cycle_ms(overlay.edges)
    if overlay.name == "star" and not one_way:
        return 2 * (cycle_ms - load.busy_ms) + load.busy_ms
    return cycle_ms
