"""Who talks to whom: tours, trees and stars over the connectivity graph.

Marfoq et al. 2020: the ring is a Christofides tour (their theorem 3.5 bounds its cycle time), the tree a minimum spanning
tree, delta-MBST the best of degree-bounded trees (their algorithm 1). The star is a server at one of the silos.

Symbols: weight_ms [N, N] symmetric, cost of a link between any two silos. Edges of trees are undirected, i < j.
"""

import itertools
from collections import Counter
from collections.abc import Callable

import networkx as nx
import numpy as np

Edge = tuple[int, int]


def bounded_tree(weight_ms: np.ndarray, max_degree: int) -> list[Edge]:
    """Prim's tree from silo 0 that never gives a silo more than `max_degree` links (N - 1: minimum spanning tree).

    Of equally cheap links it takes the one from the silo that joined first, then the one to the lowest silo.
    """
    # Many silos of Exodus and Ebone share a town, so ties are common, and the published tours of the two depend on them.
    joined, outside = [0], list(range(1, len(weight_ms)))
    degree = np.zeros(len(weight_ms), dtype=np.int64)
    edges: list[Edge] = []
    while outside:
        free = [i for i in joined if degree[i] < max_degree]
        row, column = divmod(int(weight_ms[np.ix_(free, outside)].argmin()), len(outside))
        i, j = free[row], outside.pop(column)
        edges.append((min(i, j), max(i, j)))
        degree[[i, j]] += 1
        joined.append(j)
    return sorted(edges)


def minimum_tree(weight_ms: np.ndarray) -> list[Edge]:
    return bounded_tree(weight_ms, max(1, len(weight_ms) - 1))


def cube_path(tree: list[Edge], num_silos: int) -> list[Edge]:
    """Hamiltonian path in the cube of a tree: neighbours on the path are at most 3 tree edges apart.

    Silos at an even depth are listed before their subtree, those at an odd depth after it.
    """
    graph = nx.Graph(tree)
    graph.add_nodes_from(range(num_silos))
    depth = nx.single_source_shortest_path_length(graph, 0)
    walk = nx.dfs_labeled_edges(graph, 0, sort_neighbors=lambda n: sorted(n, reverse=True))
    order = [n for _, n, way in walk if way == ("reverse" if depth[n] % 2 else "forward")]
    return [(min(a, b), max(a, b)) for a, b in itertools.pairwise(order)]


def best_bounded_tree(weight_ms: np.ndarray, cycle_ms: Callable[[list[Edge]], float]) -> list[Edge]:
    """delta-MBST: the cube's path and the trees of degree <= 2, 3, ...; the fastest, of equals the lowest degree."""
    free = minimum_tree(weight_ms)
    size = len(weight_ms)
    top = max(Counter(node for edge in free for node in edge).values(), default=0)
    candidates = [cube_path(free, size)]
    # A bound at or above the free tree's own degree gives that tree again.
    candidates += [bounded_tree(weight_ms, delta) for delta in range(2, top)]
    candidates.append(free)
    return min(candidates, key=lambda tree: round(cycle_ms(tree), 9))


def christofides_tour(weight_ms: np.ndarray) -> list[int]:
    """A closed tour from silo 0, as the order of silos.

    Minimum tree, minimum-weight perfect matching of its odd silos, Euler circuit from silo 0, repeats left out.
    """
    size = len(weight_ms)
    if size < 3:
        return list(range(size))
    tree = minimum_tree(weight_ms)
    degree = Counter(node for edge in tree for node in edge)
    odd = sorted(node for node, count in degree.items() if count % 2)
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(size))
    graph.add_weighted_edges_from(
        (i, j, float(weight_ms[i, j])) for i in range(size) for j in range(i)
    )
    matching = nx.min_weight_matching(graph.subgraph(odd))
    walk: nx.MultiGraph[int] = nx.MultiGraph()
    walk.add_nodes_from(range(size))
    walk.add_edges_from(tree)
    walk.add_edges_from(sorted((min(e), max(e)) for e in matching))
    visited = [a for a, _ in nx.eulerian_circuit(walk, source=0)]
    return list(dict.fromkeys(visited))


def tour_edges(tour: list[int]) -> list[Edge]:
    """Directed edges of the closed tour; none for a single silo."""
    if len(tour) < 2:
        return []
    return list(zip(tour, [*tour[1:], tour[0]], strict=True))


def star_edges(hub: int, num_silos: int) -> list[Edge]:
    """Undirected edges between the hub and everybody else."""
    return [(min(hub, i), max(hub, i)) for i in range(num_silos) if i != hub]
