"""What can be asked of generated roads."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsuite.driving.data.rendering.presets import Character
from fedsuite.randomness import rng_for

Sizes = Literal["equal", "power"]
POWER = 0.8  # frames of the k-th largest silo go as k^-0.8


@dataclass(frozen=True)
class RoadSettings:
    """Silos of generated frames.

    character: udacity (country roads by day), gazebo (corridors), carla (town, six weathers, four times of day).
    train_frames, test_frames: per silo; with sizes "power" train_frames is the mean, and every silo tests on test_frames.
    label_skew, appearance_skew: share of a silo's frames that follow its own pose law and its own look; every other
        frame takes those of a silo drawn at random. 0 and 0: all silos have the same distribution. While both are equal,
        all silos together have the same distribution at every value, so comparing skews changes nothing else.
    concept_skew: how much silos disagree on the angle for the same picture (steering ratio and trim); 0: not at all.
    label_noise: sd of the angles' noise, rad. 0.08-0.10 imitates the error floor of real recordings.
    """

    character: Character
    num_silos: int
    train_frames: int = 500
    test_frames: int = 100
    sizes: Sizes = "equal"
    size_px: int = 100
    channels: int = 1
    label_skew: float = 1.0
    appearance_skew: float = 1.0
    concept_skew: float = 0.0
    label_noise: float = 0.01
    seed: int = 0

    def shape_of(self, count: int) -> tuple[int, int, int, int]:
        """Of `count` frames: [n, C, H, W]."""
        return count, self.channels, self.size_px, self.size_px

    def train_sizes(self) -> list[int]:
        """Training frames of every silo, at least 1 each; their sum is num_silos * train_frames."""
        if self.sizes == "equal":
            return [self.train_frames] * self.num_silos
        ranks = rng_for(self.seed, "roads sizes").permutation(self.num_silos) + 1
        weights = ranks**-POWER
        spare = self.num_silos * (self.train_frames - 1)
        ends = np.rint(np.cumsum(weights) / weights.sum() * spare).astype(int)
        return [1 + int(count) for count in np.diff(ends, prepend=0)]
