"""What distinguishes the look of one silo from another's: plain numbers, hashable, from which all tables are computed.

Lengths in metres, angles in radians, colours RGB in 0..255.
"""

from dataclasses import dataclass

from fedsuite.driving.data.rendering.camera import Camera
from fedsuite.driving.data.rendering.light import RGB, Time, Weather


@dataclass(frozen=True)
class Sensor:
    """Electronics: tone = contrast * (tone - 128) + 128 + brightness; per-frame gain jitter; noise sd in tones."""

    contrast: float
    brightness: float
    jitter: float
    noise: float


@dataclass(frozen=True)
class RoadLook:
    """A road outdoors. Lanes left and right of the own one; pattern seeds textures, sky and skyline."""

    camera: Camera
    sensor: Sensor
    weather: Weather
    time: Time
    lane_m: float
    lanes_left: int
    lanes_right: int
    shoulder_m: float
    pavement_m: float  # 0: no kerb
    asphalt: RGB
    verge: RGB
    pavement: RGB
    edge_line: RGB
    centre_line: RGB
    line_strength: float  # 0 worn off .. 1 fresh paint
    dash_period_m: float
    dash_duty: float
    texture: float
    shadow: float
    cloud: float
    skyline: float  # height as a share of the focal length
    is_town: bool  # houses, not hills, on the skyline
    pattern: int


@dataclass(frozen=True)
class CorridorLook:
    """A corridor indoors. Stripes repeat along the walls: panels, and a door in every `door_every`-th panel."""

    camera: Camera
    sensor: Sensor
    half_width_m: float
    height_m: float
    wall: RGB
    door: RGB
    skirting: RGB
    floor: RGB
    ceiling: RGB
    panel_m: float
    door_every: int
    stagger: float  # right walls' doors come later by this share of the door spacing
    tile_m: float
    tile_contrast: float
    lamp_every_m: float
    lamp: float
    side_light: float  # right walls are brighter by this share, left walls darker
    falloff_m: float
    texture: float
    pattern: int


Look = RoadLook | CorridorLook
