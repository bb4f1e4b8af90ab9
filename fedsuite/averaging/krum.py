"""Merge rules of the Krum family, which go by how near the changes of N clients are to one another.

A client's score is the sum of its smallest squared distances to others, of N - f - 2 of them where f clients are hostile.

  krum        the change with the least score (Blanchard et al. 2017)
  multi-krum  weighted mean of the N - f changes of least score
  bulyan      Krum picks N - 2 f one by one, the M that are left being scored by their max(1, M - f - 2) nearest; per number
              the mean of the N - 4 f picked that are nearest their median (El Mhamdi et al. 2018)

The last that Bulyan picks are scored by their nearest one alone, so that two that are each other's nearest always have
equal scores. The one with the lesser sum of squared distances to those picked so far is taken then, so that the picks do not
depend on who has which number. What is equal in that too goes to the lower partition,
as equal scores of the other two rules do.
"""

from collections.abc import Callable, Sequence

import numpy as np

from fedsuite.arrays import Named
from fedsuite.averaging.blocks import number_by_number
from fedsuite.averaging.merging import Merged, mean
from fedsuite.averaging.pairs import squared_distances

Choice = Callable[[np.ndarray, np.ndarray, int], np.ndarray]  # (squared distances, p, f) -> c
Combine = Callable[[Named, Sequence[Named], np.ndarray, int], Merged]


def weighing(choose: Choice) -> Combine:
    """The rule that weighs whole clients, Delta = sum c_k d_k, by what their squared distances say."""

    def combine(
        server: Named, clients: Sequence[Named], weights: np.ndarray, tolerated: int
    ) -> Merged:
        chosen = choose(squared_distances(clients), weights, tolerated)
        return Merged(mean(server, clients, chosen), np.minimum(1.0, chosen / weights))

    return combine


def krum_scores(squared: np.ndarray, nearest: int) -> np.ndarray:
    """Sums [N] of the `nearest` smallest squared distances to others."""
    others = squared[~np.eye(len(squared), dtype=bool)].reshape(len(squared), -1)
    return np.asarray(np.sort(others, axis=1)[:, :nearest].sum(axis=1))


def krum(squared: np.ndarray, weights: np.ndarray, tolerated: int) -> np.ndarray:
    """Coefficients [N], 1 for the best one."""
    chosen = np.zeros(len(weights))
    chosen[np.argmin(krum_scores(squared, len(weights) - tolerated - 2))] = 1.0
    return chosen


def multi_krum(squared: np.ndarray, weights: np.ndarray, tolerated: int) -> np.ndarray:
    """Coefficients [N], in proportion to p for the N - f best."""
    scores = krum_scores(squared, len(weights) - tolerated - 2)
    best = np.argsort(scores, kind="stable")[: len(weights) - tolerated]
    chosen = np.zeros(len(weights))
    chosen[best] = weights[best]
    return np.asarray(chosen / chosen.sum())


def bulyan_picks(squared: np.ndarray, tolerated: int) -> list[int]:
    """Who is picked, in the order of picking."""
    left, picked = list(range(len(squared))), list[int]()
    while len(picked) < len(squared) - 2 * tolerated:
        nearest = max(1, len(left) - tolerated - 2)
        scores = krum_scores(squared[np.ix_(left, left)], nearest)
        # Sorted, so that the sums are the same however clients are numbered.
        from_picked = np.sort(squared[np.ix_(left, picked)], axis=1).sum(axis=1)
        best = left[int(np.lexsort((from_picked, scores))[0])]
        picked.append(best)
        left.remove(best)
    return picked


def bulyan(server: Named, clients: Sequence[Named], weights: np.ndarray, tolerated: int) -> Merged:
    """Of the picked, number by number, those near the median; unweighted."""
    picked = bulyan_picks(squared_distances(clients), tolerated)
    count = len(clients) - 4 * tolerated
    delta = number_by_number(
        server,
        [clients[k] for k in sorted(picked)],
        lambda x: _near_the_median(np.sort(x, axis=0), count),
    )
    admitted = np.zeros(len(clients))
    admitted[picked] = 1.0
    return Merged(delta, admitted)


def _near_the_median(changes: np.ndarray, count: int) -> np.ndarray:
    """Mean of the `count` changes nearest the median, which of sorted ones stand side by side."""
    middle = np.median(changes, axis=0)
    order = np.argsort(np.abs(changes - middle), axis=0, kind="stable")[:count]
    near: np.ndarray = np.take_along_axis(changes, order, axis=0).mean(axis=0)
    return near
