"""Time between two mixing steps of an overlay: delays of its edges and the maximum cycle mean.

Marfoq et al. 2020, section 2: silo i starts its next round when the models of all its in-neighbours are there. Rounds then
follow a max-plus recursion whose rate is the maximum cycle mean of the delays

    d(i, j) = u T_c + l(i, j) + max(outdeg_i M / C_up, indeg_j M / C_down, M / B(i, j))

with u local updates of T_c ms, latency l = 0.0085 ms/km x length of the shortest path + 4 ms, model of M bits, access links
C_up and C_down, and B = core capacity / hops of that path. Degrees count the overlay's edges.

Symbols: delay_ms [N, N], entry (i, j) the delay of edge i -> j, -inf where the overlay has no edge.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from fedsuite.driving.topology.underlay import Network
from fedsuite.errors import InputError

Edge = tuple[int, int]


@dataclass(frozen=True)
class DelayModel:
    """Constants of the delay model, as Marfoq et al. 2020 and the CDL and FADNet papers use them."""

    latency_ms_per_km: float = 0.0085
    base_latency_ms: float = 4.0
    core_capacity_bit_per_s: float = 1e9
    upload_bit_per_s: float = 1e10
    download_bit_per_s: float = 1e10
    local_updates: int = 1

    def __post_init__(self) -> None:
        rates = (self.core_capacity_bit_per_s, self.upload_bit_per_s, self.download_bit_per_s)
        if min(rates) <= 0 or self.local_updates < 0:
            raise InputError(
                f"delay model: expected capacities > 0 and local_updates >= 0, got {self}; correct the setting"
            )


class Load:
    """A network under models of `bits` M, updates of `computation_time_ms` T_c and a delay model.

    latency_ms, hops, transfer_ms (M / B): of the path between any two silos, float64 [N, N], 0 on the diagonal; busy_ms:
    u T_c. InputError if the network has no distances or is not connected, or for a size or time that cannot be.
    """

    def __init__(
        self, network: Network, bits: float, computation_time_ms: float, delay: DelayModel
    ) -> None:
        if not bits > 0 or not computation_time_ms >= 0:
            raise InputError(
                f"cycle time: expected model_bits > 0 and computation_time_ms >= 0, got {bits} and {computation_time_ms}"
            )
        self.size, self.bits, self.delay = network.num_silos, bits, delay
        self.busy_ms = delay.local_updates * computation_time_ms
        km, self.hops = _shortest_paths(network)
        self.latency_ms = delay.latency_ms_per_km * km + delay.base_latency_ms
        np.fill_diagonal(self.latency_ms, 0.0)
        self.transfer_ms = 1e3 * bits * self.hops / delay.core_capacity_bit_per_s

    def core_ms(self) -> np.ndarray:
        """T_c + l + M / B, [N, N]: what the minimum tree weighs."""
        return self.busy_ms + self.latency_ms + self.transfer_ms

    def link_ms(self) -> np.ndarray:
        """T_c + l + max(M / C_up, M / C_down, M / B), [N, N]: what a lone link costs."""
        slowest = min(self.delay.upload_bit_per_s, self.delay.download_bit_per_s)
        sending_ms = np.maximum(self.transfer_ms, 1e3 * self.bits / slowest)
        return self.busy_ms + self.latency_ms + sending_ms

    def delays_ms(self, edges: Iterable[Edge]) -> np.ndarray:
        """d(i, j) of the overlay's directed edges, [N, N]; -inf elsewhere."""
        out_ms = np.full((self.size, self.size), -np.inf)
        pairs = np.array(sorted(set(edges)), dtype=np.int64).reshape(-1, 2)
        start, end = pairs[:, 0], pairs[:, 1]
        bits, delay = self.bits, self.delay
        up_ms = 1e3 * bits / delay.upload_bit_per_s * np.bincount(start, minlength=self.size)
        down_ms = 1e3 * bits / delay.download_bit_per_s * np.bincount(end, minlength=self.size)
        access_ms = np.maximum(up_ms[start], down_ms[end])
        sending_ms = np.maximum(access_ms, self.transfer_ms[start, end])
        out_ms[start, end] = self.busy_ms + self.latency_ms[start, end] + sending_ms
        return out_ms

    def cycle_ms(self, edges: Iterable[Edge]) -> float:
        """Maximum cycle mean of these directed edges."""
        return max_cycle_mean(self.delays_ms(edges))

    def mean_round_ms(self, rounds: Sequence[Sequence[Edge]]) -> float:
        """Mean over rounds of the slowest active edge; each round lists its undirected edges (Wang et al. 2019)."""
        total = 0.0
        for active in rounds:
            total += self.delays_ms([*active, *((j, i) for i, j in active)]).max()
        return total / len(rounds)


def _shortest_paths(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """Length in km and hops of the shortest paths by km, one for both directions of a pair.

    Links of no length make many paths equally long. As in the published cycle times, the one that Dijkstra's search from
    the pair's later silo meets first stands, and it need not have the fewest hops.
    """
    if not network.has_distances:
        raise InputError(
            f"{network.name}: has no distances, so delays are unknown; give a network JSON with links [i, j, km], "
            "or choose overlay custom for a matrix"
        )
    size = network.num_silos
    km, hops = np.full((size, size), np.inf), np.full((size, size), np.inf)
    every = nx.all_pairs_dijkstra(network.underlay, weight="distance_km")
    for source, (lengths, routes) in every:
        for node, length in lengths.items():
            km[source, node], hops[source, node] = length, len(routes[node]) - 1
    km, hops = (np.tril(half) + np.tril(half, -1).T for half in (km, hops))
    if not np.isfinite(km).all():
        i, j = np.argwhere(~np.isfinite(km))[0]
        raise InputError(
            f"{network.name}: no path between {network.labels[i]!r} and {network.labels[j]!r}; add a link"
        )
    return km, hops


def max_cycle_mean(weight: np.ndarray) -> float:
    """Largest mean weight of a cycle; weight [N, N], -inf where there is no edge (Karp 1978, with every node a start).

    ValueError if there is no cycle.
    """
    size = len(weight)
    best = np.zeros((size + 1, size))  # best[k, v]: heaviest walk of k edges that ends in v
    for k in range(size):
        best[k + 1] = (best[k][:, None] + weight).max(axis=0)
    ends = np.isfinite(best[size])
    if not ends.any():
        raise ValueError("the maximum cycle mean of a graph without cycles is not defined")
    # best[k] may be -inf where best[size] is finite: then the quotient is +inf and does not count.
    means = (best[size, ends] - best[:size, ends]) / np.arange(size, 0, -1)[:, None]
    return float(means.min(axis=0).max())
