"""Walkers that learn nothing: what a score has to be held against."""

from collections.abc import Iterable, Sequence

import numpy as np

from fedsuite.settings.metrics import Metric
from fedsuite.vln.data.dataset import House, Sample
from fedsuite.vln.evaluation.metrics import episode_metrics

HOPS = 5
REPEATS = 10


def random_walks(
    house: House, samples: Sequence[Sample], rng: np.random.Generator
) -> list[list[int]]:
    """One walk per sample, from its start: HOPS hops to neighbours drawn uniformly, then stop."""
    here = np.array([s.path[0] for s in samples])
    walks, count = [here], house.candidates.count
    for _ in range(HOPS):
        slot = (rng.random(len(here)) * count[here]).astype(np.int64)
        here = house.candidates.viewpoint[here, slot]
        walks.append(here)
    return [list(map(int, w)) for w in np.stack(walks, 1)]


def random_walk_scores(
    houses: Iterable[House], split: str, rng: np.random.Generator, own: Sequence[Metric] = ()
) -> dict[str, float]:
    """Mean metrics of random walks over all samples of a split, REPEATS walks per sample."""
    scores: list[dict[str, np.ndarray]] = []
    for house in houses:
        samples = list(house.samples.get(split, ())) * REPEATS
        if samples:
            walks = random_walks(house, samples, rng)
            truth = [s.path for s in samples]
            scores.append(episode_metrics(house.graph.distance_m, walks, truth, own=own))
    return {k: float(np.concatenate([s[k] for s in scores]).mean()) for k in scores[0]}
