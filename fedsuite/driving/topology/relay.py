"""RelaySum: every model reaches every silo of a tree, once, unmixed (Vogels et al. 2021, RelaySGD, 2110.04175).

z_i: silo i's model after its local steps; N(i): its neighbours; n silos; x_0: where all of them start.

  M_ij   = z_i + sum over k in N(i) without j of M_ki of the step before     i to j: the sum over all silos on i's side
  x_i   <- (z_i + sum over j in N(i) of M_ji + (n - n_i) x_0) / n            n_i: how many models have come

Here a message is the mean model of its side, M_ij / c_ij, with c_ij the number of silos there, and is x_0 at first, which
stands for the n - n_i models that have not come: counts need not be kept. A step then is one matrix with rows that sum to 1
over silos and messages under way, [z; M] -> [x; M], and whatever mixes models mixes these (BatchNorm's moments as well).

A silo that does not answer: its links carry nothing in that step, and at either end the message that came last counts again;
it keeps its model. So each x_i always is the mean of n models, one of each silo, some of them older (x_0 where none has come
yet), and silos that agree go on agreeing, whoever is absent.
"""

from collections.abc import Sequence

import networkx as nx
import numpy as np

from fedsuite.driving.topology import Overlay
from fedsuite.driving.topology.cycle_time import Edge
from fedsuite.driving.topology.mixing_matrix import MixingSchedule


def is_tree(overlay: Overlay) -> bool:
    """Whether its links, each both ways in every step, join all silos without a cycle."""
    graph: nx.Graph[int] = nx.Graph(overlay.edges)
    graph.add_nodes_from(range(overlay.num_silos))
    both = all((j, i) in set(overlay.edges) for i, j in overlay.edges)
    return overlay.matcha is None and both and nx.is_tree(graph)


def silos_behind(links: Sequence[Edge], num_silos: int) -> dict[Edge, int]:
    """c_ij: of every directed link of a tree the number of silos on i's side."""
    graph: nx.Graph[int] = nx.Graph(links)
    size, behind = dict.fromkeys(range(num_silos), 1), {}
    for parent, child in reversed([*nx.bfs_edges(graph, 0)] if links else []):
        size[parent] += size[child]
        behind[child, parent], behind[parent, child] = size[child], num_silos - size[child]
    return behind


def relay_matrix(links: Sequence[Edge], present: np.ndarray) -> np.ndarray:
    """One step, float64 [R, R]: rows of the N silos, then of the links (i, j), i to j, in their order. present: bool [N]."""
    num_silos = len(present)
    behind, row = silos_behind(links, num_silos), {e: num_silos + n for n, e in enumerate(links)}
    before = np.eye(num_silos + len(links))
    after = before.copy()
    for i, j in links:
        if present[i] and present[j]:
            came = [(k, to) for k, to in links if to == i and k != j]
            total = before[i] + sum(behind[e] * before[row[e]] for e in came)
            after[row[i, j]] = total / behind[i, j]
    for silo in np.flatnonzero(present):
        came = [link for link in links if link[1] == silo]
        after[silo] = (before[silo] + sum(behind[e] * after[row[e]] for e in came)) / num_silos
    return after


def relay_schedule(overlay: Overlay) -> MixingSchedule:
    """The same step in every round, over a tree (see `is_tree`)."""
    size, links = overlay.num_silos, overlay.edges
    support = np.eye(size, dtype=bool)
    for i, j in links:
        support[j, i] = True

    def absence(a: np.ndarray, present: np.ndarray) -> np.ndarray:
        return relay_matrix(links, present)

    constant = relay_matrix(links, np.ones(size, bool))
    return MixingSchedule(overlay.name, size, support, constant, absence=absence, links=links)
