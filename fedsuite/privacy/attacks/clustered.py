"""Means and AUCs of records that hang together, such as steps of one episode or windows of one map, with 95 % intervals.

Of G clusters, each of which counts once: with r_g the sum over its records of what they add to the estimate's error,

    interval   estimate ± t sqrt(G / (G - 1) sum_g r_g^2)       t: 97.5 % quantile of Student's law, G - 1 degrees of freedom
    mean       r_i = (x_i - mean) / n
    AUC        r_i = (V_i - AUC) / n_1 of positives, V_i the share of the n_0 negatives below, ties half; of negatives the
               same the other way round (DeLong et al. 1988; in clusters: Obuchowski 1997)

Copies of a record in its cluster make no interval narrower.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Estimate:
    """value with its 95 % interval; the ends are NaN for fewer than two clusters."""

    value: float
    low: float
    high: float


def mean_of(values: np.ndarray, clusters: np.ndarray) -> Estimate:
    """Of values [n] in clusters [n], named by any numbers."""
    values = np.asarray(values, np.float64)
    mean = float(values.mean())
    return _estimate(mean, (values - mean) / len(values), clusters)


def mean_auc(scores: np.ndarray, positive: np.ndarray, clusters: np.ndarray) -> Estimate:
    """Mean over C questions of their AUCs: scores and labels [n, C], clusters [n]. Questions with one answer are left out;
    NaN where none is left."""
    areas, errors = [], []
    for own, labels in zip(scores.T, np.asarray(positive, bool).T, strict=True):
        if labels.any() and not labels.all():
            area, error = _area(own, labels)
            areas.append(area)
            errors.append(error)
    if not areas:
        return Estimate(math.nan, math.nan, math.nan)
    return _estimate(float(np.mean(areas)), np.mean(errors, axis=0), clusters)


def correlation(x: np.ndarray, y: np.ndarray, clusters: np.ndarray) -> Estimate:
    """Pearson's of x and y [n]; NaN where one of them does not vary. Error: z_x z_y - r (z_x^2 + z_y^2) / 2, over n."""
    x, y = (np.asarray(v, np.float64) for v in (x, y))
    if x.std() == 0 or y.std() == 0:
        return Estimate(math.nan, math.nan, math.nan)
    a, b = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    r = float((a * b).mean())
    return _estimate(r, (a * b - r * (a * a + b * b) / 2) / len(x), clusters)


def _area(scores: np.ndarray, positive: np.ndarray) -> tuple[float, np.ndarray]:
    """AUC, and what each record adds to its error [n]."""
    ones, zeros = int(positive.sum()), int((~positive).sum())
    ranks = stats.rankdata(scores)  # from 1; ties share their mean rank
    share = np.empty(len(scores))
    share[positive] = (ranks[positive] - stats.rankdata(scores[positive])) / zeros
    share[~positive] = 1 - (ranks[~positive] - stats.rankdata(scores[~positive])) / ones
    area = float(share[positive].mean())
    return area, (share - area) / np.where(positive, ones, zeros)


def _estimate(value: float, errors: np.ndarray, clusters: np.ndarray) -> Estimate:
    _, places = np.unique(clusters, return_inverse=True)
    sums = np.bincount(places, errors)
    count = len(sums)
    if count < 2:
        return Estimate(value, math.nan, math.nan)
    reach = float(stats.t.ppf(0.975, count - 1))
    reach *= math.sqrt(count / (count - 1) * float(sums @ sums))
    return Estimate(value, value - reach, value + reach)
