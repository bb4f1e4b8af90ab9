"""Frames whose angle can be seen: a bright bar whose place is the angle."""

import numpy as np

from fedsuite.driving.data.frames import Frames
from fedsuite.randomness import rng_for

SIZE = 40


def bar_frames(seed: int, count: int, size: int = SIZE) -> Frames:
    """Grey frames with a bar at column (1 + angle) / 2 of the width, and noise."""
    rng = rng_for(seed, "bar frames")
    angles = rng.uniform(-0.8, 0.8, count).astype(np.float32)
    images = rng.integers(0, 80, (count, 1, size, size)).astype(np.uint8)
    for image, angle in zip(images, angles, strict=True):
        column = int((1 + angle) / 2 * (size - 1))
        image[0, :, max(0, column - 2) : column + 3] = 230
    return Frames(images, angles)
