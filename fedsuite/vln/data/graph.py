"""Navigation graph of one house: connectivity, shortest paths, navigable candidates.

Source: R2R (Anderson et al. 2018) connectivity files; candidates as in EnvDrop (Tan et al. 2019). Nodes are the included
panoramas of a scan, edges its unobstructed pairs, weights the Euclidean distance of the camera positions. Arrays
cover all P panoramas of the file, in file order; excluded and isolated ones have no edges.

Conventions: heading 0 = +y, clockwise positive; elevation 0 = horizon, up positive; radians. View v of a panorama looks
at heading 30 deg * (v % 12) and elevation 30 deg * (v // 12 - 1), v = 0..35.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from fedsuite.errors import InputError
from fedsuite.storage.files import read_json
from fedsuite.vln.data.sight import displacement, elevations_rad, horizontal, in_the_eye

NUM_VIEWS = 36
HEADINGS = 12
VIEW_STEP_RAD = math.radians(30)
VERTICAL_FIELD_OF_VIEW_RAD = math.radians(60)
CAMERA_PIXELS = (640, 480)
# Horizontally the field of view is the vertical one times the aspect ratio: 80 degrees.
COS_HALF_FIELD_OF_VIEW = math.cos(
    VERTICAL_FIELD_OF_VIEW_RAD * CAMERA_PIXELS[0] / CAMERA_PIXELS[1] / 2
)
_CAMERAS_RAD = VIEW_STEP_RAD * np.arange(HEADINGS)
_LEVELS_RAD = VIEW_STEP_RAD * np.arange(-1, 2)


@dataclass(frozen=True)
class Candidates:
    """Neighbours of every panorama in action order, padded to K.

    viewpoint [P, K] int64 (-1 = padding); view [P, K] int64, the view that looks closest at the neighbour;
    heading_rad, elevation_rad [P, K] float64, absolute direction of the neighbour.
    """

    viewpoint: np.ndarray
    view: np.ndarray
    heading_rad: np.ndarray
    elevation_rad: np.ndarray

    @property
    def count(self) -> np.ndarray:
        """Number of candidates per panorama [P]."""
        return (self.viewpoint >= 0).sum(1)


@dataclass(frozen=True)
class NavGraph:
    """One scan. viewpoint_ids: P names; position_m [P, 3]; included [P] bool; edge [P, P] bool, symmetric or not."""

    scan: str
    viewpoint_ids: tuple[str, ...]
    position_m: np.ndarray
    included: np.ndarray
    edge: np.ndarray

    @cached_property
    def index(self) -> dict[str, int]:
        """Viewpoint id -> row."""
        return {v: i for i, v in enumerate(self.viewpoint_ids)}

    @cached_property
    def _paths(self) -> tuple[np.ndarray, np.ndarray]:
        from scipy.sparse.csgraph import (
            shortest_path,
        )  # slow to load, and simulators walk without it

        gap = self.position_m[:, None] - self.position_m[None]
        # Two cameras at one place would read as "no edge" in a dense matrix; a micrometre keeps them joined.
        length = np.where(self.edge, np.maximum(np.linalg.norm(gap, axis=-1), 1e-6), np.inf)
        return shortest_path(length, method="D", return_predecessors=True)

    @cached_property
    def distance_m(self) -> np.ndarray:
        """Shortest-path length [P, P] float64; inf where there is no path, 0 on the diagonal."""
        return self._paths[0]

    @cached_property
    def next_hop(self) -> np.ndarray:
        """next_hop[i, g]: the node after i on the shortest path from i to g [P, P] int64.

        g itself at i = g; -1 where g cannot be reached. The path is the one found backwards from g, so that
        following next_hop from any start is one consistent tree per goal.
        """
        symmetric = bool((self.edge == self.edge.T).all())
        reverse = self if symmetric else replace(self, edge=self.edge.T)
        hop = reverse._paths[1].T.astype(np.int64)
        hop[hop < 0] = -1
        np.fill_diagonal(hop, np.arange(len(hop)))
        return hop

    def no_way_back(self) -> tuple[str, str] | None:
        """Two viewpoints of which the second is reached from the first but not the first from the second; None: no such."""
        if (self.edge == self.edge.T).all():
            return None
        reached = np.isfinite(self.distance_m)
        pairs = np.argwhere(reached & ~reached.T)
        if not len(pairs):
            return None
        return self.viewpoint_ids[pairs[0, 0]], self.viewpoint_ids[pairs[0, 1]]

    def shortest_path(self, start: int, goal: int) -> list[int]:
        """Nodes from start to goal, both included; ValueError if there is no path."""
        if not np.isfinite(self.distance_m[start, goal]):
            raise ValueError(f"{self.scan}: no path from panorama {start} to {goal}")
        path = [start]
        while path[-1] != goal:
            path.append(int(self.next_hop[path[-1], goal]))
        return path

    @cached_property
    def candidates(self) -> Candidates:
        """The 36-view scan of all edges at once, with the simulator's roundings (`candidates_by_simulator`: its slow twin).

        A neighbour right above or below, which the simulator never shows, is taken to stand at heading 0.
        """
        source, target = np.nonzero(self.edge)
        delta = displacement(self.position_m[target], self.position_m[source])
        across, unit = horizontal(delta)
        relative, cosine = in_the_eye(delta[:2], unit, _CAMERAS_RAD.tolist())
        seen = ~(cosine < COS_HALF_FIELD_OF_VIEW)  # [12, E]; elevation plays no part
        above = np.array(elevations_rad(delta, across)) - _LEVELS_RAD[:, None]  # [3, E]
        angle = np.sqrt(relative * relative + (above * above)[:, None])  # [3, 12, E]
        view = np.where(seen, angle, np.inf).reshape(NUM_VIEWS, -1).argmin(0)
        level, column = np.divmod(view, HEADINGS)
        edge = np.arange(len(view))
        heading = (_CAMERAS_RAD[column] + relative[column, edge]) % (2 * math.pi)
        elevation = _LEVELS_RAD[level] + above[level, edge]
        # Views are scanned 0..35: all neighbours are found in the lowest row, the nearest to its view's centre first.
        first = seen.argmax(0)
        order = np.lexsort((angle[0, first, edge], first, source))
        columns = (source, target, view, heading, elevation)
        return padded(len(self.viewpoint_ids), *(c[order] for c in columns))


def padded(panoramas: int, source: np.ndarray, *columns: np.ndarray) -> Candidates:
    """Spread per-edge columns (sorted by source) over [P, K]; the first column is padded with -1, the rest with 0."""
    count = np.bincount(source, minlength=panoramas)
    slot = np.arange(len(source)) - np.repeat(np.cumsum(count) - count, count)
    shape = (panoramas, max(int(count.max(initial=0)), 1))
    tables = [np.full(shape, -(number == 0), c.dtype) for number, c in enumerate(columns)]
    for table, column in zip(tables, columns, strict=True):
        table[source, slot] = column
    return Candidates(*tables)


def load_graph(connectivity_dir: Path, scan: str) -> NavGraph:
    """Read `<scan>_connectivity.json`; InputError names it, and the viewpoint, if it is missing or damaged."""
    file = connectivity_dir / f"{scan}_connectivity.json"
    kind, cure = "a Matterport3D connectivity file", "put the official file of the scan there"
    rows, where, ids = read_json(file, kind, cure), "a list of panoramas", list[str]()
    poses, flags = [], []
    try:
        for ix, row in enumerate(rows):
            where = f"panorama {ix}, {row['image_id']!r}"
            if not isinstance(row["image_id"], str) or row["image_id"] in ids:
                raise ValueError("image_id must be a text that no other panorama has")
            ids.append(row["image_id"])
            poses.append(np.array(row["pose"], np.float64))
            if poses[ix].shape != (16,) or not np.isfinite(poses[ix]).all():
                raise ValueError("pose must be 16 finite numbers")
            flags.append(_flags([row["included"], *row["unobstructed"]], 1 + len(rows)))
        included, edge = np.stack(flags)[:, 0], np.stack(flags)[:, 1:]
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        problem = f"{where}: {type(error).__name__}: {error}"
        raise InputError(f"{file}: not {kind} ({problem}); {cure}") from None
    edge = edge & included[:, None] & included
    np.fill_diagonal(edge, False)
    return NavGraph(scan, tuple(ids), np.stack(poses)[:, [3, 7, 11]], included, edge)


def _flags(values: list[bool], count: int) -> np.ndarray:
    """The values [count] as bool; texts and numbers other than 0 and 1 are none."""
    flags = np.array(values)
    if len(flags) != count:
        raise ValueError(f"{len(flags) - 1} unobstructed flags, expected {count - 1}")
    if flags.dtype.kind not in "bi" or (flags != flags.astype(bool)).any():
        raise ValueError("included and unobstructed must be true or false")
    return flags.astype(bool)


def missing_scans(connectivity_dir: Path, scans: Sequence[str]) -> list[str]:
    """Scans without a connectivity file."""
    return [s for s in scans if not (connectivity_dir / f"{s}_connectivity.json").is_file()]
