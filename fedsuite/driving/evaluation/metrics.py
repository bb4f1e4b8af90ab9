"""Steering errors as sums that merge exactly, and the two baselines of the comparison (Do et al. 2024, table 2).

RMSE = sqrt(sum of squares / n), MAE = sum of absolute values / n, over all samples, nothing rounded. (The public code
averages the RMSE of mini-batches of values rounded to 0.01, which for batches of one image is the MAE.)
Baselines know the mean and the standard deviation of the TRAINING labels and no image: "constant" predicts the mean,
"random" draws from Normal(mean, std). Angles in the unit of the labels, left positive.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsuite.driving.metrics import ERRORS
from fedsuite.randomness import rng_for
from fedsuite.settings.metrics import Metric


@dataclass(frozen=True)
class Errors:
    """Sums over frames, by the name that a metric's row has for them, and `count`; rows: the metrics."""

    sums: Mapping[str, float]
    rows: Sequence[Metric] = ERRORS

    @property
    def count(self) -> int:
        return int(self.sums["count"])

    @property
    def scores(self) -> dict[str, float]:
        """Every metric; RMSE and MAE in the unit of the angle. NaN without samples."""
        return {m.name: m.of(self.sums) if self.count else math.nan for m in self.rows}


def errors_of(
    predictions: np.ndarray, angles: np.ndarray, rows: Sequence[Metric] = ERRORS
) -> Errors:
    """Errors of predictions [n] against angles [n]."""
    if predictions.shape != angles.shape or angles.ndim != 1:
        raise ValueError(
            f"predictions and angles: expected both [n], got {predictions.shape} and {angles.shape}"
        )
    both, n = [np.asarray(given, np.float64) for given in (predictions, angles)], len(angles)
    return Errors({m.sent: float(m.values(n, *both).sum()) for m in rows} | {"count": n}, rows)


def merged(parts: Iterable[Errors]) -> Errors:
    """Errors over the union of the samples, one part or more."""
    listed = list(parts)
    return Errors({k: sum(p.sums[k] for p in listed) for k in listed[0].sums}, listed[0].rows)


@dataclass(frozen=True)
class LabelLaw:
    """mean and std (population) of training labels, unit of the angle."""

    mean: float
    std: float


def label_law(parts: Iterable[np.ndarray]) -> LabelLaw:
    """Law of the union of the silos' training labels, each float [n]."""
    listed = [np.asarray(angles, np.float64) for angles in parts]
    count = sum(len(angles) for angles in listed)
    if count == 0:
        raise ValueError("training labels: expected at least one, got none")
    mean = float(sum(angles.sum() for angles in listed) / count)
    variance = sum(np.square(angles - mean).sum() for angles in listed) / count
    return LabelLaw(mean, float(np.sqrt(variance)))


def constant_baseline(law: LabelLaw, angles: np.ndarray, rows: Sequence[Metric] = ERRORS) -> Errors:
    """Errors of predicting the mean of the training labels for angles [n]."""
    return errors_of(np.full(angles.shape, law.mean), angles, rows)


def random_baseline(
    law: LabelLaw, angles: np.ndarray, seed: int, silo: int = 0, rows: Sequence[Metric] = ERRORS
) -> Errors:
    """Errors of drawing every prediction for angles [n] from Normal(mean, std) of the training labels."""
    rng = rng_for(seed, "random steering", partition=silo)
    return errors_of(rng.normal(law.mean, law.std, angles.shape), angles, rows)
