"""How far clients' models are from one another, all floating-point arrays together, in float64.

Of all clients a block of numbers is in memory at once: clients may lie on disk.
"""

from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import pdist, squareform

from fedsuite.arrays import Named
from fedsuite.averaging.blocks import blocks
from fedsuite.averaging.stored import part_of

_BLOCK = 1 << 14  # numbers a client whose distances are taken at once


def squared_distances(clients: Sequence[Named]) -> np.ndarray:
    """||w_i - w_j||^2 [N, N] float64 over all floating-point arrays together."""
    total = np.zeros(len(clients) * (len(clients) - 1) // 2)
    for name in sorted(clients[0]):
        if clients[0][name].dtype.kind != "f":
            continue
        for first, last in blocks(clients[0][name].size, _BLOCK):
            block = np.array([part_of(c, name, first, last) for c in clients], np.float64)
            total += pdist(block, "sqeuclidean")
    return squareform(total)
