"""Road scene: lane markings, verges, kerbs, sky and skyline, drawn by table look-ups at 0.1-0.2 ms a 200 x 200 frame.

Tables of one look (size W = H, C channels, R ground rows): lateral position of every ground pixel, a cross-section
of tones over +-24 m (at several sharpnesses, for near and far rows, with dashes on, off and blended), a surface tile
along the road, and gain and addition per pixel for haze, headlights and sun. A frame then is, per ground pixel with
s = X - x_c(Z),
    tone = section[row kind, s] * (1 + fade(row) * tile[Z + start, s]) * gain + addition
"""

from dataclasses import dataclass

import numpy as np

from fedsuite.driving.data.rendering.camera import centre_line_m
from fedsuite.driving.data.rendering.light import Light, light_of, to_channels
from fedsuite.driving.data.rendering.looks import RoadLook
from fedsuite.driving.data.rendering.section import BINS, BINS_PER_M, MIPS, sections
from fedsuite.driving.data.rendering.sky import panorama
from fedsuite.driving.data.rendering.texture import blob_mask, surface_noise

TILE_ROWS, TILE_M_PER_ROW = 256, 0.25
TILE_SHIFT = 2  # one tile column for 2^2 bins of the section
TILE_COLUMNS = BINS >> TILE_SHIFT


@dataclass(frozen=True)
class RoadTables:
    """All that frames of one look share; float32 unless said. first: first ground row."""

    first: int
    z_m: np.ndarray  # float64 [R]
    x_bins: np.ndarray  # [R, W]
    section: np.ndarray  # [C, 3 * MIPS * BINS]
    sharpness: np.ndarray  # intp [R], offset of the row's sharpness in section
    blended: np.ndarray  # bool [R], rows so far that dashes run together
    tile: np.ndarray  # [TILE_ROWS * TILE_COLUMNS]
    fade: np.ndarray  # [R, 1]
    gain: np.ndarray  # [C, R, W]
    addition: np.ndarray  # [C, R, 1]
    sky: np.ndarray  # [C, first, 4 W]
    dash_period_m: float
    dash_m: float


def road_tables(look: RoadLook, size_px: int, channels: int) -> RoadTables:
    camera, light = look.camera, light_of(look.weather, look.time)
    focal = camera.focal_px(size_px)
    first = camera.first_ground_row(size_px)
    z = focal * camera.height_m / camera.rows_below_horizon(size_px)[first:]
    x = z[:, None] * camera.tan_columns(size_px)
    footprint_m = z**2 / (focal * camera.height_m)
    mip = np.clip(np.ceil(np.log2(np.maximum(z / focal * BINS_PER_M, 1))), 0, MIPS - 1)
    gain, addition = _air_tables(light, x, z, channels)
    return RoadTables(
        first=first,
        z_m=z,
        x_bins=(x * BINS_PER_M + BINS / 2).astype(np.float32),
        section=sections(look, light, channels),
        sharpness=mip.astype(np.intp) * BINS,
        blended=footprint_m > look.dash_period_m / 2,
        tile=_tile(look, light).ravel(),
        fade=(1 / (1 + (footprint_m / 2) ** 2)).astype(np.float32)[:, None],
        gain=gain,
        addition=addition,
        sky=panorama(look, light, size_px, first, channels),
        dash_period_m=look.dash_period_m,
        dash_m=look.dash_duty * look.dash_period_m,
    )


def draw_road(tables: RoadTables, pose: np.ndarray, luck: np.ndarray, canvas: np.ndarray) -> None:
    """Draw one pose [4] into canvas, float32 [C, H, W]. luck in [0, 1): place along the road, compass heading."""
    first, (_, size) = tables.first, canvas.shape[1:]
    along = tables.z_m + luck[0] * TILE_ROWS * TILE_M_PER_ROW
    shift = centre_line_m(pose[None], tables.z_m)[0] * BINS_PER_M
    s_bins = tables.x_bins - shift.astype(np.float32)[:, None]
    np.clip(s_bins, 0, BINS - 1, out=s_bins)
    index = s_bins.astype(np.intp)
    tile_row = (along / TILE_M_PER_ROW).astype(np.intp) % TILE_ROWS
    surface = index >> TILE_SHIFT
    surface += (tile_row * TILE_COLUMNS)[:, None]
    grain = tables.tile.take(surface, mode="clip")
    grain *= tables.fade
    grain += 1
    is_dash = along % tables.dash_period_m < tables.dash_m
    kind = np.where(tables.blended, 2, is_dash) * (MIPS * BINS) + tables.sharpness
    index += kind[:, None]
    start = int((luck[1] * 3 + 1e-9) * size)
    for channel, plane in enumerate(canvas):
        tone = tables.section[channel].take(index, mode="clip")
        tone *= grain
        tone *= tables.gain[channel]
        np.add(tone, tables.addition[channel], out=plane[first:])
        plane[:first] = tables.sky[channel, :, start : start + size]


def _air_tables(
    light: Light, x_m: np.ndarray, z_m: np.ndarray, channels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Gain [C, R, W] and addition [C, R, 1]: sun or headlights, and haze exp(-Z / visibility) toward the sky's tone."""
    clear = np.exp(-z_m / light.visibility_m)[:, None]
    reach = np.exp(-(((z_m - 9) / 16) ** 2))[:, None]
    cone = light.headlight * reach * np.exp(-((x_m / (1.5 + 0.22 * z_m[:, None])) ** 2))
    colours = to_channels(np.array(light.sun), channels)
    low = to_channels(np.array(light.sky_low), channels)
    gain = np.stack([(sun + 0.75 * cone) * clear for sun in colours])
    addition = np.stack([(1 - clear) * tone for tone in low])
    return gain.astype(np.float32), addition.astype(np.float32)


def _tile(look: RoadLook, light: Light) -> np.ndarray:
    """Relative brightness minus 1 along and across the road: grain, patches, tree shadows, puddles, snow."""
    shape = (TILE_ROWS, TILE_COLUMNS)
    tile = look.texture * surface_noise(look.pattern % 8, *shape)
    shadow = look.shadow * light.shadow
    if shadow > 0:
        tile = (1 + tile) * (1 - 0.55 * shadow * blob_mask(look.pattern % 8, *shape, 0.16)) - 1
    if light.wet > 0:
        puddles = blob_mask(8 + look.pattern % 8, *shape, 0.22)
        tile = tile + light.wet * (0.45 * puddles - 0.18)
    if light.snow > 0:
        drifts = blob_mask(16 + look.pattern % 8, *shape, 0.25)
        tile = tile + light.snow * 0.5 * (drifts - 0.25)
    return np.asarray(tile, np.float32)
