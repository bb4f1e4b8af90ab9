"""Matterport3D Simulator without rendering: a drop-in for the Python module `MatterSim` (batch).

Source: Matterport3D Simulator (Anderson et al. 2018). Same methods, states, order of navigable locations, errors and
random starts.

Observation: `getState()` -> list of B live SimState: where the camera is, its direction, where it can go.
Action: `makeAction([index], [heading], [elevation])`: go to navigableLocations[index] (0 = stay), then turn and tilt by
the given angles (rad); a discretised camera makes one step of 30 degrees for any non-zero angle. No reward, goal, end or
collision.

Differences from the original:
1. No images: initialize() refuses rendering, `rgb` and `depth` are zero arrays, the image filter `cbf` is absent.
2. A call that raises changes nothing, where the original leaves part of the batch moved.
3. Unreadable house files raise InputError when the house is visited, where the original aborts at the first episode; so
   do a panorama without `included`, flags that are no booleans, poses that are not finite, and ids that repeat.
4. Relative headings are correctly rounded; the original's come from its C library and may differ by 2.4e-7 rad.
"""

import functools
import importlib
from typing import Any

from fedsuite.errors import InputError
from fedsuite.vln.mattersim import arguments
from fedsuite.vln.mattersim.buildings import House, NavGraphs
from fedsuite.vln.mattersim.geometry import (
    ELEVATION_STEP_RAD,
    HEADING_STEP_RAD,
    Candidates,
    Place,
    snapped,
    wrapped,
)
from fedsuite.vln.mattersim.random import random_headings
from fedsuite.vln.mattersim.simulator_settings import Settings
from fedsuite.vln.mattersim.state import SimState, ViewPoint, new_state

__all__ = ["SimState", "Simulator", "ViewPoint", "make_simulator", "process_nav_graphs"]


@functools.cache
def process_nav_graphs() -> NavGraphs:
    """The graphs that all simulators of this process share, until `process_nav_graphs.cache_clear()`."""
    return NavGraphs()


