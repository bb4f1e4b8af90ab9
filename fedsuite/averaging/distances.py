"""How far clients' models are from the server's, all floating-point arrays together, in float64.

No more than one whole array of one client is in memory: clients may lie on disk.
"""

from collections.abc import Sequence

import numpy as np

from fedsuite.arrays import Named


def along(server: Named, clients: Sequence[Named], other: Named) -> np.ndarray:
    """(w_k - w) (w_o - w) [N], the products of each client's change with that of `other`."""
    products = np.zeros(len(clients))
    for name in sorted(other):
        if other[name].dtype.kind != "f":
            continue
        start = server[name].astype(np.float64)
        direction = (other[name] - start).ravel()
        for k, arrays in enumerate(clients):
            products[k] += (arrays[name] - start).ravel() @ direction
    return products


def lengths(server: Named, clients: Sequence[Named]) -> np.ndarray:
    """||w_k - w|| [N] float64 over all floating-point arrays together."""
    squares = np.zeros(len(clients))
    for name in sorted(clients[0]):
        if clients[0][name].dtype.kind != "f":
            continue
        for k, arrays in enumerate(clients):
            change = (arrays[name] - server[name].astype(np.float64)).ravel()
            squares[k] += change @ change
    return np.sqrt(squares)
