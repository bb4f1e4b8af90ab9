"""How replies become the next model.

Symbols (FedVLN, Zhou & Wang 2022, Eq. 7 and Algorithm 1): w server model, w_k model of client k after local training,
n_k its samples, p_k = n_k / sum of n over the round's clients, eta server learning rate, Delta the merged change.

  parallel    Delta = sum_k p_k (w_k - w);  w <- w + eta Delta        every client starts from the same w
  sequential  w <- w + eta p_k (w_k - w)  for k in turn               client k starts from the w its predecessor moved

A merge rule makes Delta of what the clients sent, a server optimizer makes the next w of Delta; both are values, chosen by
configuration, `module:NAME` for one's own. Sums are taken in float64 in the order given (sort by partition first), then
rounded once to the array's own type.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from fedsuite.arrays import Arrays

Named = Mapping[str, np.ndarray]
Weights = Sequence[float] | np.ndarray
# (w, [w_k], [p_k], adding up to 1) -> Delta, float64, of the names that the clients sent, all the same ones.
MergeRule = Callable[[Named, Sequence[Named], np.ndarray], Arrays]


class ServerOptimizer(Protocol):
    """What moves the server's model."""

    def __call__(
        self, server: Named, delta: Named, state: Named, rate: float
    ) -> tuple[Arrays, Arrays]:
        """w, Delta (float64), own state ({} at first), eta -> the next w of Delta's names, float64; the next state."""


def shares(num_examples: Sequence[int]) -> np.ndarray:
    """p_k [N] float64, adding up to 1; ValueError unless some n_k is positive and none negative."""
    counts = np.asarray(num_examples, np.float64)
    if len(counts) == 0 or (counts < 0).any() or counts.sum() <= 0:
        raise ValueError(
            f"expected sample counts >= 0 with a positive sum, got {list(num_examples)}"
        )
    return counts / counts.sum()


def mean(server: Named, clients: Sequence[Named], weights: Weights) -> Arrays:
    """Delta = sum_k p_k (w_k - w): FedAvg (McMahan et al. 2017)."""
    delta: Arrays = {}
    for name in clients[0]:
        start = server[name].astype(np.float64)
        delta[name] = np.zeros_like(start)
        for arrays, weight in zip(clients, weights, strict=True):
            delta[name] += weight * (arrays[name] - start)
    return delta


def median(server: Named, clients: Sequence[Named], weights: Weights) -> Arrays:
    """Delta = coordinate-wise median of w_k - w, all clients alike (Yin et al. 2018): few strange clients move it little."""
    return {
        name: np.median([arrays[name] - server[name].astype(np.float64) for arrays in clients], 0)
        for name in clients[0]
    }


def plain(server: Named, delta: Named, state: Named, rate: float) -> tuple[Arrays, Arrays]:
    """w + eta Delta; no state."""
    return {k: server[k].astype(np.float64) + rate * d for k, d in delta.items()}, {}


def server_step(
    server: Named,
    clients: Sequence[Named],
    weights: Weights,
    rate: float = 1.0,
    merge: MergeRule = mean,
    optimizer: ServerOptimizer = plain,
    state: Named | None = None,
) -> tuple[Arrays, Arrays]:
    """The next server model, names that no client sent as they were, and the optimizer's next state."""
    delta = merge(server, clients, np.asarray(weights, np.float64))
    moved, after = optimizer(server, delta, state or {}, rate)
    copied = {k: v.copy() for k, v in server.items()}
    return copied | {k: np.asarray(v, server[k].dtype) for k, v in moved.items()}, after


MERGE_RULES: Mapping[str, MergeRule] = {"mean": mean, "median": median}
SERVER_OPTIMIZERS: Mapping[str, ServerOptimizer] = {"none": plain}


def weighted_means(
    metrics: Sequence[Mapping[str, float]], weights: Sequence[float]
) -> dict[str, float]:
    """Mean of every metric over the clients that report it, weighted; metrics of zero total weight are left out."""
    names = dict.fromkeys(n for m in metrics for n in m)
    means = {}
    for name in names:
        pairs = [(m[name], w) for m, w in zip(metrics, weights, strict=True) if name in m]
        total = sum(w for _, w in pairs)
        if total > 0:
            means[name] = sum(v * w for v, w in pairs) / total
    return means
