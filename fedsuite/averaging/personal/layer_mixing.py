"""Layer-wise mixing: a client learns of every array of the model how much of it should be its own.

After APFL (Deng et al. 2020, 2003.13461), with a weight for each array l in the place of one for all:

  w, v_k    the server's model; the client's own one, what its last visit ended with
  a_l       the own model's part in array l, `own-weight` at first; x_l = a_l v_l + (1 - a_l) w_l is what scores
  eta_a     `own-weight-rate`: 0 = the weights stay

A visit takes the gradient at x on one mini-batch, moves a_l <- a_l - eta_a <grad_l f(x), v_l - w_l>, cut to [0, 1], and
trains from x with the new weights. What it ends with is sent, and is the next v_k. a = 0 is FedAvg, a = 1 training alone.
"""

import numpy as np

from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.averaging.local_method import Left, LocalMethod, Visit
from fedsuite.averaging.personal.blending import blended, cut, slope

OWN, WEIGHT = "own.", "weight."


def train(visit: Visit) -> Left:
    """Weights first, then the model; a first visit has nothing to weigh."""
    settings, received = visit.settings.federation, visit.received
    weights = under_prefix(visit.kept, WEIGHT)
    weights = weights or {k: np.array(settings.own_weight) for k in received}
    own = under_prefix(visit.kept, OWN) or received
    if visit.kept and settings.own_weight_rate:
        (at,) = visit.by_steps("weights").gradients(blended(own, received, weights))
        for name, gradient in at.gradient.items():
            rise = slope({name: gradient}, own, received)
            weights[name] = np.array(cut(weights[name] - settings.own_weight_rate * rise))
    learnt = visit.learn(blended(own, received, weights))
    kept = {**with_prefix(learnt.model, OWN), **with_prefix(weights, WEIGHT)}
    return Left(learnt.model, learnt.report, kept)


def scored(received: Arrays, kept: Arrays) -> Arrays:
    """With the mix, or the server's model where there is no own one yet."""
    own = under_prefix(kept, OWN)
    return blended(own, received, under_prefix(kept, WEIGHT)) if own else received


LAYER_MIXING = LocalMethod(train, scored, by_steps=True)
