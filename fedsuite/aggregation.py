"""How replies become the next model.

Symbols (FedVLN, Zhou & Wang 2022, Eq. 7 and Algorithm 1): w server model, w_k model of client k after local training,
n_k its samples, p_k = n_k / sum of n over the round's clients, eta server learning rate.

  parallel    w <- w + eta sum_k p_k (w_k - w)                      every client starts from the same w
  sequential  w <- w + eta p_k (w_k - w)  for k in turn              client k starts from the w its predecessor moved

Sums are taken in float64 in the order given (sort by partition first), then rounded once to the array's own type.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fedsuite.arrays import Arrays


def shares(num_examples: Sequence[int]) -> np.ndarray:
    """p_k [N] float64, adding up to 1; ValueError unless some n_k is positive and none negative."""
    counts = np.asarray(num_examples, np.float64)
    if len(counts) == 0 or (counts < 0).any() or counts.sum() <= 0:
        raise ValueError(
            f"expected sample counts >= 0 with a positive sum, got {list(num_examples)}"
        )
    return counts / counts.sum()


def parallel_step(
    server: Mapping[str, np.ndarray],
    clients: Sequence[Mapping[str, np.ndarray]],
    weights: Sequence[float] | np.ndarray,
    server_learning_rate: float = 1.0,
) -> Arrays:
    """FedAvg on deltas with a server step; the clients may hold a subset of the server's names, all the same one."""
    merged = {k: v.copy() for k, v in server.items()}
    for name in clients[0]:
        start = server[name].astype(np.float64)
        delta = np.zeros_like(start)
        for arrays, weight in zip(clients, weights, strict=True):
            delta += weight * (arrays[name] - start)
        merged[name] = (start + server_learning_rate * delta).astype(server[name].dtype)
    return merged


def sequential_step(
    server: Mapping[str, np.ndarray],
    client: Mapping[str, np.ndarray],
    weight: float,
    server_learning_rate: float = 1.0,
) -> Arrays:
    """Move the server model towards one client's, as the published numbers did (weights p_k of the whole round)."""
    return parallel_step(server, [client], [weight], server_learning_rate)


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
