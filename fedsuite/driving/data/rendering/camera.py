"""Pinhole camera over a flat floor: which ground point each pixel sees (tables, computed once per look).

Source: Do et al. 2024 (CDL) use frames of real and simulated front cameras; the geometry here is the usual
flat-ground one. Frames are square, H = W = size_px. Row r and column c have their centres at r + 1/2, c + 1/2.
    f = (W / 2) / tan(fov / 2)                     focal length, pixels
    horizon = H / 2 - f tan(pitch)                 row where the ground vanishes
    Z(r) = f h / (r + 1/2 - horizon)               forward distance of ground row r, m (h: camera height, m)
    X(r, c) = Z(r) tan(phi(c)),  tan(phi) = (c + 1/2 - W / 2) / f      right positive, m
The centre line of a pose lies at x_c(Z) = o + psi Z - kappa Z^2 / 2 - kappa' Z^3 / 6.
"""

import math
from dataclasses import dataclass

import numpy as np

GROUND_END_M = 150.0  # ground farther than this is drawn as sky: it is less than a row high


@dataclass(frozen=True)
class Camera:
    """height_m over the ground; pitch_rad, down positive; fov_rad, horizontal."""

    height_m: float
    pitch_rad: float
    fov_rad: float

    def focal_px(self, size_px: int) -> float:
        """Focal length in pixels of a frame size_px wide."""
        return size_px / 2 / math.tan(self.fov_rad / 2)

    def tan_columns(self, size_px: int) -> np.ndarray:
        """tan(phi) of every column, float64 [W], right positive."""
        return (np.arange(size_px) + 0.5 - size_px / 2) / self.focal_px(size_px)

    def rows_below_horizon(self, size_px: int) -> np.ndarray:
        """Row centre minus horizon, float64 [H], negative above it."""
        horizon = size_px / 2 - self.focal_px(size_px) * math.tan(self.pitch_rad)
        return np.arange(size_px) + 0.5 - horizon

    def first_ground_row(self, size_px: int) -> int:
        """First row whose ground distance is at most GROUND_END_M."""
        limit = self.focal_px(size_px) * self.height_m / GROUND_END_M
        return int(np.searchsorted(self.rows_below_horizon(size_px), limit))


def centre_line_m(poses: np.ndarray, z_m: np.ndarray) -> np.ndarray:
    """x_c [n, Z], m, right positive, of poses [n, 4] = (o m, psi rad, kappa 1/m, kappa' 1/m^2), all left positive."""
    powers = np.stack([np.ones_like(z_m), z_m, -(z_m**2) / 2, -(z_m**3) / 6])
    return poses.astype(np.float64) @ powers
