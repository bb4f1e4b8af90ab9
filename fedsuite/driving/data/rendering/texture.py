"""Tileable value noise, blobs and streaks: the raw material of surfaces, clouds, shadows and rain.

All of them are pure functions of their arguments (the stream of fedsuite.randomness named by `pattern`), float32,
zero mean where they modulate. The large ones are kept, read-only, because every look is mixed from the same few.
"""

from functools import lru_cache

import numpy as np

from fedsuite.randomness import rng_for


def value_noise(
    rng: np.random.Generator, shape: tuple[int, int], cells: tuple[int, int], octaves: int
) -> np.ndarray:
    """Sum of smoothed random grids, each twice as fine and 0.6 as strong; wraps; std 1, mean 0. [rows, columns]"""
    total = np.zeros(shape, np.float32)
    strength = 1.0
    for octave in range(octaves):
        grid = (min(cells[0] << octave, shape[0]), min(cells[1] << octave, shape[1]))
        coarse = rng.standard_normal(grid, dtype=np.float32)
        total += strength * _stretch(_stretch(coarse, shape[0], 0), shape[1], 1)
        strength *= 0.6
    total -= total.mean()
    total /= total.std()
    return total


def _stretch(grid: np.ndarray, length: int, axis: int) -> np.ndarray:
    """Cosine interpolation of a wrapping grid to `length` samples along an axis."""
    count = grid.shape[axis]
    at = np.arange(length) * count / length
    low = at.astype(np.intp)
    part = ((1 - np.cos(np.pi * (at - low))) / 2).astype(np.float32)
    part = part[:, None] if axis == 0 else part[None, :]
    return grid.take(low, axis) * (1 - part) + grid.take((low + 1) % count, axis) * part


@lru_cache(maxsize=32)
def surface_noise(pattern: int, rows: int, columns: int) -> np.ndarray:
    """Fine and coarse grain of a surface, float32 [rows, columns], wraps, std 1."""
    rng = rng_for(pattern, "roads surface")
    noise = value_noise(rng, (rows, columns), (rows // 16, columns // 32), 3)
    return _frozen(noise)


@lru_cache(maxsize=32)
def blob_mask(pattern: int, rows: int, columns: int, share: float) -> np.ndarray:
    """Soft-edged blobs that cover about `share` of the surface, float32 [rows, columns] in [0, 1], wraps."""
    noise = value_noise(rng_for(pattern, "roads blobs"), (rows, columns), (8, 6), 3)
    level = float(np.quantile(noise, 1 - share))
    return _frozen(np.clip((noise - level) / 0.25 + 0.5, 0, 1).astype(np.float32))


@lru_cache(maxsize=8)
def sensor_noise(side_px: int) -> np.ndarray:
    """Standard normal noise, float32 [side, side]; frames take random crops of it."""
    noise = rng_for(0, "roads sensor noise").standard_normal((side_px, side_px), dtype=np.float32)
    return _frozen(noise)


def streaks(pattern: int, side_px: int, count: int, length_px: int, slope: float) -> np.ndarray:
    """Rain streaks or, with length 1-2, snow flakes: float32 [side, side] in [0, 1]. slope: columns per row."""
    rng = rng_for(pattern, "roads streaks")
    mask = np.zeros((side_px, side_px), np.float32)
    row, column = rng.integers(0, side_px, (2, count))
    strength = rng.uniform(0.3, 1.0, count).astype(np.float32)
    for step in range(length_px):
        at = (row + step) % side_px, (column + round(slope * step)) % side_px
        mask[at] = np.maximum(mask[at], strength)
    return mask


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
