"""Mixing that withstands hostile neighbours: what one of them can do to a silo is bounded.

  mean          theta_i + sum_j A_ij (theta_j - theta_i)                                             withstands nobody
  clipped       theta_i + sum_j A_ij (theta_j - theta_i) min(1, tau_i / ||theta_j - theta_i||),      any number, each bounded
                tau_i = rho ||own local change of i in this step|| (ClippedGossip: He et al. 2022)
  trimmed-mean  per number the mean of oneself and all neighbours without the b lowest and the b     b of >= 2 b neighbours
                highest, unweighted

He et al. take tau_i from the neighbours' distances, which with a single neighbour clips nothing; a silo's own change is out
of everybody's reach. Clipping lowers weights A_ij and leaves the rest to A_ii, so moments of BatchNorm mix as they do with
any A. Lengths are over all floating-point arrays together. A silo that is left with fewer neighbours than 2 b (others did
not answer) keeps its model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fedsuite.arrays import Arrays
from fedsuite.averaging.distances import lengths
from fedsuite.averaging.pairs import squared_distances
from fedsuite.averaging.robust import trimmed
from fedsuite.driving.topology.mixing import Stack, mix


@dataclass(frozen=True)
class Mixed:
    """stacked: new models [N, ...] by name; admitted [N]: how much of its weight with others each silo's model had, 1 all;
    empty where single numbers are weighed; clipped: share of the links on which something was clipped; cut [N]: of how many
    neighbours' models, by receiver, empty where nothing is clipped."""

    stacked: Arrays
    admitted: np.ndarray = field(default_factory=lambda: np.ones(0))
    clipped: float = 0.0
    cut: np.ndarray = field(default_factory=lambda: np.zeros(0, int))


@dataclass(frozen=True)
class MixingLimits:
    """ratio: rho of clipped; tolerated: b of trimmed-mean."""

    ratio: float = 3.0
    tolerated: int = 0


# (models before local training [N, ...], after it, A [N, N], limits) -> mixed.
MixingRule = Callable[[Stack, Stack, np.ndarray, MixingLimits], Mixed]


def weighted(before: Stack, stacked: Stack, a: np.ndarray, limits: MixingLimits) -> Mixed:
    """theta_i <- sum_j A_ij theta_j."""
    return Mixed(mix(stacked, a))


def clipped(before: Stack, stacked: Stack, a: np.ndarray, limits: MixingLimits) -> Mixed:
    """Self-centred clipping; A without negative entries."""
    reach = limits.ratio * np.array([lengths(*pair)[0] for pair in _pairs(before, stacked)])
    links = (a != 0) & ~np.eye(len(a), dtype=bool)
    distance = np.sqrt(squared_distances([after[0] for _, after in _pairs(before, stacked)]))
    reach = np.broadcast_to(reach[:, None], a.shape)
    factor = np.divide(reach, distance, out=np.ones_like(a), where=distance > reach)
    kept = np.where(links, a * factor, 0.0)
    given = np.where(links, a, 0.0).sum(axis=0)
    admitted = np.where(given > 0, kept.sum(axis=0) / np.where(given > 0, given, 1.0), 1.0)
    cut = links & (factor < 1)
    by_receiver = cut.sum(axis=1)
    lowered = kept + np.diag(1.0 - kept.sum(axis=1))
    lowered = np.where(by_receiver[:, None] > 0, lowered, a)  # a row depends on its own links alone
    share = float(cut.sum() / max(1, links.sum()))
    return Mixed(mix(stacked, lowered), admitted, share, by_receiver)


def trimmed_mean(before: Stack, stacked: Stack, a: np.ndarray, limits: MixingLimits) -> Mixed:
    """Neighbour-wise trimmed mean; whole numbers stay with their silo."""
    near = [np.flatnonzero(row) for row in (a != 0) | np.eye(len(a), dtype=bool)]
    mixed: Arrays = {}
    for name, values in stacked.items():
        mixed[name] = values
        if values.dtype.kind == "f":
            rows = [
                trimmed(values[members], limits.tolerated)
                if len(members) > 2 * limits.tolerated
                else own
                for own, members in zip(values, near, strict=True)
            ]
            mixed[name] = np.array(rows, values.dtype)
    return Mixed(mixed)


MIXING_RULES: Mapping[str, MixingRule] = {
    "mean": weighted, "clipped": clipped, "trimmed-mean": trimmed_mean,
}  # fmt: skip


def _pairs(before: Stack, after: Stack) -> list[tuple[Arrays, list[Arrays]]]:
    """Every silo's arrays before and after its training."""
    size = len(next(iter(after.values())))
    return [
        ({k: v[i] for k, v in before.items()}, [{k: v[i] for k, v in after.items()}])
        for i in range(size)
    ]
