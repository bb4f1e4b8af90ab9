"""Steering errors as sums that merge exactly, and the two baselines of the comparison (Do et al. 2024, table 2).

RMSE = sqrt(sum of squares / n), MAE = sum of absolute values / n, over all samples, nothing rounded. (The public code
averages the RMSE of mini-batches of values rounded to 0.01, which for batches of one image is the MAE.)
Baselines know the mean and the standard deviation of the TRAINING labels and no image: "constant" predicts the mean,
"random" draws from Normal(mean, std). Angles in the unit of the labels, left positive.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedsuite.randomness import rng_for


@dataclass(frozen=True)
class Errors:
    """Sums over samples: of squared errors, of absolute errors, and their number."""

    squared: float = 0.0
    absolute: float = 0.0
    count: int = 0

    @property
    def rmse(self) -> float:
        """Root mean squared error, unit of the angle; NaN without samples."""
        return float(np.sqrt(self.squared / self.count)) if self.count else float("nan")

    @property
    def mae(self) -> float:
        """Mean absolute error, unit of the angle; NaN without samples."""
        return self.absolute / self.count if self.count else float("nan")


def errors_of(predictions: np.ndarray, angles: np.ndarray) -> Errors:
    """Errors of predictions [n] against angles [n]."""
    if predictions.shape != angles.shape or angles.ndim != 1:
        raise ValueError(
            f"predictions and angles: expected both [n], got {predictions.shape} and {angles.shape}"
        )
    gap = np.asarray(predictions, np.float64) - np.asarray(angles, np.float64)
    return Errors(float(np.square(gap).sum()), float(np.abs(gap).sum()), len(gap))


def merged(parts: Iterable[Errors]) -> Errors:
    """Errors over the union of the samples."""
    listed = list(parts)
    return Errors(
        sum(p.squared for p in listed),
        sum(p.absolute for p in listed),
        sum(p.count for p in listed),
    )


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


def constant_baseline(law: LabelLaw, angles: np.ndarray) -> Errors:
    """Errors of predicting the mean of the training labels for angles [n]."""
    return errors_of(np.full(angles.shape, law.mean), angles)


def random_baseline(law: LabelLaw, angles: np.ndarray, seed: int, silo: int = 0) -> Errors:
    """Errors of drawing every prediction for angles [n] from Normal(mean, std) of the training labels."""
    rng = rng_for(seed, "random steering", partition=silo)
    return errors_of(rng.normal(law.mean, law.std, angles.shape), angles)
