"""How well walks follow instructions: the R2R metrics of FedVLN for a batch of episodes.

Source: NE, OSR, SR, TL: R2R (Anderson et al. 2018); SPL: Anderson et al. 2018 (On evaluation of
embodied navigation agents); CLS: Jain et al. 2019; nDTW, SDTW: Ilharco et al. 2019; all as scored
by FedVLN (Zhou & Wang 2022). Scores of a data set are the means over its episodes.

Symbols: d(u, v) shortest-path length in the house's graph, m; P = p_0..p_m the walk, R = r_0..r_n
the reference, r_0 the start, g = r_n the goal; s = success radius, 3 m, compared with `<`.

    ne     d(p_m, g), m: the last viewpoint counts as the stop, with or without a stop action
    sr     1 if ne < s                      osr    1 if min_i d(p_i, g) < s
    tl     sum_i d(p_i, p_i+1), m           steps  m, repeats counted
    spl    sr * l / max(l, tl, 0.01) with l = d(r_0, g)
    ndtw   exp(-DTW(P, R) / (s (n + 1))), DTW with cost d(p_i, r_j)
    sdtw   sr * ndtw
    cls    PC * LS; PC = mean_j exp(-min_i d(r_j, p_i) / s); EL = PC * (length of R);
           LS = EL / (EL + |EL - tl|), 1 if EL = tl = 0 (nothing to walk, nothing walked)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsuite.settings.metrics import Metric

SHORTEST_M = 0.01  # SPL's guard against episodes that start at their goal
HEADINGS = 12


@dataclass(frozen=True)
class _Paths:
    """B paths of at most T viewpoints: node [B, T], padded with each path's last; count [B]."""

    node: np.ndarray
    count: np.ndarray


@dataclass(frozen=True)
class Walks:
    """What a metric of one's own is computed of: B walks and their references.

    distance_m [P, P]: shortest-path lengths; walked, references: viewpoint indices of each, the start first; length_m,
    reference_m [B]: their lengths; scores: the nine metrics, [B] each.
    """

    distance_m: np.ndarray
    walked: Sequence[Sequence[int]]
    references: Sequence[Sequence[int]]
    length_m: np.ndarray
    reference_m: np.ndarray
    scores: Mapping[str, np.ndarray]


def episode_metrics(
    distance_m: np.ndarray,
    predicted: Sequence[Sequence[int]],
    reference: Sequence[Sequence[int]],
    success_radius_m: float = 3.0,
    own: Sequence[Metric] = (),
) -> dict[str, np.ndarray]:
    """The nine metrics of B episodes and those of `own`, each [B] float64.

    distance_m [P, P]: shortest-path lengths, inf where there is no path. predicted, reference:
    viewpoint indices 0..P-1, the start first; both of an episode have the same start, and the
    viewpoints of a reference are connected (ValueError otherwise).
    """
    distance_m = np.asarray(distance_m, np.float64)
    walk = _padded("predicted", predicted, len(distance_m))
    truth = _padded("reference", reference, len(distance_m))
    truth_length_m = _lengths_m(distance_m, truth)
    _check_episodes(walk, truth, truth_length_m)
    start, goal = truth.node[:, 0], truth.node[:, -1]
    to_goal_m = distance_m[walk.node, goal[:, None]]
    ne, tl = to_goal_m[:, -1], _lengths_m(distance_m, walk)
    sr = (ne < success_radius_m).astype(np.float64)
    shortest_m = distance_m[start, goal]
    # [B, T, n]: every viewpoint of a walk against every viewpoint of its reference
    cost_m = distance_m[walk.node[:, :, None], truth.node[:, None, :]]
    ndtw = np.exp(-_warped_cost_m(cost_m, walk, truth) / (success_radius_m * truth.count))
    scores = {
        "ne": ne,
        "osr": (to_goal_m.min(1) < success_radius_m).astype(np.float64),
        "sr": sr,
        "spl": sr * shortest_m / np.maximum(np.maximum(shortest_m, tl), SHORTEST_M),
        "cls": _coverage(cost_m, truth, success_radius_m, truth_length_m, tl),
        "ndtw": ndtw,
        "sdtw": sr * ndtw,
        "tl": tl,
        "steps": walk.count - 1.0,
    }
    walks = Walks(distance_m, predicted, reference, tl, truth_length_m, scores)
    return scores | {m.name: m.values(len(tl), walks) for m in own}


def goal_progress_m(
    distance_m: np.ndarray,
    predicted: Sequence[Sequence[int]],
    goals: Sequence[Sequence[int]],
) -> np.ndarray:
    """GP [B] of NDH (Thomason et al. 2019): d(p_0, G) - d(p_m, G), m, d to the nearest viewpoint of the region G."""
    pairs = zip(predicted, goals, strict=True)
    found = [distance_m[[p[0], p[-1]]][:, list(g)].min(1) for p, g in pairs]
    return np.array([start - end for start, end in found], np.float64)


