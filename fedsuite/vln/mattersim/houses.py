"""Navigation graphs as the Matterport3D Simulator reads and shares them.

Source: Matterport3D Simulator (Anderson et al. 2018), batch API. `<folder>/scans.txt` names the houses; each has a file
`<scan>_connectivity.json`, a list with one entry per panorama: image_id, pose (16 numbers, row by row; elements 3, 7, 11
are x, y, z in metres), included, unobstructed (one flag per panorama: row = from, column = to). A house's file is read
when the house is first visited; the original reads all of them at the first episode.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.errors import InputError
from fedsuite.vln.mattersim.geometry import (
    ELEVATION_STEP_RAD,
    HEADING_STEP_RAD,
    HEADINGS,
    Candidates,
    Place,
    Surroundings,
    seen,
    surroundings,
)
from fedsuite.vln.mattersim.random import MinimalStandard

_HEADINGS_RAD = [k * HEADING_STEP_RAD for k in range(HEADINGS)]
_ELEVATIONS_RAD = [(row - 1) * ELEVATION_STEP_RAD for row in range(3)]


class House:
    """One scan: its panoramas and the candidates of each (found at the first visit, then kept)."""

    def __init__(self, scan: str, file: Path) -> None:
        self.scan = scan
        rows = _read(file)
        try:
            self.places = tuple(_place(row, ix) for ix, row in enumerate(rows))
            self.included = [bool(row.get("included", False)) for row in rows]
            self._neighbours = [self._edges(row, ix) for ix, row in enumerate(rows)]
        except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(
                f"MatterSim: {file} is not a connectivity file ({type(error).__name__}: {error}); "
                "fetch it again"
            ) from None
        self._index: dict[str, int] = {}
        for place in self.places:
            self._index.setdefault(place.viewpoint_id, place.ix)
        self._around: dict[int, Surroundings] = {}
        self._views: dict[float | None, dict[int, list[Candidates]]] = {}

    def _edges(self, row: dict[str, Any], ix: int) -> tuple[Place, ...]:
        """Where one can go from panorama ix; edges may have one direction only."""
        if not self.included[ix]:
            return ()
        free, total = row["unobstructed"], len(self.places)
        if len(free) < total:
            raise ValueError(f"panorama {ix} has {len(free)} unobstructed flags, expected {total}")
        return tuple(p for p in self.places if free[p.ix] and self.included[p.ix] and p.ix != ix)

    def find(self, viewpoint_id: str) -> Place:
        """The panorama of that id, the first one if ids repeat."""
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
        tables = self._views.setdefault(cos_half_fov, {})
        if ix not in tables:
            by_heading = seen(self._surroundings(ix), _HEADINGS_RAD, _ELEVATIONS_RAD, cos_half_fov)
            tables[ix] = [c for row in range(3) for c in by_heading[row::3]]
        return tables[ix][view]

    def _surroundings(self, ix: int) -> Surroundings:
        if ix not in self._around:
            self._around[ix] = surroundings(self.places[ix], self._neighbours[ix])
        return self._around[ix]


def _place(row: dict[str, Any], ix: int) -> Place:
    x, y, z = (float(np.float32(row["pose"][k])) for k in (3, 7, 11))
    return Place(str(row["image_id"]), ix, x, y, z)


def _read(file: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(file.read_text())
    except OSError:
        raise InputError(
            f"MatterSim: Could not open navigation graph file: {file}, is path valid?"
        ) from None
    except ValueError as error:
        raise InputError(f"MatterSim: {file} is not valid JSON ({error}); fetch it again") from None
    if not isinstance(rows, list):
        raise InputError(
            f"MatterSim: {file}: expected a list of panoramas, got {type(rows).__name__}"
        )
    return rows


class NavGraphs:
    """The houses of one folder and the random starts; who starts an episode first decides on folder and seed for good."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._houses: dict[str, House | None] = {}
        self.generator = MinimalStandard(1)

    def open(self, folder: str, seed: int) -> None:
        """Read the list of houses; does nothing once that has succeeded."""
        if self._folder is not None:
            return
        file = Path(folder) / "scans.txt"
        try:
            scans = file.read_text().split()
        except OSError:
            raise InputError(
                f"MatterSim: Could not open list of scans at: {file}, is path valid?"
            ) from None
        self._houses = dict.fromkeys(scans)
        self.generator = MinimalStandard(seed)
        self._folder = Path(folder)

    def house(self, scan: str) -> House:
        """The house of that name; IndexError (as the original) unless scans.txt lists it."""
        if scan not in self._houses or self._folder is None:
            raise IndexError(f"map::at: scan {scan!r} is not listed in {self._folder}/scans.txt")
        house = self._houses[scan]
        if house is None:
            house = self._houses[scan] = House(scan, self._folder / f"{scan}_connectivity.json")
        return house
