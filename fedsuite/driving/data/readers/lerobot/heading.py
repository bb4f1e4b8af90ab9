"""Whether a LeRobot folder's steering angles and its heading turn the same way, where it records a heading.

The angle, left positive, is compared with minus the rate of the compass heading (degrees, clockwise), both as means over
one second, on frames that are faster than 2 (m/s): r > 0 where the sign is right, as a car that is steered left turns left.
"""

from pathlib import Path

import numpy as np

from fedsuite.driving.data.readers.lerobot.schema import FLOATS, Schema, Term
from fedsuite.errors import InputError

LEAST_FRAMES, LEAST_SPEED = 200, 2.0
OPPOSITE, ALIKE = -0.3, 0.3


def heading_of(schema: Schema) -> tuple[Term, ...]:
    """Heading and speed of the same feature of observation.state; nothing where there are not both."""
    for feature in schema.features.values():
        if (
            feature.named
            and feature.dtype in FLOATS
            and feature.key.startswith("observation.state")
        ):
            places = {axis.lower(): place for place, axis in enumerate(feature.axes)}
            if {"heading", "speed"} <= set(places):
                size = len(feature.axes)
                return tuple(Term(feature.key, places[n], size, n) for n in ("heading", "speed"))
    return ()


def check_sign(
    file: Path,
    angles: np.ndarray,
    heading: np.ndarray,
    speed: np.ndarray,
    runs: np.ndarray,
    fps: float,
) -> str:
    """What is to be told ("" if nothing); InputError where they turn opposite ways. All [n]; runs ascend."""
    turned, steered, fast = [], [], []
    width = max(1, round(fps))
    mean = np.full(width, 1 / width)
    starts = np.flatnonzero(np.diff(runs)) + 1
    for own in np.split(np.arange(len(runs)), starts):
        if len(own) > width:
            rate = -np.gradient(np.unwrap(heading[own], period=360.0)) * fps
            turned.append(np.convolve(rate, mean, "same"))
            steered.append(np.convolve(angles[own], mean, "same"))
            fast.append(speed[own] > LEAST_SPEED)
    if not turned:
        return ""
    known = np.concatenate(fast)
    a, b = np.concatenate(steered)[known], np.concatenate(turned)[known]
    if len(a) < LEAST_FRAMES or not (np.isfinite(b).all() and np.ptp(a) and np.ptp(b)):
        return ""
    r = float(np.corrcoef(a, b)[0, 1])
    if r < OPPOSITE:
        raise InputError(
            f"{file}: steering and heading turn opposite ways (correlation {r:.2f}); positive in drives.toml is probably "
            "the other side"
        )
    if r > ALIKE:
        return ""
    return (
        f"{file}: the steering angle hardly goes with the heading (correlation {r:.2f}); is it the right number, and its "
        "sign?"
    )
