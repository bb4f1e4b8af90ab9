"""Which words a house uses, read off one update of its word embedding.

A row of an embedding table gets a gradient if its word was read, and otherwise none (Melis et al. 2019, 1805.04049, section
4.1): whoever sees the table before and after a visit sees which rows have moved.

V words of the vocabulary, E size of an embedding; `moved` [V] is the Euclidean length of every row's change. Where all rows
have moved, because of noise or quantisation, the attacker takes the longer ones of two groups (`intervals.between`).
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from fedsuite.privacy.attacks.intervals import Interval, between, bootstrap, clopper_pearson


def row_lengths(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """[V, E] twice -> how far each row has moved [V], float64."""
    if before.shape != after.shape or before.ndim != 2:
        raise ValueError(
            f"expected two tables [V, E] of equal shape, got {before.shape} and {after.shape}"
        )
    length: np.ndarray = np.linalg.norm(after.astype(np.float64) - before, axis=1)
    return length


def told_words(moved: np.ndarray) -> np.ndarray:
    """Which words [V] the attacker says are used."""
    return np.asarray(moved > between(moved))


@dataclass(frozen=True)
class WordsFound:
    """told, used: of `n` words that could be, how many the attacker named, and how many the house uses; right: both.

    rank: Spearman's correlation of a used word's move with how often it is used; NaN for fewer than two counts. low, high:
    95 % interval of each measure.
    """

    told: int
    used: int
    right: int
    n: int
    rank: float
    intervals: dict[str, Interval]

    @property
    def precision(self) -> float:
        return self.right / self.told if self.told else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.used if self.used else 0.0

    @property
    def f_score(self) -> float:
        return f_score(self.told, self.used, self.right)

    @property
    def chance(self) -> dict[str, float]:
        """What naming as many words at random reaches on average."""
        right = self.told * self.used / self.n if self.n else 0.0
        share = {"precision": self.used, "recall": self.told}
        found = {name: count / self.n if self.n else 0.0 for name, count in share.items()}
        return {**found, "F-score": f_score(self.told, self.used, right), "Spearman": 0.0}


def f_score(told: float, used: float, right: float) -> float:
    """Harmonic mean of precision and recall; 0 where nothing was right."""
    return 2 * right / (told + used) if told + used else 0.0


def score_words(moved: np.ndarray, uses: np.ndarray, rng: np.random.Generator) -> WordsFound:
    """Score the attack on words of one or more houses, one below the other: moved, uses [n] of each word in its house.

    Rows of symbols that every instruction has are to be left out by the caller.
    """
    told = told_words(moved)
    return score_told(told, moved, uses, rng)


def score_told(
    told: np.ndarray, moved: np.ndarray, uses: np.ndarray, rng: np.random.Generator
) -> WordsFound:
    """The same where it is known what the attacker said [n]."""
    used = uses > 0
    hits, named, there = int((told & used).sum()), int(told.sum()), int(used.sum())
    pairs = np.stack([told, used], axis=1)
    counted = np.stack([moved[used], uses[used]], axis=1)

    def f_of(rows: np.ndarray) -> float:
        return f_score(rows[:, 0].sum(), rows[:, 1].sum(), rows.all(axis=1).sum())

    intervals = {
        "precision": clopper_pearson(hits, named),
        "recall": clopper_pearson(hits, there),
        "F-score": bootstrap(f_of, [pairs], rng),
        "Spearman": bootstrap(spearman, [counted], rng) if there else (np.nan, np.nan),
    }
    return WordsFound(named, there, hits, len(told), spearman(counted), intervals)


def spearman(pairs: np.ndarray) -> float:
    """Rank correlation of the two columns [n, 2]; NaN where one of them is constant."""
    if len(pairs) < 2:
        return float("nan")
    ranks = [rankdata(column) for column in pairs.T]
    centred = [rank - rank.mean() for rank in ranks]
    scale = float(np.sqrt((centred[0] ** 2).sum() * (centred[1] ** 2).sum()))
    return float(centred[0] @ centred[1]) / scale if scale > 0 else float("nan")
