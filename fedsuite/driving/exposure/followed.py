"""The gradient of a step, or its signs, as whoever has followed a silo from its first step solves for them.

x is a backbone's array as last mixed, x+ what its silo sends, w the weight decay, and d = (x - x+) / eta the direction;
avg, y and g_last are as in mixing_rules.py:

  sgd, relay-sgd      g = d - w x
  nesterov            g = (d - beta^2 b) / (1 + beta) - w x        b the buffer before the step; b+ = beta b + g
  qg-momentum         g = d - beta avg - w x
  qg-nesterov         g = (d - beta^2 avg) / (1 + beta) - w x
  gradient-tracking   g = d - (A y - g_last) - w x                 d = y+, so what is sent beside x+ tells no more than x+
  adam                sign(g) = sign(d - d_0)                      d_0 the direction if g were 0

All of it is known from messages: 0 before the first step, and then by these lines. With u updates between two mixings a
follower has the sum of their gradients (of nesterov a weighted one), w x taken u times.

Adam's steps are the same, but for its epsilon, if all gradients of one number are twice as large, so that nobody solves for
their size; where a gradient is asked for, d is taken as it is. But d grows with g, until that is many times as large as
those before, and d_0 is known from the step before, t - 1, alone, if nothing but g is between the two:

    d_0 = b1 d_{t-1} / sqrt(b2) (1 - b1^(t-1)) / (1 - b1^t) sqrt((1 - b2^t) / (1 - b2^(t-1)))

Of several updates between two mixings the last direction is not seen, and d_0 is taken as 0. Weight decay is part of g.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from fedsuite.arrays import Arrays
from fedsuite.driving.config import TrainingSettings
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS
from fedsuite.driving.optimizers.mixing_rules import AVERAGE, LAST, TRACKER, Constants, Slot

BETAS, EPSILON = (0.9, 0.999), 1e-8  # torch's own for Adam
MEAN, SQUARE = "exp_avg", "exp_avg_sq"  # m and v, as torch calls them

Term = Callable[[Slot, Constants], Tensor | float]


@dataclass(frozen=True)
class Followed:
    """state: what the optimizer's state adds to d, of a slot that is begun; ahead: whether d holds g 1 + beta times; sized:
    whether the rest tells more than signs."""

    state: Term = lambda slot, c: 0.0
    ahead: bool = False
    sized: bool = True

    def share(self, beta: float) -> float:
        """How often the gradient is in d."""
        return 1 + beta if self.ahead else 1.0


def _buffer(slot: Slot, c: Constants) -> Tensor | float:
    return sum(c.beta ** (j + 2) for j in range(c.updates)) * slot.get("momentum_buffer", 0.0)


def _standing(slot: Slot, c: Constants) -> Tensor | float:
    if MEAN not in slot or c.updates > 1:
        return 0.0
    (b1, b2), t = BETAS, float(slot["step"]) + 1
    m, v = (slot[k].double() * b / (1 - b**t) for k, b in ((MEAN, b1), (SQUARE, b2)))
    return m / (v.sqrt() + EPSILON)


FOLLOWED: Mapping[str, Followed] = {
    "sgd": Followed(),
    "relay-sgd": Followed(),
    "nesterov": Followed(_buffer, ahead=True),
    "qg-momentum": Followed(lambda slot, c: c.updates * c.beta * slot[AVERAGE]),
    "qg-nesterov": Followed(lambda slot, c: c.updates * c.beta**2 * slot[AVERAGE], ahead=True),
    "gradient-tracking": Followed(lambda slot, c: slot[TRACKER] - slot[LAST]),
    "adam": Followed(_standing, sized=False),
}


@dataclass(frozen=True)
class Follower:
    """known: what of d is known before a step, float64 by array, 0 where there is none; share: how often the gradient is in
    the rest; sized: whether the rest tells more than signs; told: gradients that are sent, as control variates are."""

    known: Arrays
    share: float = 1.0
    sized: bool = True
    told: Arrays = field(default_factory=Arrays)

    def gradient(self, name: str, direction: np.ndarray) -> np.ndarray:
        """Of array `name`, by its direction d."""
        if name in self.told:
            return self.told[name]
        known = self.known.get(name, 0.0) if self.sized else 0.0
        return np.asarray((direction - known) / self.share)

    def signs(self, name: str, direction: np.ndarray) -> np.ndarray:
        """Of its gradient, -1, 0 or 1; a number that did not move, as one that a codec left out, tells nothing."""
        if name in self.told:
            return np.sign(self.told[name])
        rest = direction - self.known.get(name, 0.0)
        return np.where(direction == 0.0, 0.0, np.sign(rest))


def follower_of(
    own: TrainingSettings, backbone: Mapping[str, Tensor], state: Mapping[Tensor, Slot]
) -> Follower:
    """Of one silo before a step; backbone: its parameters and buffers by name [1, ...], as mixed; state: the optimizer's, by
    parameter."""
    followed = FOLLOWED.get(own.optimizer, Followed())
    rule = LOCAL_OPTIMIZERS[own.optimizer].rule
    constants = Constants(own.learning_rate, own.momentum, own.local_updates)
    share, found = followed.share(own.momentum), Arrays()
    decay = share * own.local_updates * own.weight_decay if followed.sized else 0.0
    for name, x in backbone.items():
        if not x.requires_grad:
            continue
        slot = dict(state.get(x, {}))
        if rule:
            rule.begin(slot, x.detach(), constants)
        known = decay * x.detach().double() + followed.state(slot, constants)
        found[name] = np.asarray(known[0].numpy())
    return Follower(found, share, followed.sized)
