"""Holds networks, overlays, mixing matrices and their schedules (fedsuite.driving.topology) to their contracts."""

from typing import Any

import networkx as nx
import numpy as np

from fedsuite.checking.contract import no_exception, require

TOLERANCE = 1e-6  # of sums
LEAST_GAP = 1e-9
ROUNDS = 100  # of a schedule that are looked at


def check_topology(
    thing: Any, *, overlay: Any = None, signed: bool = False, doubly_stochastic: bool = False
) -> None:
    """Check a Network, an Overlay, a mixing matrix, or a schedule of such matrices; ContractError for a broken clause.

    overlay: what a matrix or a schedule belongs to. signed: negative weights are meant (FDLA, MATCHA).
    doubly_stochastic: the method needs columns that sum to 1 as well.

    * network: distinct labels, positions [N, 2] or None, a connected underlay on 0..N-1 without loops, distances >= 0
    * overlay: directed edges between its silos, each once and sorted, no loops; strongly connected unless it has none
    * MATCHA: matchings that cover each edge once, probabilities in [0, 1], alpha > 0, rho < 1
    * matrix: square, finite, rows sum to 1, non-negative, 0 where the overlay has no edge (unless a hub
      averages for all), spectral gap > 0 unless the overlay has no edges
    * schedule: as its matrices in every round, their mean having a spectral gap; the same again; within its support
    """
    if isinstance(thing, np.ndarray):
        _check_matrix("matrix", thing, signed, doubly_stochastic, overlay)
        _check_gap("matrix", thing, overlay)
    elif hasattr(thing, "matrix"):
        _check_schedule(thing, signed, doubly_stochastic, overlay)
    elif hasattr(thing, "edges"):
        _check_overlay(thing)
    elif hasattr(thing, "underlay"):
        _check_network(thing)
    else:
        kinds = "a network, an overlay, a matrix or a schedule"
        require(False, "check_topology", kinds, type(thing).__name__, "another object")


def _check_network(network: Any) -> None:
    where, labels, graph = f"network {network.name}", network.labels, network.underlay
    good = labels and len(set(labels)) == len(labels) and all(isinstance(x, str) for x in labels)
    require(good, where, "distinct texts as labels", labels, "two sites in one town")
    size, position = len(labels), network.position_deg
    good = position is None or (position.shape == (size, 2) and np.isfinite(position).all())
    require(good, where, f"positions [{size}, 2] or None", position, "a site is missing")
    nodes = sorted(graph)
    require(nodes == [*range(size)], where, f"nodes 0..{size - 1}", nodes, "nodes named by labels")
    loops = [edge for edge in graph.edges if edge[0] == edge[1]]
    require(not loops, where, "no loops", loops, "a link from a site to itself")
    apart = [sorted(part) for part in nx.connected_components(graph)][1:]
    require(not apart, where, "a connected underlay", f"{apart} apart", "a link is missing")
    km = [link["distance_km"] for *_, link in graph.edges(data=True) if "distance_km" in link]
    good = len(km) in (0, graph.number_of_edges()) and all(0 <= x < np.inf for x in km)
    require(good, where, "distances >= 0 on all links or none", km, "a link was left out")


def _check_overlay(overlay: Any) -> None:
    where, size, edges = f"overlay {overlay.name}", overlay.num_silos, overlay.edges
    good = {i for edge in edges for i in edge} <= {*range(size)}
    require(good, where, f"edges between 0..{size - 1}", edges, "silos counted from 1")
    require(all(i != j for i, j in edges), where, "no loops", edges, "a silo sends to itself")
    good = list(edges) == sorted(set(edges))
    require(good, where, "every edge once, sorted", edges, "use both_ways, or tuple(sorted(...))")
    graph: nx.DiGraph[int] = nx.DiGraph(list(edges))
    graph.add_nodes_from(range(size))
    good = not edges or nx.is_strongly_connected(graph)
    cause = "an edge is missing, or goes one way only"
    require(good, where, "a way from every silo to every other", edges, cause)
    hub = overlay.hub
    require(hub is None or 0 <= hub < size, where, f"hub in 0..{size - 1}", hub, "a label")
    if overlay.matcha is not None:
        _check_matcha(where, overlay.matcha, sorted((i, j) for i, j in edges if i < j))


