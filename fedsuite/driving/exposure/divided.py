"""One division: the gradient of a network's last layer, of a step or a sum of steps, and whose features come of it.

Features of all frames are alike, so a cosine says little: what counts is whether a frame of the steps is nearer to what came
of it than AMONG others of the same silos. Dropout leaves zeros, up to rounding, which the attack passes over. A guesser
takes the mean features of a silo's held-out frames.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsuite.driving.data.frames import Frames
from fedsuite.driving.exposure.hits import AMONG, distractors
from fedsuite.driving.exposure.visits import ExposedSilo, Visit
from fedsuite.privacy.attacks.inversion import best_match, common_input, label_of_one

NEAR = 0.01  # of an angle that counts as told, in the run's unit
ROUNDING = 0.01  # of the largest feature: what is smaller counts as 0
GUESSED_FROM = 64  # held-out frames


@dataclass(frozen=True)
class Tried:
    """One attacked step, or sum of steps: cosine with the nearest of its frames and that of a guess; whether that frame is
    nearer than all others, of so many frames and others; whether the first one's angle was told, and by the guess."""

    cosine: float
    guessed: float
    found: bool
    frames: int
    others: int
    angle_told: bool
    angle_guessed: bool


@dataclass(frozen=True, eq=False)
class Seen:
    """steps: those that are in what was seen, by silo; weight [1, D] and bias [1]: the last layer's gradient by it."""

    steps: Sequence[tuple[ExposedSilo, Visit]]
    weight: np.ndarray
    bias: np.ndarray


def parts_of(head: str) -> tuple[str, str]:
    return f"{head}.weight", f"{head}.bias"


def divide(seen: Seen, other: ExposedSilo, head: str, turn: int) -> Tried:
    """other: the silo from whose held-out frames a guesser takes its guess."""
    visit = seen.steps[0][1]
    before, truth = visit.before, float(visit.frames.angles[0])
    features = np.concatenate([s.features(v.before, v.frames, v.batch) for s, v in seen.steps])
    apart = np.array_split(np.arange(AMONG), len(seen.steps))  # as many of each silo
    outside = [
        (s, v, distractors(s, v.frames, turn, len(rows)))
        for (s, v), rows in zip(seen.steps, apart, strict=True)
    ]
    others = np.concatenate(
        [features[:0], *(s.features(v.before, f, v.batch) for s, v, f in outside if len(f))]
    )
    public = _first(other.silo.test, GUESSED_FROM)
    guess = other.features(before, public, visit.batch).mean(0)
    angle = float(public.angles.mean())
    angle_guessed, counts = abs(angle - truth) <= NEAR, (len(features), len(others))
    if not seen.bias.any():  # nothing to divide by
        return Tried(0.0, best_match(guess, features), False, *counts, False, angle_guessed)
    found = common_input(seen.weight, seen.bias)
    kept = np.abs(found) > ROUNDING * np.abs(found).max()
    near, guessed = (best_match(x[kept], features[:, kept]) for x in (found, guess))
    first = not len(others) or near > best_match(found[kept], others[:, kept])
    weight, bias = (before[part] for part in parts_of(head))
    told = label_of_one(weight, bias, seen.weight, seen.bias)
    return Tried(near, guessed, first, *counts, abs(told - truth) <= NEAR, angle_guessed)


def _first(frames: Frames, most: int) -> Frames:
    return Frames(np.array(frames.images[:most]), np.array(frames.angles[:most]))
