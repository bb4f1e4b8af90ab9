"""What is seen from where: the geometry of the Matterport3D Simulator without its renderer.

Source: Matterport3D Simulator (Anderson et al. 2018), batch API. The world is right-handed with z up, in metres. Heading
0 = +y, clockwise positive; elevation 0 = horizon, up positive; radians. A discretised camera has V = 36 views: view =
column + 12 * row, column k looks at heading 30 deg * k, row 0 / 1 / 2 looks 30 deg down / level / up.

The roundings are the original's, see fedsuite.vln.data.sight.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedsuite.vln.data.sight import displacement, elevations_rad, horizontal, in_the_eye

TWO_PI_RAD = 2 * math.pi
HEADINGS = 12
HEADING_STEP_RAD = TWO_PI_RAD / HEADINGS
ELEVATION_STEP_RAD = math.pi / 6
NOTHING_IN_SIGHT = 2.0  # no cosine reaches it

# Heading and elevation (rad) seen from the camera, distance (m).
Relative = tuple[float, float, float]


class Place(NamedTuple):
    """One panorama: its id, its position in the house's file, where its camera stood (metres)."""

    viewpoint_id: str
    ix: int
    x: float
    y: float
    z: float


Candidate = tuple[Place, Relative]
Candidates = tuple[Candidate, ...]  # in the simulator's order, without the current viewpoint


@dataclass(frozen=True)
class Surroundings:
    """The K neighbours of one panorama in file order, as displacements from it.

    delta_m [2, K] float32: x and y; unit [2, K] float32: the same with length 1 (NaN for those
    right above or below); elevation_rad: K angles above the horizon; distance_m: K lengths.
    """

    places: tuple[Place, ...]
    delta_m: np.ndarray
    unit: np.ndarray
    elevation_rad: tuple[float, ...]
    distance_m: tuple[float, ...]


def surroundings(here: Place, places: tuple[Place, ...]) -> Surroundings:
    """Precompute what does not depend on the camera."""
    position = np.array([p[2:] for p in places], np.float32).reshape(-1, 3)
    delta = displacement(position, np.array(here[2:], np.float32))
    across, unit = horizontal(delta)
    return Surroundings(
        places=places,
        delta_m=delta[:2],
        unit=unit,
        elevation_rad=tuple(elevations_rad(delta, across)),
        distance_m=tuple(np.sqrt((delta * delta).sum(0, dtype=np.float32)).tolist()),
    )


def cos_half_field_of_view(vertical_fov_rad: float, width: int, height: int) -> float:
    """Cosine of half the horizontal field of view, taken as vertical * width / height."""
    horizontal = vertical_fov_rad * width / height if height else math.inf
    return math.cos(horizontal / 2) if math.isfinite(horizontal) else NOTHING_IN_SIGHT


def seen(
    around: Surroundings,
    headings_rad: Sequence[float],
    elevation_rad: Sequence[float],
    cos_half_fov: float | None,
) -> list[Candidates]:
    """Candidates of every camera direction (heading outer, elevation inner), image centre first.

    A neighbour is kept if it is inside the horizontal field of view (None: always); its elevation
    plays no part. Ties, and everything if an angle is not a number, stay in file order.
    """
    if not around.places:
        return [()] * (len(headings_rad) * len(elevation_rad))
    relative, cosine = in_the_eye(around.delta_m, around.unit, headings_rad)
    heading = relative.tolist()
    if cos_half_fov is None:
        kept = [list(range(len(around.places)))] * len(heading)
    else:
        kept = [np.flatnonzero(row).tolist() for row in cosine >= cos_half_fov]
    return [
        _ordered(around, row, keep, elevation)
        for row, keep in zip(heading, kept, strict=True)
        for elevation in elevation_rad
    ]


def _ordered(
    around: Surroundings,
    heading_rad: Sequence[float],
    keep: Sequence[int],
    camera_elevation_rad: float,
) -> Candidates:
    candidates = []
    for j in keep:
        elevation = around.elevation_rad[j] - camera_elevation_rad
        candidates.append((around.places[j], (heading_rad[j], elevation, around.distance_m[j])))
    return tuple(sorted(candidates, key=lambda c: math.sqrt(c[1][0] * c[1][0] + c[1][1] * c[1][1])))


def wrapped(heading_rad: float) -> float:
    """Heading in [0, 2 pi]; 2 pi itself for the tiniest negative angles, NaN for infinite ones."""
    if not math.isfinite(heading_rad):
        return math.nan
    heading = math.fmod(heading_rad, TWO_PI_RAD)
    return heading + TWO_PI_RAD if heading < 0 else heading


def snapped(heading_rad: float, elevation_rad: float) -> tuple[float, float, int]:
    """Heading, elevation, view of the discretised camera; halfway between headings is the greater, of elevations level."""
    steps = wrapped(heading_rad) / HEADING_STEP_RAD
    column = 0 if math.isnan(steps) else int(steps)
    column = (column + (steps - column >= 0.5)) % HEADINGS
    half = ELEVATION_STEP_RAD / 2
    row = 0 if elevation_rad < -half else 2 if elevation_rad > half else 1
    return column * HEADING_STEP_RAD, (row - 1) * ELEVATION_STEP_RAD, column + HEADINGS * row
