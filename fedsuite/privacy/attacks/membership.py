"""Whether a record was trained on, told from a model's score of it.

Yeom et al. (2018, 1709.01604): a record is called a member if its loss is low, here its score high. LiRA (Carlini et al.
2022, 2112.03570, section V): k shadow models are trained on halves of the records, and a record's score x under the attacked
model is compared with its scores under shadows that had it and that had not:

  Lambda = log N(x; mu_in, s_in^2) - log N(x; mu_out, s_out^2)

n records, k shadows; scores [k, n], inside [k, n] whether the shadow was trained on the record. With few shadows s_in and
s_out are of all records together (section VI-C of the paper). Scores are log-odds, nearly normal (section V-B).
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsuite.privacy.attacks.intervals import Interval, bootstrap

FALSE_POSITIVES = 0.01  # of which the share of true positives is told
Train = Callable[[np.ndarray, int], np.ndarray]  # (records of a shadow, its number) -> all scores


def halves(records: int, shadows: int, rng: np.random.Generator) -> np.ndarray:
    """Which shadow has which record [k, n]: each record is in half of them."""
    if shadows < 2 or shadows % 2:
        raise ValueError(f"expected an even number of shadows, at least 2, got {shadows}")
    order = np.argsort(rng.random((shadows, records)), axis=0)
    inside: np.ndarray = np.argsort(order, axis=0) < shadows // 2
    return inside


def shadow_scores(train: Train, inside: np.ndarray) -> np.ndarray:
    """Scores [k, n] of all records under every shadow."""
    return np.stack([train(np.flatnonzero(own), number) for number, own in enumerate(inside)])


def likelihood_ratios(target: np.ndarray, shadows: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Lambda [n] of the attacked model's scores [n]; the higher, the rather a member."""
    if not (inside.any(axis=0) & ~inside.all(axis=0)).all():
        raise ValueError("expected every record inside some shadow and outside another")
    total = np.zeros_like(target, np.float64)
    for sign, mask in ((1.0, inside), (-1.0, ~inside)):
        counts = mask.sum(axis=0)
        mean = np.where(mask, shadows, 0.0).sum(axis=0) / counts
        rest = float((np.where(mask, shadows - mean, 0.0) ** 2).sum())
        variance = max(rest / max(1, int((counts - 1).sum())), 1e-12)
        total += sign * (-((target - mean) ** 2) / (2 * variance) - 0.5 * np.log(variance))
    return total


def auc(members: np.ndarray, others: np.ndarray) -> float:
    """Probability that a member's score is above another's, ties half (Mann and Whitney 1947)."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, members, "left") + np.searchsorted(ordered, members, "right")
    return float(below.mean() / (2 * len(others)))


def true_positives(
    members: np.ndarray, others: np.ndarray, false_positives: float = FALSE_POSITIVES
) -> float:
    """Share of members above a threshold that at most this share of the others is above."""
    allowed = int(np.floor(false_positives * len(others)))
    cut = np.sort(others)[::-1][allowed] if allowed < len(others) else -np.inf
    return float((members > cut).mean())


@dataclass(frozen=True)
class Separation:
    """How well scores separate members from others: AUC and TPR at 1 % FPR with their 95 % intervals; numbers of both."""

    auc: float
    auc_interval: Interval
    tpr: float
    tpr_interval: Interval
    members: int
    others: int


def separation(scores: np.ndarray, member: np.ndarray, rng: np.random.Generator) -> Separation:
    """scores [n], member [n] bool; ValueError unless there are some of both."""
    groups = [scores[member], scores[~member]]
    if not all(map(len, groups)):
        raise ValueError("expected members and others, got one of the two only")
    return Separation(
        auc(*groups),
        bootstrap(auc, groups, rng),
        true_positives(*groups),
        bootstrap(true_positives, groups, rng),
        *map(len, groups),
    )


def means_by(groups: Sequence[Hashable], scores: np.ndarray) -> Mapping[Hashable, float]:
    """Mean score of every group's records, such as a house's, in order of appearance."""
    names = list(dict.fromkeys(groups))
    place = {name: number for number, name in enumerate(names)}
    of = np.array([place[group] for group in groups])
    sums, counts = np.bincount(of, scores), np.bincount(of)
    return dict(zip(names, (sums / counts).tolist(), strict=True))
