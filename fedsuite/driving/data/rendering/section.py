"""Cross-section of a road: tone by lateral position, from verge to verge, at several sharpnesses.

s is the distance to the right of the own lane's centre, m; 2,048 bins cover +-24 m. A far row sees many bins in one
pixel, so each cross-section is also kept averaged over 2, 4, 8 ... bins; without them thin lines flicker in the distance.
"""

import numpy as np

from fedsuite.driving.data.rendering.light import Light, to_channels
from fedsuite.driving.data.rendering.looks import RoadLook

BINS = 2048
BINS_PER_M = BINS / 48
MIPS = 6
LINE_M = 0.15
SNOW = np.array([225.0, 228.0, 235.0])
SLUSH = np.array([128.0, 130.0, 136.0])


def sections(look: RoadLook, light: Light, channels: int) -> np.ndarray:
    """float32 [C, 3 * MIPS * BINS]: without dashes, with them, and blended; each at MIPS sharpnesses."""
    bare, dashed = _section(look, light, False), _section(look, light, True)
    blended = bare + (dashed - bare) * look.dash_duty
    kinds = np.stack([to_channels(tone, channels) for tone in (bare, dashed, blended)], axis=1)
    sharp = np.stack([_blurred(kinds, 1 << level) for level in range(MIPS)], axis=2)
    return np.ascontiguousarray(sharp.reshape(channels, -1), np.float32)


def _section(look: RoadLook, light: Light, is_dash: bool) -> np.ndarray:
    """RGB tones [3, BINS] of one cross-section."""
    s = (np.arange(BINS) + 0.5 - BINS / 2) / BINS_PER_M  # lateral position of the bins, m
    asphalt, verge, pavement = (np.array(c) for c in (look.asphalt, look.verge, look.pavement))
    asphalt = asphalt * (1 - 0.3 * light.wet)
    asphalt = asphalt + light.snow * 0.6 * (SLUSH - asphalt)
    verge = verge + light.snow * 0.85 * (SNOW - verge)
    pavement = pavement + light.snow * 0.6 * (SNOW - pavement)
    left = -look.lane_m * (0.5 + look.lanes_left)
    right = look.lane_m * (0.5 + look.lanes_right)
    outside = np.maximum(left - s, s - right)  # distance beyond the outer edge lines, m
    tone = np.repeat(verge[:, None], BINS, axis=1)
    tone[:, outside < look.shoulder_m] = (0.92 * asphalt)[:, None]
    if look.pavement_m > 0:
        beyond = outside - look.shoulder_m
        tone[:, (beyond >= 0) & (beyond < look.pavement_m)] = pavement[:, None]
        tone[:, (beyond >= 0) & (beyond < 0.18)] = 1.25 * pavement[:, None]
    tone[:, outside < 0] = asphalt[:, None]
    in_lane = (s - left) % look.lane_m / look.lane_m - 0.5
    ruts = 1 - 0.06 * np.exp(-(((np.abs(in_lane) - 0.24) / 0.07) ** 2))  # darker where wheels run
    tone *= np.where(outside < 0, ruts, 1)
    paint = look.line_strength * (1 - 0.55 * light.snow)
    lines = [(left + LINE_M, look.edge_line), (right - LINE_M, look.edge_line)]
    if is_dash:
        inner = range(1, look.lanes_left + look.lanes_right + 1)
        lines += [(left + lane * look.lane_m, look.centre_line) for lane in inner]
    for line, colour in lines:
        where = np.abs(s - line) < LINE_M / 2
        tone[:, where] += paint * (np.array(colour)[:, None] - tone[:, where])
    return tone


def _blurred(tone: np.ndarray, width: int) -> np.ndarray:
    """Mean over 2 * width - 1 bins around each bin of the last axis, edges repeated: symmetric, so mirroring commutes."""
    reach = width - 1
    ends = [(0, 0)] * (tone.ndim - 1) + [(reach + 1, reach)]
    total = np.cumsum(np.pad(tone, ends, mode="edge"), axis=-1)
    span = 2 * reach + 1
    return np.asarray((total[..., span:] - total[..., :-span]) / span)
