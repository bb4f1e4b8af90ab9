"""From scene tones to stored frames: tables by look, exposure jitter, sensor noise and drops, rounding to uint8.

Frames are drawn look by look, so that one look's tables are at hand at a time; every frame's chance comes from
numbers drawn for all frames beforehand, so the order does not matter.
"""

from functools import lru_cache

import numpy as np

from fedsuite.driving.data.rendering.corridor import CorridorTables, corridor_tables, draw_corridor
from fedsuite.driving.data.rendering.light import light_of
from fedsuite.driving.data.rendering.looks import Look, RoadLook
from fedsuite.driving.data.rendering.road import RoadTables, draw_road, road_tables
from fedsuite.driving.data.rendering.texture import sensor_noise, streaks

MARGIN_PX = 64  # the noise picture is this much larger than a frame
NUM_LUCK = 6  # random numbers a frame: position, compass, noise row, noise column, gain, brightness
TABLES_KEPT = 8  # about 3 MB each at 200 x 200


def draw_frames(
    look: Look, poses: np.ndarray, luck: np.ndarray, channels: int, out: np.ndarray, at: np.ndarray
) -> None:
    """Draw poses [m, 4] with luck [m, NUM_LUCK] in [0, 1) in one look into rows `at` [m] of out, uint8 [n, C, H, W]."""
    size = out.shape[-1]
    tables, overlay = _tables(look, size, channels)
    canvas = np.empty((channels, size, size), np.float32)
    for row, pose, chance in zip(at, poses, luck, strict=True):
        if isinstance(tables, RoadTables):
            draw_road(tables, pose, chance, canvas)
        else:
            draw_corridor(tables, pose, chance, canvas)
        _expose(look, overlay, chance, canvas)
        out[row] = canvas


def _expose(look: Look, overlay: np.ndarray, luck: np.ndarray, canvas: np.ndarray) -> None:
    """Contrast, brightness, their jitter, the overlay's crop, and the limits of uint8, in place."""
    sensor, size = look.sensor, canvas.shape[-1]
    down, right = (luck[2:4] * MARGIN_PX).astype(int)
    gain = sensor.contrast * (1 + sensor.jitter * (2 * luck[4] - 1))
    lift = 128 * (1 - sensor.contrast) + sensor.brightness
    lift += 60 * sensor.jitter * (2 * luck[5] - 1) + 0.5  # 0.5: conversion to uint8 cuts off
    canvas *= np.float32(gain)
    canvas += np.float32(lift)
    canvas += overlay[down : down + size, right : right + size]
    np.clip(canvas, 0, 255, out=canvas)


@lru_cache(maxsize=TABLES_KEPT)
def _tables(
    look: Look, size_px: int, channels: int
) -> tuple[RoadTables | CorridorTables, np.ndarray]:
    """The scene's, and sensor noise with drops, float32 [H + margin, W + margin]."""
    overlay = look.sensor.noise * sensor_noise(size_px + MARGIN_PX)
    if not isinstance(look, RoadLook):
        return corridor_tables(look, size_px, channels), overlay
    light = light_of(look.weather, look.time)
    overlay = overlay * np.float32(light.noise)
    if light.drops > 0:
        side = size_px + MARGIN_PX
        length = max(1, round(light.drop_length * size_px))
        count = light.drops * side**2 // 100**2 // (2 if length > 2 else 1)
        bright = 30.0 if length > 2 else 60.0
        drops = streaks(look.pattern, side, count, length, light.drop_slope)
        overlay = overlay + np.float32(bright * (0.4 + 0.6 * light.sun[1])) * drops
    return road_tables(look, size_px, channels), overlay
