"""A client's own model v and the one that it shares, w, made one: a v + (1 - a) w, one a for all or one per array."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedsuite.arrays import Arrays, Named


def blended(own: Named, shared: Named, weights: Mapping[str, Any]) -> Arrays:
    """a v + (1 - a) w of equally named arrays, a of every array; whole numbers, such as counters, are those of w.

    a = 0 gives w and a = 1 gives v to the last bit.
    """
    return {k: _between(own[k], shared[k], float(weights[k])) for k in shared}


def _between(own: np.ndarray, shared: np.ndarray, weight: float) -> np.ndarray:
    if shared.dtype.kind != "f" or weight == 0:
        return shared
    return own if weight == 1 else weight * own + (1 - weight) * shared


def slope(gradient: Named, own: Named, shared: Named) -> float:
    """<g, v - w> over the arrays of a gradient: how the loss at a v + (1 - a) w rises with a."""
    parts = (np.vdot(g.astype(np.float64), own[k] - shared[k]) for k, g in gradient.items())
    return float(sum(parts))


def cut(weight: float) -> float:
    """The nearest number from 0 to 1."""
    return min(1.0, max(0.0, weight))
