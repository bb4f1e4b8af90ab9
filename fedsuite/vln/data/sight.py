"""Where a neighbour stands in a camera's eye, with the roundings of the Matterport3D Simulator (Anderson et al. 2018).

The original computes in single precision: positions, displacements, lengths, unit vectors and the camera direction are
rounded to float32, angles of elevation are float64. The same roundings are made here, in the same order: a few panoramas
are millimetres apart, where float64 positions would move a relative heading by up to 7e-4 rad.

Heading 0 = +y, clockwise positive; elevation 0 = horizon, up positive; radians; positions in metres.
"""

import math
from collections.abc import Sequence

import numpy as np


def displacement(position_m: np.ndarray, origin_m: np.ndarray) -> np.ndarray:
    """[3, K] float32: from origin_m [3] or [K, 3] to position_m [K, 3]."""
    delta: np.ndarray = (position_m.astype(np.float32) - origin_m.astype(np.float32)).T
    return delta


def horizontal(delta_m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of displacements [3, K]: horizontal length [K] and direction [2, K], NaN right above and below; float32."""
    length_m = np.sqrt(delta_m[0] * delta_m[0] + delta_m[1] * delta_m[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        return length_m, delta_m[:2] * (np.float32(1) / length_m)


def elevations_rad(delta_m: np.ndarray, horizontal_m: np.ndarray) -> list[float]:
    """K angles above the horizon; by the C library's arc tangent, as the original."""
    return list(map(math.atan2, delta_m[2].tolist(), horizontal_m.tolist()))


def in_the_eye(
    delta_m: np.ndarray, unit: np.ndarray, headings_rad: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Relative heading and the cosine that decides on the field of view, [H, K] float64 of float32 values.

    delta_m, unit [2, K] float32: horizontal displacements and their directions; headings_rad: of H cameras.
    """
    camera = np.array([_direction(h) for h in headings_rad], np.float32)[:, :, None]  # [H, 2, 1]
    along, across = unit * camera, delta_m[::-1] * camera
    ahead = (delta_m * camera).sum(1, dtype=np.float32).astype(np.float64)
    right = (across[:, 1] - across[:, 0]).astype(np.float64)
    # Correctly rounded float32 arc tangent: equal on all machines, unlike the C library's.
    heading = np.arctan2(right, ahead).astype(np.float32)
    return heading.astype(np.float64), (along[:, 0] + along[:, 1]).astype(np.float64)


def _direction(heading_rad: float) -> tuple[float, float]:
    """Horizontal unit vector of the camera."""
    angle = math.pi / 2 - heading_rad if math.isfinite(heading_rad) else math.nan
    return math.cos(angle), math.sin(angle)
