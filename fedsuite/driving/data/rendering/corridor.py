"""Corridor scene: panelled walls with doors, tiled floor, ceiling lamps, drawn by one table look-up per pixel.

Per column with direction tan(phi), the wall at x_c(Z) +- w is hit at the smallest positive root of
    -kappa / 2 Z^2 + (psi - tan phi) Z + o +- w = 0                      (kappa' = 0: a corridor's curvature is constant)
A pixel shows the wall where that distance is below the floor's (or the ceiling's) distance in its row. Tones come
from one atlas: wall tones by height and position along the wall, floor and ceiling tones by lateral position and
distance.
"""

from dataclasses import dataclass

import numpy as np

from fedsuite.driving.data.rendering.atlas import (
    BINS_ACROSS,
    BINS_ALONG,
    BINS_UP,
    FLOOR_END,
    corridor_atlas,
    period_m,
)
from fedsuite.driving.data.rendering.camera import centre_line_m
from fedsuite.driving.data.rendering.looks import CorridorLook

END_M = 40.0  # nothing is drawn farther than this


@dataclass(frozen=True)
class CorridorTables:
    """All that frames of one look share; float32 unless said."""

    tan_phi: np.ndarray  # float64 [W]
    plane_m: np.ndarray  # [H, 1], distance of floor or ceiling in each row, at most END_M
    x_bins: np.ndarray  # [H, W], lateral position on floor or ceiling
    plane_start: np.ndarray  # intp [H, 1], of the row's plane in the atlas: floor or ceiling
    plane_shade: np.ndarray  # [H, 1]
    up_bins: np.ndarray  # float64 [H, 1], rise of the row's ray per metre, in wall bins
    atlas: np.ndarray  # [C, bins]
    look: CorridorLook


def corridor_tables(look: CorridorLook, size_px: int, channels: int) -> CorridorTables:
    camera = look.camera
    focal, below = camera.focal_px(size_px), camera.rows_below_horizon(size_px)
    below = np.where(np.abs(below) < 1e-6, 1e-6, below)
    rise = np.where(below > 0, camera.height_m, look.height_m - camera.height_m)
    plane = np.minimum(focal * rise / np.abs(below), END_M)
    bins_per_m = BINS_ACROSS / (2 * look.half_width_m)
    x = plane[:, None] * camera.tan_columns(size_px)
    return CorridorTables(
        tan_phi=camera.tan_columns(size_px),
        plane_m=plane.astype(np.float32)[:, None],
        x_bins=(x * bins_per_m + BINS_ACROSS / 2).astype(np.float32),
        plane_start=np.where(below > 0, 0, FLOOR_END).astype(np.intp)[:, None],
        plane_shade=_shade(look, plane).astype(np.float32)[:, None],
        up_bins=(-below / focal * BINS_UP / look.height_m)[:, None],
        atlas=corridor_atlas(look, channels),
        look=look,
    )


def wall_distance_m(
    tan_phi: np.ndarray, pose: np.ndarray, half_width_m: float
) -> tuple[np.ndarray, np.ndarray]:
    """Distance, m, of the nearer wall per column [W], at most END_M, and whether it is the right wall, bool [W]."""
    o, psi, kappa = (float(v) for v in pose[:3])
    slope = psi - tan_phi
    roots = [_nearest_root(-kappa / 2, slope, o + side * half_width_m) for side in (-1, 1)]
    return np.minimum(np.minimum(*roots), END_M), roots[1] < roots[0]


def _nearest_root(a: float, b: np.ndarray, c: float) -> np.ndarray:
    """Smallest positive root of a z^2 + b z + c = 0 per element of b; infinity where there is none.

    With q = -(b + sign(b) sqrt(b^2 - 4 a c)) / 2 the roots are q / a and c / q, free of cancellation, also where a = 0.
    """
    inside = b * b - 4 * a * c
    q = -(b + np.copysign(np.sqrt(np.maximum(inside, 0)), b)) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        both = np.stack([q / a if a != 0 else np.full_like(b, np.inf), c / q])
    both[~(both > 0)] = np.inf
    return np.where(inside < 0, np.inf, both.min(axis=0))


def draw_corridor(
    tables: CorridorTables, pose: np.ndarray, luck: np.ndarray, canvas: np.ndarray
) -> None:
    """Draw one pose [4] into canvas, float32 [C, H, W]. luck[0] in [0, 1): where along the corridor."""
    look = tables.look
    if abs(float(pose[0])) >= look.half_width_m or pose[3] != 0:
        raise ValueError(
            f"pose of a corridor: expected |offset| < {look.half_width_m} m and no change of curvature, "
            f"got {pose[0]} and {pose[3]}"
        )
    period = period_m(look)
    start = float(luck[0]) * period
    wall, is_right = wall_distance_m(tables.tan_phi, pose, look.half_width_m)
    index = _plane_index(tables, pose, start, period)
    stagger = np.where(is_right, look.stagger * look.door_every * look.panel_m, 0)
    along = ((wall + start + stagger) / period * BINS_ALONG).astype(np.intp) % BINS_ALONG
    height = (wall * tables.up_bins + look.camera.height_m * BINS_UP / look.height_m).astype(
        np.float32
    )
    np.clip(height, 0, BINS_UP - 1, out=height)
    wall_index = height.astype(np.intp)
    wall_index *= BINS_ALONG
    wall_index += along + 2 * FLOOR_END
    is_wall = wall.astype(np.float32) < tables.plane_m
    np.copyto(index, wall_index, where=is_wall)
    side = 1 + look.side_light * np.where(is_right, 1, -1)
    wall_shade = (_shade(look, wall) * side).astype(np.float32)
    shade = np.where(is_wall, wall_shade, tables.plane_shade)
    for channel, plane in enumerate(canvas):
        np.multiply(tables.atlas[channel].take(index, mode="clip"), shade, out=plane)


def _plane_index(
    tables: CorridorTables, pose: np.ndarray, start_m: float, period: float
) -> np.ndarray:
    """Atlas index of every pixel, were it floor or ceiling, intp [H, W]."""
    bins_per_m = BINS_ACROSS / (2 * tables.look.half_width_m)
    distance = tables.plane_m[:, 0].astype(np.float64)
    shift = centre_line_m(pose[None], distance)[0] * bins_per_m
    across = tables.x_bins - shift.astype(np.float32)[:, None]
    np.clip(across, 0, BINS_ACROSS - 1, out=across)
    index = across.astype(np.intp)
    row = ((distance + start_m) / period * BINS_ALONG).astype(np.intp) % BINS_ALONG
    index += row[:, None] * BINS_ACROSS + tables.plane_start
    return index


def _shade(look: CorridorLook, distance_m: np.ndarray) -> np.ndarray:
    """Light falls off with distance toward 45 %."""
    return np.asarray(0.45 + 0.55 * np.exp(-distance_m / look.falloff_m))
