"""What can be asked of generated roads."""

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args

import numpy as np

from fedsuite.driving.rendering.presets import Character
from fedsuite.errors import InputError
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

    def __post_init__(self) -> None:
        self._one_of("character", get_args(Character))
        self._one_of("sizes", get_args(Sizes))
        self._one_of("channels", (1, 3))
        for name, low, high in (
            ("num_silos", 1, 10_000),
            ("train_frames", 1, 10**7),
            ("test_frames", 1, 10**7),
            ("size_px", 16, 1024),
            ("seed", 0, 2**63),
        ):
            self._whole(name, low, high)
        for name in ("label_skew", "appearance_skew", "concept_skew", "label_noise"):
            self._share(name)

    def _one_of(self, name: str, choices: tuple[object, ...]) -> None:
        value = getattr(self, name)
        if value not in choices:
            raise InputError(f"{name}: expected one of {list(choices)}, got {value!r}; choose one")

    def _whole(self, name: str, low: int, high: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InputError(f"{name}: expected a whole number {low} to {high}, got {value!r}")

    def _share(self, name: str) -> None:
        value = getattr(self, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or not 0 <= value <= 1:
            raise InputError(f"{name}: expected a number from 0 to 1, got {value!r}")

    def as_dict(self) -> dict[str, object]:
        """The settings as plain values, for the index of the frames' folder."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def train_sizes(self) -> list[int]:
        """Training frames of every silo, at least 1 each; their sum is num_silos * train_frames."""
        if self.sizes == "equal":
            return [self.train_frames] * self.num_silos
        ranks = rng_for(self.seed, "roads sizes").permutation(self.num_silos) + 1
        weights = ranks**-POWER
        spare = self.num_silos * (self.train_frames - 1)
        ends = np.rint(np.cumsum(weights) / weights.sum() * spare).astype(int)
        return [1 + int(count) for count in np.diff(ends, prepend=0)]