class Simulator(Settings):
    """B environments in any houses. graphs: private graphs and random starts, instead of those of the process."""

    def __init__(self, graphs: NavGraphs | None = None, /) -> None:
        super().__init__()
        self._graphs = graphs
        self._states: list[SimState] = []

    def initialize(self) -> None:
        """Make the environments' states; called again, another batch of them (as the original)."""
        if self._rendering:
            raise RuntimeError(
                "MatterSim: this simulator cannot render; call setRenderingEnabled(False) first"
            )
        self._states += [new_state(self._height, self._width) for _ in range(self._batch_size)]
        self._initialized = True

    def newEpisode(self, scanId: Any, viewpointId: Any, heading: Any, elevation: Any, /) -> None:
        """Start environment e in scanId[e] at viewpointId[e], heading[e], elevation[e] (rad)."""
        scans = arguments.texts("newEpisode", scanId)
        ids = arguments.texts("newEpisode", viewpointId)
        headings = arguments.reals("newEpisode", heading)
        elevations = arguments.reals("newEpisode", elevation)
        graphs, size = self._ready_graphs(), len(self._states)
        arguments.cover_batch(
            size, scanId=scans, viewpointId=ids, heading=headings, elevation=elevations
        )
        houses = [graphs.house(scan) for scan in scans[:size]]
        places = [house.find(name) for house, name in zip(houses, ids, strict=False)]
        self._start(houses, places, headings, elevations)

    def newRandomEpisode(self, scanId: Any, /) -> None:
        """Start environment e anywhere in scanId[e], level, with the same heading at every call."""
        scans = arguments.texts("newRandomEpisode", scanId)
        graphs, size = self._ready_graphs(), len(self._states)
        arguments.cover_batch(size, scanId=scans)
        houses = [graphs.house(scan) for scan in scans[:size]]
        places = [house.random_place(graphs.generator) for house in houses]
        self._start(houses, places, random_headings(size), [0.0] * size)

    def _ready_graphs(self) -> NavGraphs:
        if not self._initialized:
            self.initialize()
        graphs = process_nav_graphs() if self._graphs is None else self._graphs
        graphs.open(self._folder, self._seed)
        return graphs

    def _start(self, houses: list[House], places: list[Place], *directions: list[float]) -> None:
        starts = zip(self._states, houses, places, *directions, strict=False)
        for state, house, place, heading_rad, elevation_rad in starts:
            state._start(house, place)
            state._look(*self._view_from(house, place.ix, heading_rad, elevation_rad))

    def getState(self) -> list[SimState]:
        """The live states, in a new list."""
        return self._states.copy()

    def makeAction(self, index: Any, heading: Any, elevation: Any, /) -> None:
        """Move environment e to navigableLocations[index[e]], then turn by heading[e] and tilt by elevation[e] (rad)."""
        chosen = arguments.indices("makeAction", index)
        turns = arguments.reals("makeAction", heading)
        tilts = arguments.reals("makeAction", elevation)
        if not self._initialized:
            raise RuntimeError("MatterSim: newEpisode must be called before makeAction")
        states = self._states
        arguments.cover_batch(len(states), index=chosen, heading=turns, elevation=tilts)
        for e, (state, i) in enumerate(zip(states, chosen, strict=False)):
            if i >= state._count():
                raise ValueError(
                    f"MatterSim: Invalid action index: {i} in environment {e} of {len(states)}"
                )
        for state, i, turn_rad, tilt_rad in zip(states, chosen, turns, tilts, strict=False):
            state._move(i)
            self._turn(state, turn_rad, tilt_rad)

    def _turn(self, state: SimState, turn_rad: float, tilt_rad: float) -> None:
        if self._discretized:
            turn_rad = ((turn_rad > 0) - (turn_rad < 0)) * HEADING_STEP_RAD
            tilt_rad = ((tilt_rad > 0) - (tilt_rad < 0)) * ELEVATION_STEP_RAD
        heading_rad, elevation_rad = state._heading_rad + turn_rad, state._elevation_rad + tilt_rad
        house, location = state._house, state._location
        if house is not None and location is not None:
            state._look(*self._view_from(house, location._place.ix, heading_rad, elevation_rad))

    def _view_from(
        self, house: House, ix: int, heading_rad: float, elevation_rad: float
    ) -> tuple[float, float, int, Candidates]:
        """Direction the camera ends up with, its view index, and what it sees from panorama ix."""
        if self._discretized:
            heading_rad, elevation_rad, view = snapped(heading_rad, elevation_rad)
            found = house.view_candidates(ix, view, self._cos_half_fov)
            return heading_rad, elevation_rad, view, found
        heading_rad = wrapped(heading_rad)
        elevation_rad = max(min(elevation_rad, self._highest_rad), self._lowest_rad)
        found = house.candidates(ix, heading_rad, elevation_rad, self._cos_half_fov)
        return heading_rad, elevation_rad, 0, found

    def close(self) -> None:
        """End the episodes; states stay readable, and may be called again."""
        self._initialized = False

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise TypeError("cannot pickle 'MatterSim.Simulator' object")


def make_simulator(kind: str) -> Simulator:
    """A new simulator: "graph" = this one, with nav graphs of its own; "mattersim" = the original (same interface).

    The original keeps to the folder of the process's first simulator, whatever later ones are told.
    """
    if kind == "graph":
        return Simulator(NavGraphs())
    if kind != "mattersim":
        raise InputError(f'simulator: expected "graph" or "mattersim", got {kind!r}')
    cure = "build the Matterport3D Simulator from source and put its build folder on PYTHONPATH"
    try:
        module = importlib.import_module("MatterSim")
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f'simulator "mattersim": cannot import MatterSim ({reason}); {cure}'
        ) from None
    if not hasattr(getattr(module, "Simulator", None), "makeAction"):
        raise InputError(
            f'simulator "mattersim": the module MatterSim found is not the Matterport3D Simulator '
            f"(the package of that name on PyPI is unrelated); {cure}"
        )
    original: Simulator = module.Simulator()
    return original
