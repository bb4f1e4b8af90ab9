"""MatterSim's older interface (v0.1), as the code of Speaker-Follower and EnvDrop calls it: one environment, scalars.

Source: Matterport3D Simulator v0.1 (Anderson et al. 2018). Differences: those of `fedsuite.vln.mattersim`; scans.txt is
needed; settings, the seed among them (1 if none is set), act before init() only; states have no `rgb`; getState() before
the first episode raises RuntimeError instead of crashing.
"""

from collections import namedtuple
from typing import Any

from fedsuite.vln import mattersim
from fedsuite.vln.mattersim import arguments
from fedsuite.vln.mattersim.buildings import NavGraphs

# Snapshots with the fields of the newer objects, but point = [x, y, z] (m).
ViewPoint = namedtuple("ViewPoint", "viewpointId ix point rel_heading rel_elevation rel_distance")
SimState = namedtuple(
    "SimState", "scanId step viewIndex location heading elevation navigableLocations"
)


class Simulator(mattersim.Simulator):
    """One environment; what only the newer interface has (batches, unrestricted navigation) is not for use here."""

    def __init__(self) -> None:
        super().__init__(NavGraphs())

    def initialize(self) -> None:
        """Make the environment's state anew; also called init()."""
        self._states.clear()
        super().initialize()

    init = initialize

    def newEpisode(self, scanId: Any, viewpointId: Any, heading: Any, elevation: Any, /) -> None:
        """Start in scanId at viewpointId ("" = anywhere) with heading and elevation (rad)."""
        if viewpointId == "":
            graphs = self._ready_graphs()
            viewpointId = graphs.house(scanId).random_place(graphs.generator).viewpoint_id
        super().newEpisode([scanId], [viewpointId], [heading], [elevation])

    def makeAction(self, index: Any, heading: Any, elevation: Any, /) -> None:
        """Go to navigableLocations[index], then turn by heading and tilt by elevation (rad)."""
        index = arguments.integer("makeAction", index)
        if not (self._initialized and 0 <= index < self._states[0]._count()):
            raise ValueError(f"MatterSim: Invalid action index: {index}")
        super().makeAction([index], [heading], [elevation])

    def getState(self) -> SimState:  # type: ignore[override]
        """The environment as it is now."""
        if not any(state._count() for state in self._states):
            raise RuntimeError("MatterSim: newEpisode must be called before getState")
        s = self._states[0]
        places = [
            ViewPoint(v.viewpointId, v.ix, [v.x, v.y, v.z], *v._relative)
            for v in s.navigableLocations
        ]
        return SimState(s.scanId, s.step, s.viewIndex, places[0], s.heading, s.elevation, places)
