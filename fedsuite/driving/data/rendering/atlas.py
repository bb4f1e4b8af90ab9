"""Tones of a corridor's floor, ceiling and walls in one array, so that a frame needs one look-up per pixel.

Layout along the last axis: floor [BINS_ALONG, BINS_ACROSS], ceiling (the same), walls [BINS_UP, BINS_ALONG].
Everything repeats along the corridor with one period, a whole number of doors, tiles and lamps.
"""

import numpy as np

from fedsuite.driving.data.rendering.light import to_channels
from fedsuite.driving.data.rendering.looks import CorridorLook
from fedsuite.driving.data.rendering.texture import surface_noise

BINS_ALONG, BINS_ACROSS, BINS_UP = 512, 128, 128
FLOOR_END = BINS_ALONG * BINS_ACROSS
DOORS_PER_PERIOD = 2
SKIRTING_M, DOOR_HEIGHT_M, SEAM_M = 0.12, 2.05, 0.035


def period_m(look: CorridorLook) -> float:
    """Length after which walls, floor and ceiling repeat, m."""
    return DOORS_PER_PERIOD * look.door_every * look.panel_m


def corridor_atlas(look: CorridorLook, channels: int) -> np.ndarray:
    """float32 [C, 2 * FLOOR_END + BINS_UP * BINS_ALONG]."""
    parts = [_floor(look), _ceiling(look), _wall(look)]
    rgb = np.concatenate([part.reshape(3, -1) for part in parts], axis=1)
    return np.ascontiguousarray(to_channels(rgb, channels), np.float32)


def _along_m(look: CorridorLook) -> np.ndarray:
    return (np.arange(BINS_ALONG) + 0.5) / BINS_ALONG * period_m(look)


def _across_m(look: CorridorLook) -> np.ndarray:
    """Lateral position, m, symmetric about 0."""
    return ((np.arange(BINS_ACROSS) + 0.5) / BINS_ACROSS - 0.5) * 2 * look.half_width_m


def _near_multiple(position_m: np.ndarray, spacing_m: float, width_m: float) -> np.ndarray:
    """Where a position is within width / 2 of a multiple of the spacing."""
    away = np.abs((position_m + spacing_m / 2) % spacing_m - spacing_m / 2)
    return np.asarray(away < width_m / 2)


def _fitted(spacing_m: float, length_m: float) -> float:
    """The spacing nearest to the wanted one that divides the length."""
    return length_m / max(1, round(length_m / spacing_m))


def _floor(look: CorridorLook) -> np.ndarray:
    """RGB [3, along, across]: tiles in two tones with seams, a darker border, lamps mirrored in the polish."""
    z, x = _along_m(look)[:, None], _across_m(look)[None, :]
    tile = _fitted(look.tile_m, period_m(look))
    odd = np.floor(z / tile) + np.floor(np.abs(x) / tile)
    tone = 1 + look.tile_contrast * (odd % 2 - 0.5)
    seam = _near_multiple(z, tile, SEAM_M) | _near_multiple(np.abs(x), tile, SEAM_M)
    tone = tone * np.where(seam, 0.72, 1.0)
    tone = tone * np.where(look.half_width_m - np.abs(x) < 0.1, 0.7, 1.0)
    tone = tone * (1 + 0.25 * look.lamp * _lamps(look, 1.8))
    tone = tone * (1 + look.texture * surface_noise(look.pattern % 8, BINS_ALONG, BINS_ACROSS))
    return np.array(look.floor)[:, None, None] * tone


def _ceiling(look: CorridorLook) -> np.ndarray:
    """RGB [3, along, across]: panels with seams and bright lamps."""
    z, x = _along_m(look)[:, None], _across_m(look)[None, :]
    seam = _near_multiple(z, _fitted(0.6, period_m(look)), SEAM_M)
    tone = np.where(seam | (np.abs(x) > look.half_width_m - 0.05), 0.8, 1.0)
    base = np.array(look.ceiling)[:, None, None] * tone
    lamps = look.lamp * _lamps(look, 0.6)
    return base + lamps * (np.array([255.0, 250.0, 235.0])[:, None, None] - base)


def _lamps(look: CorridorLook, size: float) -> np.ndarray:
    """1 on a lamp (size 0.6: sharp), a soft glow around it for larger sizes, [along, across]."""
    z, x = _along_m(look)[:, None], _across_m(look)[None, :]
    spacing = _fitted(look.lamp_every_m, period_m(look))
    away = np.abs((z + spacing / 2) % spacing - spacing / 2)
    power = 8 if size < 1 else 2
    return np.exp(-((away / (0.8 * size)) ** power) - (np.abs(x) / (0.5 * size)) ** power)


def _wall(look: CorridorLook) -> np.ndarray:
    """RGB [3, up, along]: seams between panels, doors with frames, skirting board, darker toward the ceiling."""
    up = ((np.arange(BINS_UP) + 0.5) / BINS_UP * look.height_m)[:, None]
    z = _along_m(look)[None, :]
    shade = 1.04 - 0.12 * up / look.height_m
    grain = 1 + look.texture * surface_noise(look.pattern % 8, BINS_UP, BINS_ALONG)
    seam = np.where(_near_multiple(z, look.panel_m, SEAM_M), 0.78, 1.0)
    tone = np.array(look.wall)[:, None, None] * (shade * grain * seam)
    every = look.door_every * look.panel_m
    for width_m, colour in ((0.9 + 0.16, 0.6 * np.array(look.door)), (0.9, np.array(look.door))):
        frame_m = 0.08 if width_m > 0.95 else 0.0
        is_door = _near_multiple(z - every / 2, every, min(width_m, 0.9 * every)) & (
            up < DOOR_HEIGHT_M + frame_m
        )
        tone = np.where(is_door, colour[:, None, None] * shade, tone)
    rail = np.abs(up - 0.95) < 0.04
    tone = np.where(rail, 0.85 * tone, tone)
    is_skirting = (up < SKIRTING_M) & ~_near_multiple(z - every / 2, every, 0.9)
    return np.where(is_skirting, np.array(look.skirting)[:, None, None], tone)
