"""Silos and the links between them: the network that overlays are built on.

The five networks that the CDL, FADNet and MATCHA papers use were compiled by Marfoq et al. 2020 ("Throughput-optimal
topology design for cross-silo federated learning"). Link lengths are kept as published there, geocoding slips included.
"""

from dataclasses import dataclass, field
from pathlib import Path

import networkx as nx
import numpy as np

FOLDER = Path(__file__).parent / "underlays"
# Name as asked for -> file; nws is the name of amazon_us in the papers' tables.
NETWORKS = {name: name for name in ("gaia", "nws", "amazon_us", "exodus", "ebone", "geant")}
NETWORKS["nws"] = "amazon_us"


@dataclass(frozen=True, eq=False)
class Network:
    """N silos and their physical links; nobody can change it, for whoever reads the same file gets the same one.

    labels: one name a silo, distinct. position_deg: float64 [N, 2], latitude and longitude, or None where unknown.
    underlay: undirected graph on 0..N-1; its links carry `distance_km` unless the network was given as a matrix.
    weights: float64 [N, N], the user's mixing matrix, row = receiver; None where the network was given by its links.
    """

    name: str
    labels: tuple[str, ...]
    position_deg: np.ndarray | None
    underlay: "nx.Graph[int]" = field(repr=False)
    weights: np.ndarray | None = None

    def __post_init__(self) -> None:
        nx.freeze(self.underlay)
        for array in (self.position_deg, self.weights):
            if array is not None:
                array.setflags(write=False)

    @property
    def num_silos(self) -> int:
        return len(self.labels)

    @property
    def has_distances(self) -> bool:
        """Whether every link has a length, so that latencies and cycle times are known."""
        return all("distance_km" in link for _, _, link in self.underlay.edges(data=True))
