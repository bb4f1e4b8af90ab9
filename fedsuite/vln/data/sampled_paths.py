"""Paths of a house that nobody has described: for generated instructions and for pre-exploration.

Source: the augmentation paths of Speaker-Follower (Fried et al. 2018) and EnvDrop (Tan et al. 2019), taken up in FedVLN
(Zhou & Wang 2022): every ordered pair (start, goal) whose shortest path in metres has 4 to 6 edges, without the pairs
that annotated paths of the house connect. That rule gives the published 176,776 paths of the R2R training houses. The
files themselves are not public; initial headings are drawn here, a multiple of 30 degrees per path.

Large houses have ten thousand such paths, so that only start, goal and view are kept; a Sample is made when asked for.
"""

import numpy as np

from fedsuite.randomness import rng_for
from fedsuite.vln.data.dataset import HORIZON_ROW, House, Sample
from fedsuite.vln.data.graph import HEADINGS, NavGraph

MIN_EDGES, MAX_EDGES = 4, 6


class SampledPaths:
    """Samples without words in ascending order of start, goal [n] int32 (rows of the house); view [n] int8, initial."""

    def __init__(
        self, graph: NavGraph, start: np.ndarray, goal: np.ndarray, view: np.ndarray
    ) -> None:
        self.graph = graph
        self.start, self.goal, self.view = start, goal, view

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, index: int) -> Sample:
        start, goal, scan = int(self.start[index]), int(self.goal[index]), self.graph.scan
        path, view = tuple(self.graph.shortest_path(start, goal)), int(self.view[index])
        return Sample(f"{scan}-{start}-{goal}", scan, path, view, np.zeros(0, np.int64), text="")


def sampled_paths(house: House, seed: int, partition: int) -> SampledPaths:
    """All paths of the house by the rule above; a small house may have none."""
    wanted = pairs_between(house.graph, MIN_EDGES, MAX_EDGES)
    for samples in house.samples.values():
        for sample in samples:
            wanted[sample.path[0], sample.path[-1]] = False
    start, goal = (rows.astype(np.int32) for rows in np.nonzero(wanted))
    heading = rng_for(seed, "headings of sampled paths", 0, partition).integers(
        HEADINGS, size=len(start), dtype=np.int8
    )
    return SampledPaths(house.graph, start, goal, HORIZON_ROW * HEADINGS + heading)


def pairs_between(graph: NavGraph, fewest: int, most: int) -> np.ndarray:
    """Which ordered pairs [P, P] bool have a shortest path (in metres) of `fewest` to `most` edges."""
    hop = graph.next_hop
    goal = np.arange(len(hop))
    # All pairs walk at once; who has arrived stays, who cannot arrive leads nowhere.
    place = np.broadcast_to(goal[:, None], hop.shape)
    for _ in range(fewest - 1):
        place = np.where(place < 0, -1, hop[place, goal])
    too_near = place == goal
    for _ in range(most - fewest + 1):
        place = np.where(place < 0, -1, hop[place, goal])
    return np.asarray((place == goal) & ~too_near)
