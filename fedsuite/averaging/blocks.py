"""The numbers of all clients, block by block, so that a rule that looks at each by itself needs little memory.

Clients may lie on disk; of these only the block is read. Results have the same bytes whatever the width of a block.
"""

from collections.abc import Callable, Sequence

import numpy as np

from fedsuite.arrays import Arrays, Named
from fedsuite.averaging.stored import part_of

HELD = 1 << 26  # bytes of all clients' changes that a rule of single numbers looks at at once


def blocks(size: int, width: int) -> list[tuple[int, int]]:
    """First number of each block of `size` numbers, and the one after its last."""
    return [(first, min(first + width, size)) for first in range(0, size, width)]


def number_by_number(
    server: Named, clients: Sequence[Named], middle: Callable[[np.ndarray], np.ndarray]
) -> Arrays:
    """Of every array what `middle` makes of its changes, [N, numbers] float64, block by block; [N, ...] of short arrays.

    A block has two numbers at least: where it has one alone, NumPy adds up clients in another order.
    """
    width, delta = max(2, HELD // (8 * len(clients))), {}
    for name in clients[0]:
        start = server[name].astype(np.float64)
        if start.size <= width:
            delta[name] = np.asarray(middle(np.array([c[name] - start for c in clients])))
            continue
        flat, found = start.reshape(-1), np.empty(start.size)
        for begin, last in blocks(start.size, width):
            first = min(begin, last - 2)
            changes = np.empty((len(clients), last - first))
            for row, client in zip(changes, clients, strict=True):
                np.subtract(part_of(client, name, first, last), flat[first:last], out=row)
            found[first:last] = middle(changes)
        delta[name] = found.reshape(start.shape)
    return delta
