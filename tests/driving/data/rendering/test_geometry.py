"""What is drawn is where the camera's geometry says: slow twins per pixel, mirrored worlds, and the steering formula."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedsuite.driving.data.rendering.camera import Camera, centre_line_m
from fedsuite.driving.data.rendering.corridor import END_M, wall_distance_m
from fedsuite.driving.data.rendering.laws import Steering
from fedsuite.driving.data.rendering.looks import CorridorLook, Look, RoadLook, Sensor
from fedsuite.driving.data.rendering.presets import Character
from fedsuite.driving.data.rendering.scene import Poses, Scene, render, silo_scene, steering
from fedsuite.driving.data.rendering.settings import RoadSettings

SIZE = 100
QUIET = Sensor(contrast=1.0, brightness=0.0, jitter=0.0, noise=0.0)
WHITE, BLACK = (240.0, 240.0, 240.0), (20.0, 20.0, 20.0)
POSES = np.array(
    [[0, 0, 0, 0], [0.4, 0.02, 0.01, 0], [-0.3, -0.05, -0.03, 2e-4], [0.1, 0.08, 0.05, 0]],
    np.float32,
)


class Middle(np.random.Generator):
    """Chance that is always in the middle: the frames differ by their poses alone."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def random(self, size: object = None, *_: object, **__: object) -> np.ndarray:  # type: ignore[override]
        return np.full(size, 0.5)  # type: ignore[call-overload]


def scene_with(character: Character, look: Look) -> Scene:
    return replace(silo_scene(RoadSettings(character, 1, size_px=SIZE), 0), looks=(look,))


def even_road(character: Character) -> RoadLook:
    """A silo's road without what differs between left and right."""
    look = silo_scene(RoadSettings(character, 1), 0).looks[0]
    assert isinstance(look, RoadLook)
    return replace(
        look,
        sensor=QUIET,
        lanes_left=1,
        lanes_right=1,
        texture=0.0,
        shadow=0.0,
        cloud=0.0,
        skyline=0.0,
        weather="clear",
    )


def even_corridor() -> CorridorLook:
    """A silo's corridor without what differs between left and right."""
    look = silo_scene(RoadSettings("gazebo", 1), 0).looks[0]
    assert isinstance(look, CorridorLook)
    return replace(look, sensor=QUIET, texture=0.0, side_light=0.0, stagger=0.0)


def frames(scene: Scene, values: np.ndarray) -> np.ndarray:
    return render(scene, Poses(values, np.zeros(len(values), np.intp)), Middle())


@pytest.mark.parametrize("character", ["udacity", "gazebo", "carla"])
def test_a_mirrored_pose_gives_the_mirrored_picture_and_the_opposite_angle(
    character: Character,
) -> None:
    scene = scene_with(
        character, even_corridor() if character == "gazebo" else even_road(character)
    )
    values = POSES * np.array([1, 1, 1, 0 if character == "gazebo" else 1], np.float32)
    there, back = frames(scene, values), frames(scene, -values)
    assert (np.abs(there[..., ::-1].astype(int) - back) <= 2).mean() > 0.995
    assert not np.array_equal(there[1], back[1])
    angle = steering(scene, Poses(values, np.zeros(4, np.intp)))
    opposite = steering(scene, Poses(-values, np.zeros(4, np.intp)))
    np.testing.assert_allclose(angle, -opposite, atol=1e-6)
    assert np.abs(angle[1:]).min() > 1e-3


