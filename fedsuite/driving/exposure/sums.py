"""What the server of a secure sum gets when every silo makes one more step: the mean of their changes, and no single one.

Silos clip, weigh, round and noise their changes as members of the run do (masked_vectors.py and noised_sums.py of
fedsuite/privacy); masks, which cancel, are left out. Everybody's change arrives, so that all silos hide each other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsuite.arrays import Arrays
from fedsuite.averaging.merging import relative_weights
from fedsuite.averaging.privacy_settings import CLIENT
from fedsuite.driving.exposure.followed import Follower
from fedsuite.driving.exposure.visits import ExposedSilo, Visit
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network
from fedsuite.privacy.masked_vectors import WORD
from fedsuite.privacy.sum_terms import CLIP_RULE, terms_of
from fedsuite.randomness import rng_for
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Checkpoints
from fedsuite.settings.values import Value


@dataclass(frozen=True)
class Sum:
    """visits: of all silos; mean: of their changes, float64 by array; follower: of all sums."""

    visits: list[Visit]
    mean: Arrays
    follower: Follower

    def gradient(self, name: str) -> np.ndarray:
        """What a follower of all sums solves for, as Visit.gradient of one silo: all of its terms are linear, but Adam's, of
        which a sum tells nothing. Of control variates the server is sent the plain mean."""
        return self.follower.gradient(name, self._direction(name))

    def signs(self, name: str) -> np.ndarray:
        """Of that gradient."""
        return self.follower.signs(name, self._direction(name))

    def _direction(self, name: str) -> np.ndarray:
        return np.asarray(-self.mean[name] / self.visits[0].rate)


def steps_in_a_sum(
    silos: Sequence[ExposedSilo],
    changes: Mapping[str, Value],
    turn: int,
    clip: float | None = None,
) -> Sum:
    """Step `turn` after the run's last of each silo.

    changes: settings other than the run's; clip: the norm C to which members of noised sums clip, None = the settings'
    own. Who clips cannot be followed. ValueError for a run without secure sums.
    """
    config = silos[0].config
    terms = terms_of(config)
    if terms is None:
        raise ValueError("expected a run with federation.secure-sum = true, got one without")
    visits = [silo.visit(changes, turn) for silo in silos]
    counts = [len(silo.silo.train) if terms.counted else 1 for silo in silos]
    weights = relative_weights(counts, terms.most)
    levels = terms.levels(len(silos), len(silos), clip)
    names = sorted(names_of(initial_network(config), config).mixed)
    total: np.ndarray = np.zeros(1, WORD)
    for silo, visit, weight in zip(silos, visits, weights.tolist(), strict=True):
        change = [visit.after[k].astype(np.float64) - visit.before[k] for k in names]
        noise = rng_for(config.seed, "noise of an audited sum", turn, silo.number)
        flat = np.concatenate([part.ravel() for part in change])
        total = total + levels.rounded(flat, weight, noise)
    mean, _ = levels.mean(total, weights)
    one = visits[0].follower
    known = {
        k: np.average([v.follower.known[k] for v in visits], axis=0, weights=weights)
        for k in one.known
        if one.sized and config.privacy.unit != CLIENT
    }
    found, at = Arrays(), 0
    for name in names:
        shape = visits[0].before[name].shape
        found[name] = mean[at : at + math.prod(shape)].reshape(shape)
        at += math.prod(shape)
    told = {k: np.mean([v.follower.told[k] for v in visits], axis=0) for k in one.told}
    return Sum(visits, found, replace(one, known=known, told=told))


def clip_of(run: RunFolder) -> float | None:
    """C of the run's next round, where it adapts; else None."""
    last = Checkpoints(run.checkpoints).latest()
    clip = last.state.rules.get(CLIP_RULE) if last else None
    return None if clip is None else float(clip)
