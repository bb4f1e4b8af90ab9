"""APFL (Deng et al. 2020, 2003.13461, Algorithm 1): a client is scored with a mix of its own model and the common one.

  w            the server's model, as a visit trains it; it is sent
  v_k          the client's own model, the server's at first
  alpha        the own model's part in the mix, `own-weight` at first; v' = alpha v + (1 - alpha) w is what scores
  eta_alpha    `own-weight-rate`: 0 = alpha stays

In every step, all from the values before it and on one mini-batch, with the client's optimizer in the place of "- lr":

  w     <- w - lr grad f(w)
  v     <- v - lr alpha grad f(v')                                     (the chain rule's alpha; some programs leave it out)
  alpha <- alpha - eta_alpha <grad f(v'), v - w>, cut to [0, 1]

A step takes two gradients: a visit costs twice the time.
"""

import numpy as np

from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.averaging.local_method import Left, LocalMethod, Visit
from fedsuite.averaging.personal.blending import blended, cut, slope

OWN, WEIGHT = "own.", "weight"


def train(visit: Visit) -> Left:
    """All of the algorithm's loop."""
    settings, shared = visit.settings.federation, visit.received
    own = under_prefix(visit.kept, OWN) or shared
    alpha = float(visit.kept.get(WEIGHT, settings.own_weight))
    steps = visit.by_steps()
    for _ in range(visit.steps):
        at_shared, at_mix = steps.gradients(shared, _mix(own, shared, alpha))
        rise = slope(at_mix.gradient, own, shared)
        shared = steps.stepped(shared, at_shared)
        own = steps.stepped(own, at_mix, "own", factor=alpha)
        alpha = cut(alpha - settings.own_weight_rate * rise)
    return Left(shared, steps.report(), {**with_prefix(own, OWN), WEIGHT: np.array(alpha)})


def scored(received: Arrays, kept: Arrays) -> Arrays:
    """With the mix, or the server's model where there is no own one yet."""
    own = under_prefix(kept, OWN)
    return _mix(own, received, float(kept[WEIGHT])) if own else received


def _mix(own: Arrays, shared: Arrays, alpha: float) -> Arrays:
    return blended(own, shared, dict.fromkeys(shared, alpha))


APFL = LocalMethod(train, scored, by_steps=True)
