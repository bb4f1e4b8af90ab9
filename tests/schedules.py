"""Mixing schedules by name: of a network, or of N silos without distances."""

from typing import Any

import numpy as np

from fedsuite.driving.topology import Network, Overlay, both_ways, build_overlay
from fedsuite.driving.topology.mixing_matrix import MixingSchedule, schedule_of
from fedsuite.driving.topology.overlays import tour_edges


def make_schedule(
    network: Network | str | int, kind: str, seed: int = 0, mixing: str = "auto", **delays: Any
) -> MixingSchedule:
    """Ring, star, complete and local need no network: there, give the number of silos."""
    if not isinstance(network, int):
        weights = network.weights if isinstance(network, Network) and kind == "custom" else None
        return schedule_of(build_overlay(network, kind, **delays), seed, mixing, weights)
    edges = {
        "ring": tuple(tour_edges(list(range(network)))),
        "star": both_ways([(0, i) for i in range(1, network)]),
        "complete": both_ways([(i, j) for j in range(network) for i in range(j)]),
        "local": (),
    }
    return schedule_of(Overlay(kind, network, edges[kind]), seed, mixing)


def contraction(a: np.ndarray) -> float:
    """Spectral norm of A - 1 1^T / N: the most by which a mixing step leaves silos apart (0 one average, 1 no mixing)."""
    return float(np.linalg.norm(a - 1.0 / len(a), ord=2))