def _check_matcha(where: str, plan: Any, links: list[tuple[int, int]]) -> None:
    for matching in plan.matchings:
        ends = [silo for edge in matching for silo in edge]
        good = len(set(ends)) == len(ends)
        require(good, where, "matchings that touch a silo once", matching, "a wrong colouring")
    all_of = sorted(edge for matching in plan.matchings for edge in matching)
    good = all_of == links
    require(good, where, f"matchings of {links}", all_of, "an edge in two, or none")
    p, count = plan.probabilities, len(plan.matchings)
    good = len(p) == count and all(0 <= x <= 1 for x in p)
    require(good, where, f"{count} probabilities in [0, 1]", p, "rounding; clip them")
    found = (plan.alpha, plan.rho)
    require(found[0] > 0 and found[1] < 1, where, "alpha > 0, rho < 1", found, "unconnected silos")


def _check_matrix(where: str, a: Any, signed: bool, doubly: bool, overlay: Any) -> None:
    shape = getattr(a, "shape", ())
    size = overlay.num_silos if overlay is not None else (shape or (0,))[0]
    square = isinstance(a, np.ndarray) and size > 0 and shape == (size, size)
    require(square, where, f"an array [{size}, {size}]", shape, "another number of silos")
    require(np.isfinite(a).all(), where, "finite weights", a, "a division by a degree of 0")
    rows, columns = a.sum(axis=1), a.sum(axis=0)
    cause = "transposed: row = receiver; or not divided by the row's sum"
    require(np.abs(rows - 1).max() <= TOLERANCE, where, "rows that sum to 1", rows, cause)
    good = signed or a.min() >= 0
    require(good, where, "weights >= 0", a.min(), "a step too long (signed=True if it is meant)")
    good = not doubly or np.abs(columns - 1).max() <= TOLERANCE
    require(good, where, "columns that sum to 1", columns, "unequal degrees; use metropolis")
    if overlay is not None and overlay.hub is None:
        heard = {(int(j), int(i)) for i, j in np.argwhere(a != 0) if i != j}
        extra, cause = sorted(heard - set(overlay.edges)), "transposed, or another overlay"
        require(not extra, where, "weights along edges alone", extra, cause)


def _check_gap(where: str, a: np.ndarray, overlay: Any) -> None:
    """Silos come to agree if no other eigenvalue is as large as 1."""
    if len(a) == 1 or (overlay is not None and not overlay.edges):
        return
    second = float(np.sort(np.abs(np.linalg.eigvals(a)))[-2])
    cause = "silos that never hear of others, or that keep nothing of their own"
    require(second < 1 - LEAST_GAP, where, "a second eigenvalue below 1", second, cause)


def _check_schedule(schedule: Any, signed: bool, doubly: bool, overlay: Any) -> None:
    matrices: list[np.ndarray] = []
    for t in range(ROUNDS):
        where = f"schedule, round {t}"
        with no_exception(where, "rounds are counted from 0"):
            a, again = schedule.matrix(t), schedule.matrix(t)
        if not matrices or not np.array_equal(a, matrices[-1]):
            _check_matrix(where, a, signed, doubly, overlay)
        same = np.array_equal(a, again)
        require(same, where, "the same matrix again", "another", "use rng_for(seed, ..., round)")
        support = getattr(schedule, "support", None)
        good = support is None or not (a != 0)[~np.asarray(support, bool)].any()
        require(good, where, "weights within support", "others", "support of another overlay")
        matrices.append(a)
    _check_gap("schedule, mean matrix", np.mean(matrices, axis=0), overlay)
