"""Hostile clients, in simulation only: what they send instead of their update, to see what a merge rule withstands.

A saboteur's change is d = w_k - w; mu and s are mean and standard deviation, number by number, of the honest changes of the
round, which saboteurs are taken to know. An optimizer's state and control variates, where they travel beside the model, go
as they are. With n clients of which m are hostile:

  sign-flip    w - c d, c = 1
  scale        w + c d, c = 100
  gaussian     w + N(0, (c std(d))^2), array by array, c = 1
  alie         w + mu - c s, "a little is enough" (Baruch et al. 2019); with h = floor(n / 2 + 1) - m honest ones to be
               outdone, c = Phi^-1((n - m - h) / (n - m))
  ipm          w - c mu, inner-product manipulation (Xie et al. 2020), c = 0.5
  weight-lie   an honest update, for which 10^15 samples are claimed
  label-flip   an honest update on false labels: left and right swapped in instructions, steering angles negated
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fedsuite.arrays import Arrays, Named

CLAIMED = 10**15  # samples that a weight-lie claims


@dataclass(frozen=True)
class Known:
    """What saboteurs know of a round. changes: d of every honest client in it, of which alie and ipm need one to hide among,
    () for attacks that are not KNOWING; hostile: m; scale: c, None = the attack's own; rng: of this round and client."""

    changes: Sequence[Named]
    hostile: int
    scale: float | None
    rng: np.random.Generator


# (w, own w_k, what is known) -> what is sent, float64; what it has no name of is sent as it is.
Attack = Callable[[Named, Named, Known], Arrays]


def change(start: Named, end: Named) -> Arrays:
    """d = w_k - w of the floating-point arrays, float64."""
    return {k: v - start[k].astype(np.float64) for k, v in end.items() if v.dtype.kind == "f"}


def along_own(default: float) -> Attack:
    """w + c d."""

    def attack(start: Named, own: Named, known: Known) -> Arrays:
        c = default if known.scale is None else np.sign(default) * known.scale
        return {k: start[k] + c * d for k, d in change(start, own).items()}

    return attack


def gaussian(start: Named, own: Named, known: Known) -> Arrays:
    """Noise as large as the own change."""
    c = 1.0 if known.scale is None else known.scale
    moves = sorted(change(start, own).items())
    return {k: start[k] + known.rng.normal(0.0, c * d.std(), d.shape) for k, d in moves}


def a_little(start: Named, own: Named, known: Known) -> Arrays:
    """As far from the honest mean as goes unnoticed, in every number."""
    out: Arrays = {}
    if not known.changes:
        return out
    c = alie_z(len(known.changes) + known.hostile, known.hostile)
    c = c if known.scale is None else known.scale
    for k in change(start, own):
        changes = [d[k] for d in known.changes]
        out[k] = start[k] + np.mean(changes, axis=0) - c * np.std(changes, axis=0)
    return out


def against_the_mean(start: Named, own: Named, known: Known) -> Arrays:
    """w - c mu."""
    c = 0.5 if known.scale is None else known.scale
    names = change(start, own) if known.changes else ()
    return {k: start[k] - c * np.mean([d[k] for d in known.changes], axis=0) for k in names}


def alie_z(clients: int, hostile: int) -> float:
    """How many deviations n clients with m hostile ones leave unnoticed; 0 if none, or if the honest are too few."""
    needed, honest = clients // 2 + 1 - hostile, clients - hostile
    share = (honest - needed) / honest
    return NormalDist().inv_cdf(share) if 0 < share < 1 else 0.0


ATTACKS: Mapping[str, Attack] = {
    "sign-flip": along_own(-1.0),
    "scale": along_own(100.0),
    "gaussian": gaussian,
    "alie": a_little,
    "ipm": against_the_mean,
}
KNOWING = frozenset({"alie", "ipm"})  # those that look at the changes of all honest clients