def _padded(name: str, paths: Sequence[Sequence[int]], viewpoints: int) -> _Paths:
    count = np.array([len(p) for p in paths], np.int64)
    if (count == 0).any():
        raise ValueError(f"{name}[{int(count.argmin())}] is empty; a path holds at least its start")
    width = int(count.max(initial=1))
    node = np.array([[*p, *[p[-1]] * (width - len(p))] for p in paths]).reshape(-1, width)
    if node.size and (node.dtype.kind not in "iu" or node.min() < 0 or node.max() >= viewpoints):
        raise ValueError(
            f"{name}: expected viewpoint indices 0..{viewpoints - 1}, "
            f"got {node.dtype} {node.min()} to {node.max()}"
        )
    return _Paths(node.astype(np.int64), count)


def _check_episodes(walk: _Paths, truth: _Paths, truth_length_m: np.ndarray) -> None:
    if len(walk.count) != len(truth.count):
        raise ValueError(f"{len(walk.count)} predicted paths but {len(truth.count)} references")
    for b in np.flatnonzero(walk.node[:, 0] != truth.node[:, 0]):
        raise ValueError(
            f"episode {b}: the predicted path starts at viewpoint {walk.node[b, 0]}, "
            f"its reference at {truth.node[b, 0]}"
        )
    for b in np.flatnonzero(~np.isfinite(truth_length_m)):
        raise ValueError(f"episode {b}: the reference has viewpoints without a path between them")


def _lengths_m(distance_m: np.ndarray, paths: _Paths) -> np.ndarray:
    """Length of each path [B]; repeats, and so the padding, add nothing."""
    total_m: np.ndarray = distance_m[paths.node[:, :-1], paths.node[:, 1:]].sum(1)
    return total_m


def _warped_cost_m(cost_m: np.ndarray, walk: _Paths, truth: _Paths) -> np.ndarray:
    """DTW(P, R) [B]: cheapest alignment with moves (i-1, j), (i, j-1), (i-1, j-1).

    All episodes at once, by anti-diagonals: the cells of one depend only on the two before it,
    `last` and `previous`, which run over i, shifted by one so that [:, 0] is the infinite border.
    """
    batch, rows, columns = cost_m.shape
    end = walk.count + truth.count - 2  # the anti-diagonal of a path's last cell
    answer = np.empty(batch)
    last, previous = np.full((2, batch, rows + 1), np.inf)
    previous[:, 0] = 0.0  # DTW(0, 0), left of and above the first cell
    for diagonal in range(rows + columns - 1):
        i = np.arange(max(0, diagonal - columns + 1), min(rows, diagonal + 1))
        current = np.full((batch, rows + 1), np.inf)
        best = np.minimum(np.minimum(last[:, i], last[:, i + 1]), previous[:, i])
        current[:, i + 1] = cost_m[:, i, diagonal - i] + best
        done = np.flatnonzero(end == diagonal)
        answer[done] = current[done, walk.count[done]]
        last, previous = current, last
    return answer


def _coverage(
    cost_m: np.ndarray, truth: _Paths, radius_m: float, truth_length_m: np.ndarray, tl_m: np.ndarray
) -> np.ndarray:
    """CLS [B]. Padding of the walk repeats its last viewpoint, so that it changes no minimum."""
    near = np.exp(-cost_m.min(1) / radius_m)
    valid = np.arange(near.shape[1]) < truth.count[:, None]  # not padding
    coverage = np.where(valid, near, 0.0).sum(1) / truth.count
    expected_m = coverage * truth_length_m
    apart_m = expected_m + np.abs(expected_m - tl_m)
    length_score = np.divide(expected_m, apart_m, out=np.ones_like(tl_m), where=apart_m > 0)
    score: np.ndarray = coverage * length_score
    return score


def published_trajectory(viewpoints: Sequence[int], views: Sequence[int]) -> list[int]:
    """The walk with the repeats that EnvDrop's and FedVLN's R2R code records.

    viewpoints[i] is where the agent is after i moves and views[i] (0..35) where it looks then: views[0] is the initial
    view, views[i] the view in which it saw viewpoints[i] from viewpoints[i-1] (a move keeps the camera's direction).
    Before move i the old viewpoint is recorded again for each tilt by 30 degrees and each turn by 30 degrees to the right
    (the agent never turns left: up to 11 of them), then the new viewpoint once. Stopping records nothing.

    ne, sr, osr, spl, tl and cls do not change; ndtw and sdtw as published are of these walks, and lower.
    """
    if len(viewpoints) != len(views) or not viewpoints:
        raise ValueError(
            f"expected one view for each of at least one viewpoint, got {len(viewpoints)} "
            f"viewpoints and {len(views)} views"
        )
    entries = [viewpoints[0]]
    for i in range(1, len(viewpoints)):
        (row, column), (next_row, next_column) = (divmod(v, HEADINGS) for v in views[i - 1 : i + 1])
        movements = abs(next_row - row) + (next_column - column) % HEADINGS
        entries += [viewpoints[i - 1]] * movements + [viewpoints[i]]
    return entries
