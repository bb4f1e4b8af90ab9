"""The scene of a silo: which poses its vehicle meets, how they look and how it steers.

A silo's frame follows the silo's own pose law if u < label_skew and has its own look if u < appearance_skew, with
one uniform u per frame; otherwise it takes those of silo j, with one j per frame, drawn evenly from all silos. So a
law and a look that belong together stay together where both are pooled.
Law and look of silo i depend on (seed, character, i) alone. Its frames do not depend on the number of silos where
both skews are 1; below that they must, because the pool is what all silos have.
"""

from dataclasses import dataclass, replace

import numpy as np

from fedsuite.driving.data.rendering.laws import NUM_POSE, Law, Steering
from fedsuite.driving.data.rendering.looks import Look
from fedsuite.driving.data.rendering.picture import NUM_LUCK, draw_frames
from fedsuite.driving.data.rendering.presets import law_of, look_of, steering_of
from fedsuite.driving.data.rendering.settings import RoadSettings
from fedsuite.randomness import rng_for

# At concept skew 1: ratio 1 +- 0.35, trim +- 0.35 typical angles.
RATIO_RANGE, TRIM_SHARE = 0.35, 0.35
TYPICAL_RAD = {"udacity": 0.311, "gazebo": 0.092, "carla": 0.348}


@dataclass(frozen=True)
class Scene:
    """One silo's view of the world; laws and looks hold every silo's, own ones at index `silo`."""

    silo: int
    laws: tuple[Law, ...]
    looks: tuple[Look, ...]
    steering: Steering
    settings: RoadSettings


@dataclass(frozen=True)
class Poses:
    """values: float32 [n, 4], (o m, psi rad, kappa 1/m, kappa' 1/m^2), left positive; look: intp [n], which look."""

    values: np.ndarray
    look: np.ndarray

    def __len__(self) -> int:
        return len(self.values)


def silo_scene(settings: RoadSettings, silo: int) -> Scene:
    character, seed = settings.character, settings.seed
    everyone = range(settings.num_silos)
    ratio, trim = rng_for(seed, "roads concept", partition=silo).uniform(-1, 1, 2)
    skew = settings.concept_skew
    return Scene(
        silo=silo,
        laws=tuple(law_of(character, i, rng_for(seed, "roads law", 0, i)) for i in everyone),
        looks=tuple(look_of(character, i, rng_for(seed, "roads look", 0, i)) for i in everyone),
        steering=replace(
            steering_of(character),
            ratio=float(1 + skew * RATIO_RANGE * ratio),
            trim_rad=float(skew * TRIM_SHARE * TYPICAL_RAD[character] * trim),
        ),
        settings=settings,
    )


def sample_poses(scene: Scene, n: int, rng: np.random.Generator) -> Poses:
    """n independent frames: their poses and looks."""
    chance = rng.random(n)
    other = rng.integers(0, len(scene.laws), n)
    law = np.where(chance < scene.settings.label_skew, scene.silo, other)
    look = np.where(chance < scene.settings.appearance_skew, scene.silo, other)
    values = np.empty((n, NUM_POSE), np.float32)
    for index in np.unique(law):
        chosen = law == index
        values[chosen] = scene.laws[index].draw(int(chosen.sum()), rng)
    return Poses(values, look)


def steering(scene: Scene, poses: Poses, rng: np.random.Generator | None = None) -> np.ndarray:
    """Steering angles, float32 [n], rad, left positive; with rng the label noise is added."""
    angles = scene.steering.angle_rad(poses.values)
    if rng is None:
        return angles
    noisy = angles + scene.settings.label_noise * rng.standard_normal(len(poses))
    limit = scene.steering.limit_rad
    return np.clip(noisy, -limit, limit).astype(np.float32)


def render(
    scene: Scene, poses: Poses, rng: np.random.Generator, out: np.ndarray | None = None
) -> np.ndarray:
    """Frames of the poses, uint8 [n, C, H, W]; drawn into `out` where given (it may be memory-mapped)."""
    shape = scene.settings.shape_of(len(poses))
    frames = np.empty(shape, np.uint8) if out is None else out
    luck = rng.random((len(poses), NUM_LUCK))
    for index in np.unique(poses.look):
        at = np.flatnonzero(poses.look == index)
        look = scene.looks[index]
        draw_frames(look, poses.values[at], luck[at], shape[1], frames, at)
    return frames
