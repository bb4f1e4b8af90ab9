"""A house as it is drawn: storeys, the navigation graph on them, and rooms and walls where the generator knows them.

Recorded houses say nothing of storeys: they are the heights that many cameras share, the peaks of a smoothed histogram of
their z. Cameras on stairs belong to the nearest one.
"""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter1d

from fedsuite.vln.data.graph import NavGraph
from fedsuite.vln.generator.house_plan import draw_house, scan_id
from fedsuite.vln.generator.houses import HouseSettings, house_numbers
from fedsuite.vln.generator.walls import Room

_BIN_M, _SPREAD_M, _APART_M = 0.1, 0.4, 2.0  # histogram of heights; storeys are so far apart
_LEAST_SHARE = 0.1  # of the cameras of the busiest height: what is less is no storey


@dataclass(frozen=True)
class FloorPlan:
    """P viewpoints, z up. position_m [P, 3]; edge [P, P] bool, either direction counts; storey [P] int64, 0 the lowest.

    rooms, room [P] int64 (number of a viewpoint's room), walls ([S, 4] m by storey: x0, y0, x1, y1): of generated houses,
    otherwise (), -1 and ().
    """

    scan: str
    viewpoint_ids: tuple[str, ...]
    position_m: np.ndarray
    edge: np.ndarray
    storey: np.ndarray
    room: np.ndarray
    rooms: tuple[Room, ...] = ()
    walls: tuple[np.ndarray, ...] = ()

    def room_name(self, viewpoint: int) -> str:
        """What the room of a viewpoint (row) is called; "" where nobody knows."""
        number = int(self.room[viewpoint])
        return self.rooms[number].kind if number >= 0 else ""


def floor_plan(graph: NavGraph, generated: HouseSettings | None = None) -> FloorPlan:
    """The plan of a house; generated: how the run's houses were made, None for recorded ones."""
    if generated is not None:
        for number in house_numbers(generated):
            if scan_id(generated.seed, number) == graph.scan:
                return _generated_plan(graph, generated.seed, number)
    places = graph.viewpoint_ids, graph.position_m, graph.edge
    storey, nowhere = storeys_of(graph.position_m, graph.edge), np.full(len(graph.edge), -1)
    return FloorPlan(graph.scan, *places, storey, nowhere)


def _generated_plan(graph: NavGraph, seed: int, number: int) -> FloorPlan:
    house = draw_house(seed, number)
    row = {v: i for i, v in enumerate(house.viewpoint_ids)}
    rows = np.array([row[v] for v in graph.viewpoint_ids])
    storey, room = house.floor[rows], house.room[rows]
    places = graph.viewpoint_ids, graph.position_m, graph.edge
    return FloorPlan(graph.scan, *places, storey, room, house.rooms, house.walls)


def storeys_of(position_m: np.ndarray, edge: np.ndarray) -> np.ndarray:
    """Storey of every viewpoint [P] int64, by height alone; viewpoints without an edge do not count."""
    from scipy.signal import find_peaks  # only for recorded houses, and more than half a second

    height_m = position_m[:, 2]
    used = height_m[(edge | edge.T).any(0)]
    if not used.size:
        return np.zeros(len(height_m), np.int64)
    margin_m = 3 * _SPREAD_M
    bins = np.arange(used.min() - margin_m, used.max() + margin_m + _BIN_M, _BIN_M)
    cameras = gaussian_filter1d(np.histogram(used, bins)[0].astype(float), _SPREAD_M / _BIN_M)
    apart, least = round(_APART_M / _BIN_M), _LEAST_SHARE * cameras.max()
    peaks = find_peaks(cameras, distance=apart, prominence=least)[0]
    return np.abs(height_m[:, None] - (bins[peaks] + _BIN_M / 2)).argmin(1)
