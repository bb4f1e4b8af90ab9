"""Weather and time of day: sky, sunlight, visibility, wetness, snow, rain and headlights.

Source: the Carla recordings of Do et al. 2024 (CDL) vary light (morning, noon, sunset, night) and weather (cloudy,
rain, heavy rain, wet, windy, snow); "clear" is added for real-road looks. Colours are RGB tones in 0..255 or factors
near 1.
"""

from dataclasses import dataclass
from typing import Literal

Weather = Literal["clear", "cloudy", "rain", "heavy rain", "wet", "windy", "snow"]
Time = Literal["morning", "noon", "sunset", "night"]
RGB = tuple[float, float, float]
WEATHERS: tuple[Weather, ...] = ("cloudy", "rain", "heavy rain", "wet", "windy", "snow")
TIMES: tuple[Time, ...] = ("morning", "noon", "sunset", "night")
GREY = (0.299, 0.587, 0.114)  # luma weights (ITU-R BT.601)


@dataclass(frozen=True)
class _Air:
    """What the weather alone decides. Shares in [0, 1]."""

    cloud: float
    visibility_m: float
    shadow: float
    wet: float = 0.0
    snow: float = 0.0
    drops: int = 0  # per 100 x 100 pixels
    drop_length: float = 0.0  # as a share of the frame height
    drop_slope: float = 0.0


@dataclass(frozen=True)
class Light:
    """Everything a scene needs to know about weather and hour."""

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
    air = _air(weather)
    sun, top, low, shadow, noise = _hour(time)
    grey_top, grey_low = (_overcast(colour, air.cloud) for colour in (top, low))
    return Light(
        sun=_overcast(sun, 0.7 * air.cloud, 0.85),
        sky_top=grey_top,
        sky_low=grey_low,
        cloud=air.cloud,
        visibility_m=air.visibility_m,
        shadow=air.shadow * shadow,
        wet=air.wet,
        snow=air.snow,
        drops=air.drops,
        drop_length=air.drop_length,
        drop_slope=air.drop_slope,
        headlight=1.0 if time == "night" else 0.0,
        noise=noise,
    )


def _air(weather: Weather) -> _Air:
    match weather:
        case "clear":
            return _Air(0.15, 400, 0.9)
        case "cloudy":
            return _Air(0.8, 220, 0.2)
        case "rain":
            return _Air(0.9, 110, 0.0, wet=0.6, drops=25, drop_length=0.06, drop_slope=0.15)
        case "heavy rain":
            return _Air(1.0, 55, 0.0, wet=1.0, drops=70, drop_length=0.10, drop_slope=0.3)
        case "wet":
            return _Air(0.4, 250, 0.5, wet=0.9)
        case "windy":
            return _Air(0.3, 350, 0.8)
        case "snow":
            return _Air(0.95, 80, 0.0, snow=1.0, drops=45, drop_length=0.012, drop_slope=0.5)


def _hour(time: Time) -> tuple[RGB, RGB, RGB, float, float]:
    """Sunlight factor, sky colours at the top and at the horizon, strength of shadows, noise factor."""
    match time:
        case "morning":
            return (0.82, 0.78, 0.74), (120, 150, 195), (215, 205, 195), 0.9, 1.0
        case "noon":
            return (1.0, 1.0, 1.0), (95, 145, 215), (195, 215, 235), 0.7, 0.8
        case "sunset":
            return (0.78, 0.62, 0.5), (90, 95, 140), (235, 165, 110), 1.0, 1.2
        case "night":
            return (0.16, 0.17, 0.22), (12, 14, 26), (34, 36, 48), 0.0, 1.8


def _overcast(colour: RGB, share: float, dim: float = 0.92) -> RGB:
    """Moves a colour to its own grey by `share`, a little darker."""
    grey = sum(w * c for w, c in zip(GREY, colour, strict=True))
    red, green, blue = ((c + (grey - c) * share) * (1 - (1 - dim) * share) for c in colour)
    return red, green, blue
