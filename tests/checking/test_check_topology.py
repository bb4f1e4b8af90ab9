"""check_topology accepts all networks, overlays and mixing matrices of ours, and names what is wrong with others."""

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from fedsuite.checking import ContractError, check_topology
from fedsuite.driving.topology import (
    KINDS,
    Network,
    Overlay,
    both_ways,
    build_overlay,
    load_network,
)
from fedsuite.driving.topology.matcha import plan_matcha
from fedsuite.driving.topology.mixing_matrix import MixingSchedule, schedule_of
from fedsuite.driving.topology.underlay import NETWORKS

# Colouring a complete graph of 80 silos takes minutes.
SMALL = ("gaia", "amazon_us")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(NETWORKS.values())))
def test_networks_and_overlays_of_ours(name: str) -> None:
    network = load_network(name)
    check_topology(network)
    for kind in KINDS:
        if kind.startswith("matcha") and name not in SMALL:
            continue
        overlay = build_overlay(network, kind)
        check_topology(overlay)
        schedule = schedule_of(overlay, seed=1)
        matcha = overlay.matcha is not None
        check_topology(schedule, overlay=overlay, signed=matcha, doubly_stochastic=True)


@pytest.mark.parametrize("mixing", ["metropolis", "fmmc", "fdla"])
def test_matrices_of_a_tree(mixing: str) -> None:
    overlay = build_overlay("gaia", "mst")
    matrix = schedule_of(overlay, mixing=mixing).matrix(0)
    check_topology(matrix, overlay=overlay, signed=mixing == "fdla", doubly_stochastic=True)


# --- wrong ones ---------------------------------------------------------------------------------


def network(links: list[tuple[int, int]], km: float = 1.0, **changes: Any) -> Network:
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(3))
    graph.add_edges_from([(i, j, {"distance_km": km}) for i, j in links])
    return replace(Network("own", ("a", "b", "c"), np.zeros((3, 2)), graph), **changes)


PATH = [(0, 1), (1, 2)]
PARTLY = nx.Graph([(0, 1, {"distance_km": 1.0}), (1, 2)])
RING = Overlay("ring", 3, ((0, 1), (1, 2), (2, 0)))
TREE = Overlay("tree", 3, both_ways(PATH))
PLAN = plan_matcha(nx.path_graph(3))
MATCHA = Overlay("matcha", 3, both_ways(PATH), matcha=PLAN)
HALVES = 0.5 * (np.eye(3) + np.roll(np.eye(3), 1, 0))  # every silo hears the one before
STEEP = np.array([[1.5, -0.5, 0.0], [-0.5, 2.0, -0.5], [0.0, -0.5, 1.5]])
PAIRS = np.kron(np.eye(2), np.full((2, 2), 0.5))
HUB = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])


class Drawing:
    """A schedule that draws anew each time."""

    def matrix(self, round: int) -> np.ndarray:
        share = np.random.default_rng().uniform(0.1, 0.4)
        return (1 - share) * np.eye(3) + share * np.roll(np.eye(3), 1, 1)


def schedule(matrix: np.ndarray, support: Any) -> MixingSchedule:
    return MixingSchedule("own", 3, np.asarray(support, bool), constant=matrix)


CORPUS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "labels": (network(PATH, labels=("a", "a", "c")), {}, "distinct texts as labels"),
    "positions": (network(PATH, position_deg=np.zeros((2, 2))), {}, "positions [3, 2] or None"),
    "apart": (network([(0, 1)]), {}, "a connected underlay, got [[2]] apart"),
    "distance": (network(PATH, km=-1.0), {}, "distances >= 0"),
    "a distance": (network(PATH, underlay=PARTLY), {}, "distances >= 0 on all links or none, got [1.0]"),
    "underlay loop": (network([*PATH, (1, 1)]), {}, "no loops, got [(1, 1)]"),
    "silos from 1": (replace(RING, edges=((1, 2), (2, 3), (3, 1))), {}, "edges between 0..2"),
    "loop": (replace(RING, edges=((0, 0), *RING.edges)), {}, "overlay ring: expected no loops"),
    "unsorted": (replace(RING, edges=RING.edges[::-1]), {}, "every edge once, sorted"),
    "twice": (replace(RING, edges=((0, 1), *RING.edges)), {}, "every edge once, sorted"),
    "one way": (replace(RING, edges=tuple(PATH)), {}, "a way from every silo to every other"),
    "no matching": (
        replace(MATCHA, matcha=replace(PLAN, matchings=(tuple(PATH),), probabilities=(0.5,))), {},
        "matchings that touch a silo once",
    ),
    "matched twice": (replace(MATCHA, matcha=replace(PLAN, matchings=PLAN.matchings * 2)), {}, "matchings of"),
    "probability": (replace(MATCHA, matcha=replace(PLAN, probabilities=(1.5, 0.5))), {}, "in [0, 1]"),
    "no contraction": (replace(MATCHA, matcha=replace(PLAN, rho=1.0)), {}, "alpha > 0, rho < 1"),
    "not square": (np.ones((2, 3)) / 3, {}, "an array [2, 2], got (2, 3)"),
    "size": (np.eye(2), {"overlay": RING}, "an array [3, 3], got (2, 2)"),
    "infinite": (np.full((3, 3), np.inf), {}, "finite weights"),
    "rows": (2 * HALVES, {}, "rows that sum to 1"),
    "negative": (STEEP, {}, "weights >= 0, got"),
    "columns": (HUB, {"doubly_stochastic": True}, "columns that sum to 1"),
    "transposed": (HALVES.T, {"overlay": RING}, "weights along edges alone"),
    "two groups": (PAIRS, {}, "a second eigenvalue below 1"),
    "swapping": (np.array([[0.0, 1.0], [1.0, 0.0]]), {}, "keep nothing of their own"),
    "drawing": (Drawing(), {}, "round 0: expected the same matrix again"),
    "support": (schedule(HALVES, np.eye(3)), {}, "weights within support"),
    "other": (object(), {}, "a network, an overlay, a matrix or a schedule, got object"),
}  # fmt: skip


def test_right_ones_are_accepted() -> None:
    for thing in (network(PATH), RING, TREE, MATCHA, HALVES, HUB):
        check_topology(thing)
    check_topology(network(PATH, position_deg=None, underlay=nx.path_graph(3)))
    check_topology(network(PATH, km=0.0))  # two sites in one town
    check_topology(HALVES, overlay=RING, doubly_stochastic=True)
    check_topology(schedule(HALVES, HALVES), overlay=RING)


@pytest.mark.parametrize("name", CORPUS)
def test_wrong_ones_are_told_what_is_wrong(name: str) -> None:
    thing, options, complaint = CORPUS[name]
    with pytest.raises(ContractError) as caught:
        check_topology(thing, **options)
    assert complaint in str(caught.value) and "likely cause: " in str(caught.value)
