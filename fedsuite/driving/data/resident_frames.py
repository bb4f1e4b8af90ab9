"""Training frames in the memory of a GPU, where batches are taken without passing through the host.

The batches are those of `stacked_batch`. Frames stay bytes until they are taken: 11 silos of 2,806 grey frames of 200
pixels are 1.2 GB.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedsuite.driving.data.batches import batch_rows, is_mirrored
from fedsuite.driving.data.frames import Frames

_LARGEST_SHARE = 0.5  # of the GPU's free memory; the rest is for networks and what they compute


class ResidentFrames:
    """Frames of S silos, one after another. numbers: the silos', on which their random streams hang."""

    def __init__(self, frames: Sequence[Frames], numbers: Sequence[int], device: str) -> None:
        self.numbers, self.device = tuple(numbers), device
        self.sizes = [len(own) for own in frames]
        self.first = np.concatenate([[0], np.cumsum(self.sizes)])[:-1]
        shape = (sum(self.sizes), *frames[0].images.shape[1:])
        self.images = torch.empty(shape, dtype=torch.uint8, device=device)
        for own, first, size in zip(frames, self.first, self.sizes, strict=True):
            self.images[first : first + size] = torch.from_numpy(np.array(own.images))
        self.angles = torch.from_numpy(np.concatenate([own.angles for own in frames])).to(device)

    def batch(self, number: int, size: int, seed: int, flip: bool) -> tuple[Tensor, Tensor]:
        """Batch `number` of every silo: images uint8 [S, B, C, H, W], angles float32 [S, B]."""
        rows = np.stack(
            [
                first + batch_rows(seed, silo, number, size, count)
                for silo, first, count in zip(self.numbers, self.first, self.sizes, strict=True)
            ]
        )
        index = torch.from_numpy(rows).to(self.device)
        images = self.images.index_select(0, index.flatten()).unflatten(0, index.shape)
        angles = self.angles[index]
        if flip:
            drawn = np.stack([is_mirrored(seed, silo, number, size) for silo in self.numbers])
            mirrored = torch.from_numpy(drawn).to(self.device)
            images = torch.where(mirrored[:, :, None, None, None], images.flip(-1), images)
            angles = torch.where(mirrored, -angles, angles)
        return images, angles


def may_reside(frames: Sequence[Frames], device: str) -> bool:
    """Whether the frames are to live on the device: a GPU that has room for them."""
    if device == "cpu":
        return False
    free, _ = torch.cuda.mem_get_info()
    return sum(own.images.nbytes for own in frames) <= _LARGEST_SHARE * free
