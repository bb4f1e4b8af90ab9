"""The three characters: what a silo's poses and look are drawn from.

The numbers are presets.json. `characters`: steering shared by all silos, and the law of each regime with the largest size
of its bias toward one side. `looks`: per field of a look [low, high] of a uniform draw, [low, high] of `whole` numbers, a
`colour` with the range of its `brightness`, or the value itself; draws follow the order of the file.

Source of the label scale: constant baseline of Do et al. 2024 (CDL), table 2, RMSE / MAE in radians: Udacity+ 0.311
/ 0.209, Gazebo 0.092 / 0.067, Carla 0.348 / 0.232. Silo i drives regime i mod 3 (calm, mixed, winding); the rest is
drawn per silo.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from fedsuite.driving.data.rendering.camera import Camera
from fedsuite.driving.data.rendering.laws import Law, Steering
from fedsuite.driving.data.rendering.light import RGB, TIMES, WEATHERS
from fedsuite.driving.data.rendering.looks import CorridorLook, Look, RoadLook, Sensor
from fedsuite.storage.files import read_table

Character = Literal["udacity", "gazebo", "carla"]
_TABLE = read_table(__file__, "presets.json")
_LOOKS = _TABLE["looks"]


def steering_of(character: Character) -> Steering:
    return Steering(**_TABLE["characters"][character]["steering"])


def law_of(character: Character, silo: int, rng: np.random.Generator) -> Law:
    """The silo's own law: its regime's, with a bias of either sign."""
    law = Law(**tuple(_TABLE["characters"][character]["regimes"].values())[silo % 3])
    size, sign = rng.uniform(0.6, 1.0), 1 if silo // 3 % 2 == 0 else -1
    return replace(law, bias_per_m=float(sign * size * law.bias_per_m))


def look_of(character: Character, silo: int, rng: np.random.Generator) -> Look:
    if character == "udacity":
        return _country_road(silo, rng)
    return _corridor(rng) if character == "gazebo" else _town(rng)


def _uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(rng.uniform(low, high))


def _tinted(rng: np.random.Generator, colour: RGB, brightness: tuple[float, float]) -> RGB:
    """A colour scaled by one factor and jittered a little per channel."""
    scale = rng.uniform(*brightness) * (1 + rng.uniform(-0.06, 0.06, 3))
    red, green, blue = (float(min(250.0, c * s)) for c, s in zip(colour, scale, strict=True))
    return red, green, blue


def _camera(
    rng: np.random.Generator, height_m: tuple[float, float], fov_deg: tuple[float, float]
) -> Camera:
    pitch = np.deg2rad(rng.uniform(1.0, 9.0))
    return Camera(_uniform(rng, *height_m), float(pitch), float(np.deg2rad(rng.uniform(*fov_deg))))


def _drawn(rng: np.random.Generator, look: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"camera": _camera(rng, **look["camera"])}
    contrast, brightness, noise = rng.uniform((0.75, -22, 3.0), (1.2, 22, 8.0)).tolist()
    fields["sensor"] = Sensor(contrast, brightness, 0.08, noise)
    fields |= {name: _field(rng, given) for name, given in look.items() if name != "camera"}
    return fields | {"pattern": int(rng.integers(1 << 16))}


def _field(rng: np.random.Generator, given: Any) -> Any:
    if isinstance(given, dict) and "whole" in given:
        low, high = given["whole"]
        return int(rng.integers(low, high + 1))
    if isinstance(given, dict):
        return _tinted(rng, **given)
    return _uniform(rng, *given) if np.shape(given) == (2,) else given


def _country_road(silo: int, rng: np.random.Generator) -> RoadLook:
    """Highway, suburb or mountain road, by regime, by day."""
    kind = ("highway", "suburb", "mountain road")[silo % 3]
    look = dict(_LOOKS[kind])
    look["weather"] = ("clear", "cloudy", "windy")[rng.integers(3)]
    look["time"] = ("morning", "noon", "sunset")[rng.integers(3)]
    if kind == "highway" and rng.random() < 0.5:
        look["lanes_right"] = 0
    look["centre_line"] = (225, 190, 70) if rng.random() < 0.5 else look["edge_line"]
    return RoadLook(**_drawn(rng, look))


def _town(rng: np.random.Generator) -> RoadLook:
    """A street between houses in one of six weathers and four times of day."""
    look = _LOOKS["town"] | {"weather": WEATHERS[rng.integers(6)], "time": TIMES[rng.integers(4)]}
    look["lanes_left"] = 1 if rng.random() < 0.6 else 0
    return RoadLook(**_drawn(rng, look))


def _corridor(rng: np.random.Generator) -> CorridorLook:
    """An office, hospital or store-room corridor seen by a mobile robot."""
    look = _LOOKS["corridor"]
    wall = look["wall"] | {"colour": _TABLE["walls"][rng.integers(4)]}
    return CorridorLook(**_drawn(rng, look | {"wall": wall}))
