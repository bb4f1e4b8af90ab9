"""Sums over a round's clients as a fixed tree, so that neither workers nor messages decide their last bits.

The clients of a round stand, sorted by partition, at positions 0, 1, ... under a binary tree; every node is the float64 sum
of its two children, where nothing and x is x. A message that carries the 2^m clients of one subtree brings that subtree's
sum, and the server adds up what is above: whatever m, the same numbers are added in the same pairs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fedsuite.arrays import Arrays

SUM = "sum."  # prefix of the sums among a reply's arrays
WEIGHT = "weight"  # of one member: p_k
BLOCK = 1 << 17  # numbers that are summed at once


def tree_sum(leaf: Callable[[int], Arrays | None], count: int) -> Arrays:
    """The sum of leaf(0) .. leaf(count - 1), each asked for once, in order; {} if all are None. At most log2(count) + 1
    of them are kept at a time."""

    def subtree(first: int, size: int) -> Arrays | None:
        if size == 1 or first >= count:
            return leaf(first) if first < count else None
        left, right = subtree(first, size // 2), subtree(first + size // 2, size // 2)
        if left is None or right is None:
            return right if left is None else left
        return {name: left[name] + right[name] for name in left}

    return subtree(0, 1 << max(count - 1, 0).bit_length()) or {}


def weighted_change(
    server: Mapping[str, np.ndarray], client: Mapping[str, np.ndarray], weight: float
) -> Arrays:
    """p_k (w_k - w), float64."""
    changes = {k: v.astype(np.float64) for k, v in client.items()}
    for name, change in changes.items():
        change -= server[name]
        change *= weight
    return changes


def sum_of_changes(
    server: Mapping[str, np.ndarray],
    clients: Sequence[Mapping[str, np.ndarray]],
    weights: Sequence[float],
) -> Arrays:
    """sum_k p_k (w_k - w), to the byte `tree_sum` of every `weighted_change`, of clients that are all there: by blocks,
    side by side."""
    names = list(clients[0]) if clients else []
    with ThreadPoolExecutor() as pool:
        return {
            name: _summed(server[name], [one[name] for one in clients], weights, pool.map)
            for name in names
        }


def _summed(
    start: np.ndarray,
    arrays: Sequence[np.ndarray],
    weights: Sequence[float],
    run: Callable[..., Iterable[None]],
) -> np.ndarray:
    """One array's; run: `map`, of which what it does for one block may be done beside another."""
    server, own = start.reshape(-1), [array.reshape(-1) for array in arrays]
    total = np.empty(len(server))

    def sum_block(begin: int) -> None:
        part = slice(begin, begin + BLOCK)

        def change(k: int) -> Arrays:
            return weighted_change({"": server[part]}, {"": own[k][part]}, weights[k])

        total[part] = tree_sum(change, len(own))[""]

    [*run(sum_block, range(0, len(server), BLOCK))]
    return total.reshape(start.shape)
