"""Whether frames of a step are found among others of the same silos: which others, and what share of attacks did so."""

import math
from collections.abc import Sequence

import numpy as np

from fedsuite.driving.data.frames import Frames
from fedsuite.driving.exposure.visits import ExposedSilo
from fedsuite.privacy.attacks.intervals import clopper_pearson
from fedsuite.privacy.findings import Finding
from fedsuite.randomness import rng_for

AMONG = 99  # frames that are not in the steps, among which one that is has to be found
MOST_TOLD = 0.95  # what a control has to reach, a share


def distractors(silo: ExposedSilo, frames: Frames, turn: int, most: int) -> Frames:
    """Training frames of the silo that are not among `frames`, drawn by turn."""
    train = silo.silo.train
    order = rng_for(silo.config.seed, "distracting frames", turn, silo.number).permutation(
        len(train)
    )
    used = {image.tobytes() for image in frames.images}
    rows = [i for i in order if np.asarray(train.images[i]).tobytes() not in used][:most]
    return Frames(np.array(train.images[rows]), np.array(train.angles[rows]))


def share_among(others: Sequence[int]) -> str:
    """The measure: how many others there were, by attack."""
    fewest, most = min(others), max(others)
    return f"share found among {f'{most}' if fewest == most else f'{fewest} to {most}'} others"


def share_of_hits(
    attack: str, attacker: str, target: str, measure: str, hits: Sequence[bool], chance: float,
    control: Sequence[bool], note: str, bare: Sequence[bool] = (),
) -> Finding:  # fmt: skip
    """bare: hits without what defends the run, () if nothing does."""
    low, high = clopper_pearson(sum(hits), len(hits))
    return Finding(
        attack, attacker, target, measure, float(np.mean(hits)), chance, float(np.mean(control)),
        MOST_TOLD, len(hits), low, high, note, mean_or_nan(bare),
    )  # fmt: skip


def mean_or_nan(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan
