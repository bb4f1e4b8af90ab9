"""The three characters: what a silo's poses and look are drawn from.

Source of the label scale: constant baseline of Do et al. 2024 (CDL), table 2, RMSE / MAE in radians: Udacity+ 0.311
/ 0.209, Gazebo 0.092 / 0.067, Carla 0.348 / 0.232. Silo i drives regime i mod 3 (calm, mixed, winding); the rest is
drawn per silo.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedsuite.driving.rendering.camera import Camera
from fedsuite.driving.rendering.laws import Law, Steering
from fedsuite.driving.rendering.light import RGB, TIMES, WEATHERS, Time, Weather
from fedsuite.driving.rendering.looks import CorridorLook, Look, RoadLook, Sensor

Character = Literal["udacity", "gazebo", "carla"]


@dataclass(frozen=True)
class Preset:
    """Steering shared by all silos; one law per regime, with the largest size of its bias toward one side, 1/m."""

    steering: Steering
    regimes: tuple[tuple[Law, float], tuple[Law, float], tuple[Law, float]]


def preset(character: Character) -> Preset:
    """Numbers of a character. Laws: p_turn, turn, bias, straight (1/m), offset sd m, heading sd rad, rate sd 1/m^2."""
    match character:
        case "udacity":
            calm = Law(0.15, 0.006, 0.0, 0.0015, 0.25, 0.015, 3e-5)
            mixed = Law(0.55, 0.013, 0.0, 0.003, 0.30, 0.022, 6e-5)
            winding = Law(0.80, 0.0165, 0.0, 0.004, 0.30, 0.025, 1e-4)
            steering = Steering(14.0, 2.7, 8.6, 2.0)
            return Preset(steering, ((calm, 0.0), (mixed, 0.0), (winding, 0.006)))
        case "gazebo":
            calm = Law(0.08, 0.03, 0.0, 0.008, 0.12, 0.045, 0.0)
            mixed = Law(0.35, 0.07, 0.0, 0.010, 0.12, 0.055, 0.0)
            winding = Law(0.70, 0.12, 0.0, 0.015, 0.12, 0.055, 0.0)
            steering = Steering(1.8, 0.35, 2.04, 0.6)
            return Preset(steering, ((calm, 0.0), (mixed, 0.0), (winding, 0.10)))
        case "carla":
            calm = Law(0.20, 0.020, 0.0, 0.004, 0.25, 0.025, 1e-4)
            mixed = Law(0.50, 0.036, 0.0, 0.006, 0.30, 0.030, 2e-4)
            winding = Law(0.80, 0.042, 0.0, 0.008, 0.30, 0.030, 2e-4)
            steering = Steering(9.0, 2.7, 3.78, 1.3)
            return Preset(steering, ((calm, 0.0), (mixed, 0.0), (winding, 0.018)))


def law_of(character: Character, silo: int, rng: np.random.Generator) -> Law:
    """The silo's own law: its regime's, with a bias of either sign."""
    law, bias = preset(character).regimes[silo % 3]
    size, sign = rng.uniform(0.6, 1.0), 1 if silo // 3 % 2 == 0 else -1
    return replace(law, bias_per_m=float(sign * size * bias))


def look_of(character: Character, silo: int, rng: np.random.Generator) -> Look:
    """The silo's own look."""
    match character:
        case "udacity":
            return _country_road(silo, rng)
        case "gazebo":
            return _corridor(rng)
        case "carla":
            return _town(rng)


def _uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(rng.uniform(low, high))


def _tinted(rng: np.random.Generator, colour: RGB, brightness: tuple[float, float]) -> RGB:
    """A colour scaled by one factor and jittered a little per channel."""
    scale = rng.uniform(*brightness) * (1 + rng.uniform(-0.06, 0.06, 3))
    red, green, blue = (float(min(250.0, c * s)) for c, s in zip(colour, scale, strict=True))
    return red, green, blue


def _sensor(rng: np.random.Generator) -> Sensor:
    return Sensor(_uniform(rng, 0.75, 1.2), _uniform(rng, -22, 22), 0.08, _uniform(rng, 3.0, 8.0))


def _camera(
    rng: np.random.Generator, height_m: tuple[float, float], fov_deg: tuple[float, float]
) -> Camera:
    pitch = np.deg2rad(rng.uniform(1.0, 9.0))
    return Camera(_uniform(rng, *height_m), float(pitch), float(np.deg2rad(rng.uniform(*fov_deg))))


