"""Candidates by asking a simulator: the 36-view scan of EnvDrop (Tan et al. 2019), with ours or the real one.

For every neighbour the view that looks closest at it is kept (strictly closer wins, views in order 0..35).
`NavGraph.candidates` finds the same, to the last bit, for all places at once; this slow way exists to select the real
simulator and to hold the two against each other.
"""

import math
from pathlib import Path

import numpy as np

from fedsuite.vln.data.graph import (
    CAMERA_PIXELS,
    HEADINGS,
    NUM_VIEWS,
    VERTICAL_FIELD_OF_VIEW_RAD,
    VIEW_STEP_RAD,
    Candidates,
    NavGraph,
    padded,
)
from fedsuite.vln.mattersim import make_simulator


def candidates_by_simulator(connectivity_dir: Path, graph: NavGraph, kind: str) -> Candidates:
    """kind: "graph" (ours) or "mattersim" (the real module)."""
    simulator = make_simulator(kind)
    simulator.setRenderingEnabled(False)
    simulator.setNavGraphPath(str(connectivity_dir))
    simulator.setDiscretizedViewingAngles(True)
    simulator.setCameraResolution(*CAMERA_PIXELS)
    simulator.setCameraVFOV(VERTICAL_FIELD_OF_VIEW_RAD)
    simulator.setBatchSize(1)
    simulator.initialize()
    found = [
        (row, target, *best[1:])
        for row in np.flatnonzero(graph.included).tolist()
        for target, best in _scan(simulator, graph, row).items()
    ]
    columns = np.array(found, np.float64).reshape(-1, 5).T
    return padded(len(graph.viewpoint_ids), *columns[:3].astype(np.int64), *columns[3:])


def _scan(simulator, graph: NavGraph, row: int) -> dict[int, tuple[float, int, float, float]]:  # type: ignore[no-untyped-def]
    """target -> (angular distance, best view, absolute heading, absolute elevation), in order of discovery."""
    best: dict[int, tuple[float, int, float, float]] = {}
    for view in range(NUM_VIEWS):
        heading = (view % HEADINGS) * VIEW_STEP_RAD
        elevation = (view // HEADINGS - 1) * VIEW_STEP_RAD
        simulator.newEpisode([graph.scan], [graph.viewpoint_ids[row]], [heading], [elevation])
        state = simulator.getState()[0]
        for place in state.navigableLocations[1:]:
            # Of squares, as EnvDrop and the simulator's own order have it: a tie must be one here as well.
            angle = math.sqrt(place.rel_heading**2 + place.rel_elevation**2)
            if place.ix not in best or angle < best[place.ix][0]:
                towards = (state.heading + place.rel_heading) % (2 * math.pi)
                best[place.ix] = (angle, view, towards, state.elevation + place.rel_elevation)
    return best
