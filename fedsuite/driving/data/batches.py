"""Mini-batches of a silo: an endless stream of shuffled epochs, cut into batches of one size.

Batch k holds positions k B ... (k + 1) B - 1 of the stream, so that batch and resume need no memory, every frame is
used equally often, and silos with few frames still fill their batches.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from fedsuite.driving.data.frames import Frames
from fedsuite.randomness import rng_for


@lru_cache(maxsize=512)
def _epoch(seed: int, silo: int, epoch: int, num_frames: int) -> np.ndarray:
    return rng_for(seed, "mini-batches", epoch, silo).permutation(num_frames)


def batch_rows(seed: int, silo: int, number: int, size: int, num_frames: int) -> np.ndarray:
    """Rows [B] of batch `number` (0-based) of a silo with `num_frames` frames."""
    positions = np.arange(number * size, (number + 1) * size)
    epochs, rows = np.divmod(positions, num_frames)
    return np.array(
        [_epoch(seed, silo, int(e), num_frames)[r] for e, r in zip(epochs, rows, strict=True)]
    )


def is_mirrored(seed: int, silo: int, number: int, size: int) -> np.ndarray:
    """Which frames [B] of batch `number` are mirrored, each with probability 1/2."""
    return rng_for(seed, "mirrored frames", number, silo).random(size) < 0.5


def stacked_batch(
    frames: Sequence[Frames], silos: Sequence[int], number: int, size: int, seed: int, flip: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Batch `number` of every silo: images uint8 [S, B, C, H, W], angles float32 [S, B].

    flip: every frame is mirrored with probability 1/2, and its angle negated.
    """
    images, angles = [], []
    for own, silo in zip(frames, silos, strict=True):
        rows = batch_rows(seed, silo, number, size, len(own))
        image, angle = own.images[rows], own.angles[rows]
        if flip:
            mirrored = is_mirrored(seed, silo, number, size)
            image = np.where(mirrored[:, None, None, None], image[..., ::-1], image)
            angle = np.where(mirrored, -angle, angle)
        images.append(image)
        angles.append(angle)
    return np.stack(images), np.stack(angles)
