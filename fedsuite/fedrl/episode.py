"""What is kept of a played episode, whatever the world."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Step:
    """One step. q: Q-values float32 [A] by party, as they left it (with noise in a test with noise); joint: [A], the shared
    network's, whose largest is the action; reward: what the rewarded party got for it."""

    q: Mapping[str, np.ndarray]
    joint: np.ndarray
    action: int
    reward: float


@dataclass(frozen=True, eq=False)
class Episode:
    """number: in the run's test, from 0; scores: the test's metrics, of this episode alone."""

    number: int
    steps: tuple[Step, ...]
    scores: Mapping[str, float]
