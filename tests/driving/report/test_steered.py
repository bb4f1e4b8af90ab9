"""Drawings of what a network steers: which frames, which way arrows lean, what is compared with what."""

import numpy as np
import pytest

from fedsuite.driving.data.given import Given, joined
from fedsuite.driving.report.steered import (
    MOST_FRAMES,
    errors_along,
    errors_on_road,
    steered_frames,
    steering_distributions,
)


def given(group: str, truth: list[float]) -> Given:
    n = len(truth)
    poses = np.zeros((n, 4), np.float32)
    poses[:, 0], poses[:, 2] = np.arange(n), np.arange(n) / 100
    names = tuple(f"{group}/{i}" for i in range(n))
    images = np.zeros((n, 1, 40, 40), np.uint8)
    return Given(names, (group,) * n, images, np.array(truth, np.float32), poses)


BOTH = joined([given("ada", [0.4, -0.2, 0.0]), given("bob", [0.1] * 20)])
ANGLES = (BOTH.truth + np.float32(0.1)).astype(np.float32)


def arrows(axes):
    return [t for t in axes.texts if t.arrow_patch is not None]


def test_arrows_lean_to_the_left_where_angles_are_positive():
    figure = steered_frames(
        given("ada", [0.4, -0.2, np.nan]), np.array([0.2, -0.4, 0.0]), "radians"
    )
    first, second, third = figure.axes[:3]
    recorded, steered = arrows(first)
    lean = [np.degrees(np.arctan2(19.5 - a.xy[0], 39 - a.xy[1])) for a in (recorded, steered)]
    assert lean == pytest.approx([60, 30])
    assert all(a.xy[0] > 19.5 for a in arrows(second))
    (alone,) = arrows(third)
    assert alone.xy[0] == pytest.approx(19.5)
    assert (
        first.get_title() == "ada/0\n+0.20 (recorded +0.40)" and third.get_title() == "ada/2\n+0.00"
    )
    assert "radians" in figure.legends[0].get_title().get_text()


def test_of_many_frames_some_are_drawn_from_the_first_to_the_last():
    figure = steered_frames(BOTH, ANGLES, "radians")
    titles = [axes.get_title() for axes in figure.axes if axes.images]
    assert len(titles) == MOST_FRAMES
    assert titles[0].startswith("ada/0") and titles[-1].startswith("bob/19")


def test_distributions_have_all_frames_first_and_tell_errors():
    figure = steering_distributions(BOTH, ANGLES, "radians")
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == ["all: RMSE 0.100", "ada: RMSE 0.100", "bob: RMSE 0.100"]
    shares = [
        patch.get_height() for patch in figure.axes[2].patches if hasattr(patch, "get_height")
    ]
    assert sum(shares) == pytest.approx(1.0)


def test_errors_along_drives_are_marked_where_one_begins():
    upper, lower = errors_along(BOTH, ANGLES, "radians").axes
    truth, steered, boundary = upper.lines
    assert truth.get_ydata().tolist() == BOTH.truth.tolist()
    assert steered.get_ydata().tolist() == ANGLES.tolist()
    assert boundary.get_xdata() == [2.5, 2.5] and lower.get_xlabel() == "frame of the drive"


def test_errors_stand_over_curvature_and_place():
    curvature, place = errors_on_road(BOTH, ANGLES, "radians").axes
    at = np.array(curvature.collections[0].get_offsets())
    assert at[:, 0] == pytest.approx(BOTH.poses[:, 2]) and at[:, 1] == pytest.approx(0.1)
    assert np.array(place.collections[0].get_offsets())[:, 0] == pytest.approx(BOTH.poses[:, 0])
    assert len(place.lines[0].get_xdata()) == 10
