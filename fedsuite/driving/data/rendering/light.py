"""Weather and time of day: sky, sunlight, visibility, wetness, snow, rain and headlights.

Source: the Carla recordings of Do et al. 2024 (CDL) vary light (morning, noon, sunset, night) and weather (cloudy,
rain, heavy rain, wet, windy, snow); "clear" is added for real-road looks. Colours are RGB tones in 0..255 or factors
near 1.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsuite.storage.files import read_table

Weather = Literal["clear", "cloudy", "rain", "heavy rain", "wet", "windy", "snow"]
Time = Literal["morning", "noon", "sunset", "night"]
RGB = tuple[float, float, float]
WEATHERS: tuple[Weather, ...] = ("cloudy", "rain", "heavy rain", "wet", "windy", "snow")
TIMES: tuple[Time, ...] = ("morning", "noon", "sunset", "night")
GREY = (0.299, 0.587, 0.114)  # luma weights (ITU-R BT.601)
_TABLE = read_table(__file__, "light.json")


@dataclass(frozen=True)
class Light:
    """Everything a scene needs to know about weather and hour (light.json). Shares in [0, 1].

    sun, noise: factors; drops: per 100 x 100 pixels; drop_length: as a share of the frame height.
    """

    sun: RGB
    sky_top: RGB
    sky_low: RGB
    cloud: float
    visibility_m: float
    shadow: float
    wet: float
    snow: float
    drops: int
    drop_length: float
    drop_slope: float
    headlight: float
    noise: float


def light_of(weather: Weather, time: Time) -> Light:
    """The light of a weather at an hour; overcast weather greys sky and sun and weakens shadows."""
    air, hour = _TABLE["weathers"][weather], _TABLE["hours"][time]
    cloud = air["cloud"]
    return Light(
        **air
        | hour
        | {
            "sun": _overcast(hour["sun"], 0.7 * cloud, 0.85),
            "sky_top": _overcast(hour["sky_top"], cloud),
            "sky_low": _overcast(hour["sky_low"], cloud),
            "shadow": air["shadow"] * hour["shadow"],
        }
    )


def _overcast(colour: RGB, share: float, dim: float = 0.92) -> RGB:
    """Moves a colour to its own grey by `share`, a little darker."""
    grey = sum(w * c for w, c in zip(GREY, colour, strict=True))
    red, green, blue = ((c + (grey - c) * share) * (1 - (1 - dim) * share) for c in colour)
    return red, green, blue


def to_channels(rgb: np.ndarray, channels: int) -> np.ndarray:
    """First axis RGB to first axis C: unchanged for 3, luma for 1."""
    return rgb if channels == 3 else np.tensordot(np.array(GREY), rgb, axes=1)[None]
