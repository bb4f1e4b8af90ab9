"""Walks of nobody: every neighbour is as likely as the others, five times in a row."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from fedsuite.vln.data.dataset import House
from fedsuite.vln.evaluation.baselines import HOPS, random_walks


def test_every_hop_is_to_any_neighbour(oak: House) -> None:
    sample = oak.samples["train"][0]
    walks = random_walks(oak, [sample] * 6000, np.random.default_rng(0))
    near = [set(np.flatnonzero(row).tolist()) for row in oak.graph.edge]
    assert {w[0] for w in walks} == {sample.path[0]} and {len(w) for w in walks} == {1 + HOPS}
    assert all(b in near[a] for w in walks for a, b in pairwise(w))
    for place in (1, HOPS):  # of those that came from one place, as many go each way
        before, _ = Counter(w[place - 1] for w in walks).most_common(1)[0]
        gone = Counter(w[place] for w in walks if w[place - 1] == before)
        shares = [gone[n] / gone.total() for n in near[before]]
        assert len(shares) > 1 and shares == pytest.approx(
            [1 / len(shares)] * len(shares), abs=0.06
        )
