"""Time between two mixing steps of an overlay: delays of its edges and the maximum cycle mean.

Marfoq et al. 2020, section 2: silo i starts its next round when the models of all its in-neighbours are there. Rounds then
follow a max-plus recursion whose rate is the maximum cycle mean of the delays

    d(i, j) = u T_c + l(i, j) + max(outdeg_i M / C_up, indeg_j M / C_down, M / B(i, j))

with u local updates of T_c ms, latency l = 0.0085 ms/km x length of the shortest path + 4 ms, model of M bits, access links
C_up and C_down, and B = core capacity / hops of that path. Degrees count the overlay's edges.

Symbols: delay_ms [N, N], entry (i, j) the delay of edge i -> j, -inf where the overlay has no edge.
"""

import heapq
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fedsuite.driving.underlay import Network
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


@dataclass(frozen=True, eq=False)
class Paths:
    """What a message between any two silos meets: latency_ms and hops, float64 [N, N], 0 on the diagonal."""

    latency_ms: np.ndarray
    hops: np.ndarray

    def transfer_ms(self, model_bits: float, delay: DelayModel) -> np.ndarray:
        """M / B(i, j), ms, [N, N]."""
        return 1e3 * model_bits * self.hops / delay.core_capacity_bit_per_s


def shortest_paths(network: Network, delay: DelayModel) -> Paths:
    """Shortest paths by km, one for both directions of a pair.

    Links of no length make many paths equally long. As in the published cycle times, the one that Dijkstra's search from
    the pair's later silo meets first stands, and it need not have the fewest hops. InputError if the network has no
    distances or is not connected.
    """
    if not network.has_distances:
        raise InputError(
            f"{network.name}: has no distances, so delays are unknown; give a network JSON with links [i, j, km], "
            "or choose overlay custom for a matrix"
        )
    size = network.num_silos
    km, hops = np.full((size, size), np.inf), np.full((size, size), np.inf)
    for source in range(size):
        _search(network, source, km[source], hops[source])
    km, hops = _mirrored(km), _mirrored(hops)
    if not np.isfinite(km).all():
        i, j = np.argwhere(~np.isfinite(km))[0]
        raise InputError(
            f"{network.name}: no path between {network.labels[i]!r} and {network.labels[j]!r}; add a link"
        )
    latency_ms = delay.latency_ms_per_km * km + delay.base_latency_ms
    np.fill_diagonal(latency_ms, 0.0)
    return Paths(latency_ms, hops)


def _mirrored(values: np.ndarray) -> np.ndarray:
    """The half below the diagonal on both sides of it."""
    return np.asarray(np.tril(values) + np.tril(values, -1).T)


def _search(network: Network, source: int, km: np.ndarray, hops: np.ndarray) -> None:
    """Dijkstra; fills the two rows of `source`. Equally near silos are visited in the order they were met."""
    met = itertools.count()
    heap: list[tuple[float, int, int, int]] = [(0.0, next(met), source, 0)]
    nearest = {source: 0.0}
    while heap:
        length, _, node, count = heapq.heappop(heap)
        if np.isfinite(km[node]):
            continue
        km[node], hops[node] = length, count
        for other, link in network.underlay[node].items():
            reached = length + link["distance_km"]
            if reached < nearest.get(other, np.inf):
                nearest[other] = reached
                heapq.heappush(heap, (reached, next(met), other, count + 1))


def delay_matrix(
    num_silos: int,
    edges: Iterable[Edge],
    paths: Paths,
    model_bits: float,
    computation_time_ms: float,
    delay: DelayModel,
) -> np.ndarray:
    """d(i, j) of the overlay's directed edges, ms, [N, N]; -inf elsewhere."""
    out_ms = np.full((num_silos, num_silos), -np.inf)
    pairs = np.array(sorted(set(edges)), dtype=np.int64).reshape(-1, 2)
    start, end = pairs[:, 0], pairs[:, 1]
    up_ms = 1e3 * model_bits / delay.upload_bit_per_s * np.bincount(start, minlength=num_silos)
    down_ms = 1e3 * model_bits / delay.download_bit_per_s * np.bincount(end, minlength=num_silos)
    core_ms = paths.transfer_ms(model_bits, delay)[start, end]
    sending_ms = np.maximum(np.maximum(up_ms[start], down_ms[end]), core_ms)
    busy_ms = delay.local_updates * computation_time_ms
    out_ms[start, end] = busy_ms + paths.latency_ms[start, end] + sending_ms
    return out_ms


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


def mean_round_ms(
    rounds: Sequence[Sequence[Edge]],
    paths: Paths,
    model_bits: float,
    computation_time_ms: float,
    delay: DelayModel,
) -> float:
    """Mean over rounds of the slowest active edge, ms; each round lists its undirected edges (Wang et al. 2019)."""
    size = len(paths.hops)
    total = 0.0
    for active in rounds:
        both = [*active, *((j, i) for i, j in active)]
        total += delay_matrix(size, both, paths, model_bits, computation_time_ms, delay).max()
    return total / len(rounds)