def _country_road(silo: int, rng: np.random.Generator) -> RoadLook:
    """Highway, suburb or mountain road, by regime, by day."""
    kind = silo % 3
    weather: Weather = ("clear", "cloudy", "windy")[rng.integers(3)]
    time: Time = ("morning", "noon", "sunset")[rng.integers(3)]
    lanes = ((1, 1), (1, 0), (0, 0))[kind]
    if kind == 0 and rng.random() < 0.5:
        lanes = (1, 0)
    yellow = rng.random() < 0.5
    return RoadLook(
        camera=_camera(rng, (1.1, 1.7), (60, 80)),
        sensor=_sensor(rng),
        weather=weather,
        time=time,
        lane_m=(3.7, 3.3, 3.1)[kind],
        lanes_left=lanes[0],
        lanes_right=lanes[1],
        shoulder_m=(2.2, 0.7, 0.4)[kind],
        pavement_m=1.8 if kind == 1 else 0.0,
        asphalt=_tinted(rng, (108, 106, 104), (0.7, 1.25)),
        verge=_tinted(rng, ((112, 124, 70), (96, 128, 64), (150, 126, 92))[kind], (0.7, 1.2)),
        pavement=_tinted(rng, (150, 146, 140), (0.8, 1.1)),
        edge_line=(228, 228, 224),
        centre_line=(225, 190, 70) if yellow else (228, 228, 224),
        line_strength=_uniform(rng, 0.55, 1.0),
        dash_period_m=_uniform(rng, 7, 13),
        dash_duty=_uniform(rng, 0.3, 0.55),
        texture=_uniform(rng, 0.04, 0.10),
        shadow=(0.3, 0.8, 1.0)[kind],
        cloud=_uniform(rng, 0.2, 1.0),
        skyline=_uniform(rng, 0.05, (0.12, 0.2, 0.35)[kind]),
        is_town=kind == 1,
        pattern=int(rng.integers(1 << 16)),
    )


def _town(rng: np.random.Generator) -> RoadLook:
    """A street between houses in one of six weathers and four times of day."""
    weather, time = WEATHERS[rng.integers(6)], TIMES[rng.integers(4)]
    two_lanes = rng.random() < 0.6
    return RoadLook(
        camera=_camera(rng, (1.3, 2.4), (70, 95)),
        sensor=_sensor(rng),
        weather=weather,
        time=time,
        lane_m=_uniform(rng, 3.1, 3.6),
        lanes_left=1 if two_lanes else 0,
        lanes_right=0,
        shoulder_m=_uniform(rng, 0.3, 0.8),
        pavement_m=_uniform(rng, 1.8, 3.5),
        asphalt=_tinted(rng, (96, 96, 98), (0.75, 1.3)),
        verge=_tinted(rng, (118, 116, 96), (0.6, 1.3)),
        pavement=_tinted(rng, (158, 152, 144), (0.8, 1.15)),
        edge_line=(230, 230, 226),
        centre_line=(226, 194, 84),
        line_strength=_uniform(rng, 0.6, 1.0),
        dash_period_m=_uniform(rng, 4, 8),
        dash_duty=_uniform(rng, 0.4, 0.6),
        texture=_uniform(rng, 0.03, 0.08),
        shadow=_uniform(rng, 0.6, 1.0),
        cloud=_uniform(rng, 0.3, 1.0),
        skyline=_uniform(rng, 0.3, 0.7),
        is_town=True,
        pattern=int(rng.integers(1 << 16)),
    )


def _corridor(rng: np.random.Generator) -> CorridorLook:
    """An office, hospital or store-room corridor seen by a mobile robot."""
    wall = ((196, 190, 176), (150, 168, 178), (176, 150, 126), (208, 206, 202))[rng.integers(4)]
    return CorridorLook(
        camera=_camera(rng, (0.35, 1.0), (70, 95)),
        sensor=_sensor(rng),
        half_width_m=_uniform(rng, 0.8, 1.8),
        height_m=_uniform(rng, 2.3, 3.0),
        wall=_tinted(rng, wall, (0.65, 1.1)),
        door=_tinted(rng, (128, 92, 60), (0.6, 1.5)),
        skirting=_tinted(rng, (70, 66, 62), (0.5, 1.6)),
        floor=_tinted(rng, (138, 132, 124), (0.6, 1.3)),
        ceiling=_tinted(rng, (205, 204, 200), (0.75, 1.1)),
        panel_m=_uniform(rng, 0.9, 1.6),
        door_every=int(rng.integers(2, 5)),
        stagger=_uniform(rng, 0.0, 1.0),
        tile_m=_uniform(rng, 0.3, 0.7),
        tile_contrast=_uniform(rng, 0.0, 0.3),
        lamp_every_m=_uniform(rng, 2.0, 4.0),
        lamp=_uniform(rng, 0.4, 1.0),
        side_light=_uniform(rng, -0.12, 0.12),
        falloff_m=_uniform(rng, 5, 16),
        texture=_uniform(rng, 0.01, 0.04),
        pattern=int(rng.integers(1 << 16)),
    )
