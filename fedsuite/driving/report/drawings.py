"""What `fedsuite steer` can draw, by name: of a pilot, frames and the angles that it steered on them."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.figure import Figure

from fedsuite.driving.data.given import Given
from fedsuite.driving.plan import plan_of
from fedsuite.driving.report import steered
from fedsuite.driving.report.overlays import overlay_of
from fedsuite.driving.steering import Pilot
from fedsuite.errors import InputError

Draw = Callable[[Pilot, Given, np.ndarray], Figure]


def _frames(pilot: Pilot, given: Given, angles: np.ndarray) -> Figure:
    return steered.steered_frames(given, angles, pilot.unit)


def _angles(pilot: Pilot, given: Given, angles: np.ndarray) -> Figure:
    return steered.steering_distributions(given, angles, pilot.unit)


def _errors(pilot: Pilot, given: Given, angles: np.ndarray) -> Figure:
    """Over places on the road where they are known, as the generator knows them, else along the drive."""
    on_road = bool(np.isfinite(given.poses).all())
    draw = steered.errors_on_road if on_road else steered.errors_along
    return draw(given, angles, pilot.unit)


def _overlay(pilot: Pilot, given: Given, angles: np.ndarray) -> Figure:
    plan = plan_of(pilot.config, pilot.roster)
    return overlay_of(plan, f"{pilot.config.federation.scenario} over {plan.network.name}")


DRAWINGS: Mapping[str, Draw] = {
    "frames": _frames, "angles": _angles, "errors": _errors, "overlay": _overlay
}  # fmt: skip
NEED_TRUTH = ("angles", "errors")


def draw(name: str, pilot: Pilot, given: Given, angles: np.ndarray) -> Figure:
    """The drawing called `name`; InputError if it needs recorded angles that are not there."""
    recorded = np.isfinite(given.truth)
    if name in NEED_TRUTH and not recorded.all():
        raise InputError(
            f"--drawing {name}: needs recorded angles, {given.names[int(recorded.argmin())]} has none; give a drive, or "
            "draw frames"
        )
    return DRAWINGS[name](pilot, given, angles)
