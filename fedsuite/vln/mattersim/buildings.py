"""Navigation graphs as the Matterport3D Simulator reads and shares them.

Source: Matterport3D Simulator (Anderson et al. 2018), batch API. `<folder>/scans.txt` names the houses; each has a file
`<scan>_connectivity.json`, a list with one entry per panorama: image_id, pose (16 numbers, row by row; elements 3, 7, 11
are x, y, z in metres), included, unobstructed (one flag per panorama: row = from, column = to). A house's file is read
when the house is first visited; the original reads all of them at the first episode.
"""

from functools import cache
from pathlib import Path

import numpy as np

from fedsuite.errors import InputError
from fedsuite.storage.files import path_name
from fedsuite.vln.data.graph import load_graph
from fedsuite.vln.mattersim.geometry import (
    ELEVATION_STEP_RAD,
    HEADING_STEP_RAD,
    HEADINGS,
    Candidates,
    Place,
    seen,
    surroundings,
)
from fedsuite.vln.mattersim.random import MinimalStandard

_HEADINGS_RAD = [k * HEADING_STEP_RAD for k in range(HEADINGS)]
_ELEVATIONS_RAD = [(row - 1) * ELEVATION_STEP_RAD for row in range(3)]


class House:
    """One scan: its panoramas and the candidates of each (found at the first visit, then kept)."""

    def __init__(self, scan: str, folder: Path) -> None:
        graph = load_graph(folder, scan)
        self.scan, self.included = scan, graph.included.tolist()
        xyz = graph.position_m.astype(np.float32).tolist()
        named = zip(graph.viewpoint_ids, xyz, strict=True)
        self.places = tuple(Place(name, ix, *place) for ix, (name, place) in enumerate(named))
        # An edge may have one direction only.
        self._neighbours = [
            tuple(self.places[j] for j in np.flatnonzero(row)) for row in graph.edge
        ]
        self._index = graph.index
        self._surroundings = cache(lambda ix: surroundings(self.places[ix], self._neighbours[ix]))
        self._views = cache(self._by_view)

    def find(self, viewpoint_id: str) -> Place:
        """The panorama of that id."""
        ix = self._index.get(viewpoint_id)
        if ix is None:
            raise ValueError(
                f"MatterSim: Could not find viewpointId: {viewpoint_id}, is viewpoint id valid?"
            )
        if not self.included[ix]:
            raise ValueError(
                f"MatterSim: ViewpointId: {viewpoint_id}, is excluded from the connectivity graph."
            )
        return self.places[ix]

    def random_place(self, generator: MinimalStandard) -> Place:
        """Any panorama, then on to the first included one: those after excluded ones are likelier, as in the original."""
        if not any(self.included):
            raise RuntimeError(f"MatterSim: ScanId: {self.scan} has no included viewpoints!")
        ix = generator.below(len(self.places))
        while not self.included[ix]:
            ix = (ix + 1) % len(self.places)
        return self.places[ix]

    def candidates(
        self, ix: int, heading_rad: float, elevation_rad: float, cos_half_fov: float | None
    ) -> Candidates:
        """What a camera with any direction sees from panorama ix; O(number of neighbours)."""
        return seen(self._surroundings(ix), [heading_rad], [elevation_rad], cos_half_fov)[0]

    def view_candidates(self, ix: int, view: int, cos_half_fov: float | None) -> Candidates:
        """What a discretised camera sees from panorama ix: a look-up after the first visit."""
        return self._views(ix, cos_half_fov)[view]

    def _by_view(self, ix: int, cos_half_fov: float | None) -> list[Candidates]:
        by_heading = seen(self._surroundings(ix), _HEADINGS_RAD, _ELEVATIONS_RAD, cos_half_fov)
        return [c for row in range(3) for c in by_heading[row::3]]


class NavGraphs:
    """The houses of one folder and the random starts; who starts an episode first decides on folder and seed for good."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._scans = set[str]()
        self._house = cache(House)
        self.generator = MinimalStandard(1)

    def open(self, folder: str, seed: int) -> None:
        """Read the list of houses; does nothing once that has succeeded."""
        if self._folder is not None:
            return
        file = Path(folder) / "scans.txt"
        try:
            scans = file.read_text(encoding="utf-8", errors="replace").split()
        except OSError:
            raise InputError(
                f"MatterSim: Could not open list of scans at: {file}, is path valid?"
            ) from None
        self._scans = {path_name(s, f"MatterSim: {file}: a scan") for s in scans}
        self.generator = MinimalStandard(seed)
        self._folder = Path(folder)

    def house(self, scan: str) -> House:
        """The house of that name; IndexError (as the original) unless scans.txt lists it."""
        if scan not in self._scans or self._folder is None:
            raise IndexError(f"map::at: scan {scan!r} is not listed in {self._folder}/scans.txt")
        return self._house(scan, self._folder)
