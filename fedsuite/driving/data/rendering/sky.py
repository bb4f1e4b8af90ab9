"""Sky above the road: gradient, clouds, and a skyline of hills or houses, as one wide picture that frames are cut from."""

import numpy as np

from fedsuite.driving.data.rendering.light import Light, to_channels
from fedsuite.driving.data.rendering.looks import RoadLook
from fedsuite.driving.data.rendering.texture import value_noise
from fedsuite.randomness import rng_for

TURNS = 4  # the picture is this many frames wide; a frame takes a random stretch of it


def panorama(look: RoadLook, light: Light, size_px: int, rows: int, channels: int) -> np.ndarray:
    """float32 [C, rows, TURNS * size]; the last row touches the ground."""
    width = TURNS * size_px
    if rows == 0:
        return np.zeros((channels, 0, width), np.float32)
    rng = rng_for(look.pattern, "roads sky")
    drop = np.linspace(0, 1, rows)[:, None] ** 1.5
    top, low = (np.array(c)[:, None, None] for c in (light.sky_top, light.sky_low))
    tone = np.broadcast_to(top + (low - top) * drop, (3, rows, width)).copy()
    clouds = value_noise(rng, (size_px, width), (4, 10), 4)[:rows]
    white = 0.5 * (light.sky_low[0] + light.sky_low[1])
    cover = np.clip(0.35 + 0.5 * clouds, 0, 1) * look.cloud * (1 - 0.5 * drop)
    tone += cover * (0.9 * white + 12 * clouds - tone)
    _add_skyline(tone, look, light, size_px, rng)
    return np.ascontiguousarray(to_channels(tone, channels), np.float32)


def _add_skyline(
    tone: np.ndarray, look: RoadLook, light: Light, size_px: int, rng: np.random.Generator
) -> None:
    """Draw houses or wooded hills over the lowest rows of tone [3, rows, width]."""
    rows, width = tone.shape[1:]
    if look.skyline == 0:
        return
    height = look.skyline * look.camera.focal_px(size_px)
    if look.is_town:
        edges = np.sort(rng.choice(width, max(2, width * 12 // size_px // 2), replace=False))
        house = np.searchsorted(edges, np.arange(width))
        levels = rng.uniform(0.25, 1.0, len(edges) + 1)[house]
        shades = rng.uniform(0.55, 1.25, len(edges) + 1)[house]
        base = np.array([120.0, 112.0, 104.0])
        unit = max(2, size_px // 50)  # of the grid of windows
        down = (np.arange(rows) % (2 * unit) < unit)[:, None]
        windows = (down & (np.arange(width) % (3 * unit) < unit)).astype(np.float64)
    else:
        windows = np.zeros((rows, width))
        levels = 0.55 + 0.22 * value_noise(rng, (16, width), (4, 14), 4)[0]
        shades = 1 + 0.1 * value_noise(rng, (size_px, width), (size_px // 4, width // 4), 2)[:rows]
        base = np.array(look.verge) * 0.55
    above = (rows - 1 - np.arange(rows))[:, None] < levels * height
    sun = np.array(light.sun) * base
    haze = np.exp(-60 / light.visibility_m)
    far = haze * sun + (1 - haze) * np.array(light.sky_low)
    body = far[:, None, None] * shades
    lit = np.array([170.0, 150.0, 95.0]) if light.headlight else 0.55 * far
    body = body + windows * 0.6 * (lit[:, None, None] - body)
    np.copyto(tone, body, where=above)