def test_lines_of_a_road_are_where_x_c_says() -> None:
    look = replace(
        even_road("udacity"),
        lane_m=3.1,
        lanes_left=0,
        lanes_right=0,
        pavement_m=0.0,
        time="noon",
        asphalt=BLACK,
        verge=BLACK,
        edge_line=(250.0, 250.0, 250.0),
        line_strength=1.0,
        camera=Camera(1.4, math.radians(6), math.radians(70)),
    )
    image = frames(scene_with("udacity", look), POSES)[:, 0]
    focal = 50 / math.tan(math.radians(35))
    horizon = 50 - focal * math.tan(math.radians(6))
    checked = 0
    for pose, picture in zip(POSES.astype(float), image, strict=True):
        for row in range(int(horizon) + 8, SIZE):
            z = focal * 1.4 / (row + 0.5 - horizon)
            centre = pose[0] + pose[1] * z - pose[2] * z**2 / 2 - pose[3] * z**3 / 6
            for column in range(SIZE):
                s = z * (column + 0.5 - 50) / focal - centre
                from_line = min(abs(s - 1.4), abs(s + 1.4))  # lane 3.1 m, lines 0.15 m inside
                if abs(from_line - 0.075) > 0.06 + z / focal:  # not at a soft edge
                    is_bright = picture[row, column] > 60 + 40 * (1 - math.exp(-z / 400))
                    assert is_bright == (from_line < 0.075)
                    checked += 1
    assert checked > 10_000


def test_wall_distances_agree_with_marching_along_the_ray() -> None:
    tan_phi = Camera(0.6, 0.0, math.radians(85)).tan_columns(24)
    for pose in ([0, 0, 0, 0], [0.3, 0.1, 0.1, 0], [-0.4, -0.2, -0.25, 0], [0.2, -0.1, 0.3, 0]):
        wall, is_right = wall_distance_m(tan_phi, np.array(pose), 0.9)
        z = np.arange(0, END_M, 0.002)
        centre = centre_line_m(np.array([pose]), z)[0]
        for column, slope in enumerate(tan_phi):
            outside = np.flatnonzero(np.abs(z * slope - centre) > 0.9)
            if len(outside):
                assert wall[column] == pytest.approx(z[outside[0]], abs=0.004)
                at = outside[0]
                assert is_right[column] == (z[at] * slope > centre[at])
            else:
                assert wall[column] == END_M


def test_a_corridor_shows_wall_floor_and_ceiling_where_rays_meet_them() -> None:
    look = replace(
        even_corridor(),
        camera=Camera(0.6, math.radians(4), math.radians(80)),
        wall=WHITE,
        door=WHITE,
        skirting=WHITE,
        floor=BLACK,
        ceiling=BLACK,
        lamp=0.0,
        falloff_m=1e6,
        panel_m=1e3,
        half_width_m=1.1,
        height_m=2.5,
    )
    pose = np.array([[0.2, 0.1, 0.08, 0]], np.float32)
    picture = frames(scene_with("gazebo", look), pose)[0, 0]
    focal = 50 / math.tan(math.radians(40))
    horizon = 50 - focal * math.tan(math.radians(4))
    wrong = 0
    for column in range(SIZE):
        wall = wall_distance_m(np.array([(column + 0.5 - 50) / focal]), pose[0], 1.1)[0][0]
        for row in range(SIZE):
            height = 0.6 - (row + 0.5 - horizon) / focal * wall
            wrong += (picture[row, column] > 80) != (0 <= height <= 2.5)
    assert wrong < 0.01 * SIZE**2


def test_a_corridor_refuses_poses_outside_it_and_changing_curvature() -> None:
    scene = scene_with("gazebo", even_corridor())
    for pose in ([5, 0, 0, 0], [0, 0, 0, 1e-3]):
        with pytest.raises(ValueError, match="pose of a corridor"):
            frames(scene, np.array([pose], np.float32))


def test_steering_is_pure_pursuit_left_positive() -> None:
    rule = Steering(lookahead_m=10, wheelbase_m=2.5, gain=2, limit_rad=0.5)
    values = np.array([[0.5, 0, 0, 0], [0, 0, 0.02, 0], [0, 0.1, 0, 0], [0, 0, 9, 0]], np.float32)
    expected = [-2 * math.atan(0.025), 2 * math.atan(0.05), -2 * math.atan(0.05), 0.5]
    np.testing.assert_allclose(rule.angle_rad(values), expected, rtol=1e-6)
