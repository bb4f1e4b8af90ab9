"""The gradient of a step, as whoever has followed a silo from its first step solves for it.

x is a backbone's array as last mixed, x+ what its silo sends, w the weight decay, and d = (x - x+) / eta the direction;
avg, y and g_last are as in mixing_rules.py:

  sgd, relay-sgd      g = d - w x
  nesterov            g = (d - beta^2 b) / (1 + beta) - w x        b the buffer before the step; b+ = beta b + g
  qg-momentum         g = d - beta avg - w x
  qg-nesterov         g = (d - beta^2 avg) / (1 + beta) - w x
  gradient-tracking   g = d - (A y - g_last) - w x                 d = y+, so what is sent beside x+ tells no more than x+

All of it is known from messages: 0 before the first step, and then by these lines. With u updates between two mixings a
follower has the sum of their gradients (of nesterov a weighted one), w x taken u times. Adam's d tells less: its steps are
the same, but for its epsilon, if all gradients of one number are twice as large, so that nobody solves for their size; d is
taken as it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fedsuite.arrays import Arrays
from fedsuite.driving.config import TrainingSettings
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS
from fedsuite.driving.optimizers.mixing_rules import AVERAGE, LAST, TRACKER, Constants, Slot

Term = Callable[[Slot, Constants], Tensor | float]


@dataclass(frozen=True)
class Followed:
    """state: what the optimizer's state adds to d, of a slot that is begun; ahead: whether d holds g 1 + beta times."""

    state: Term = lambda slot, c: 0.0
    ahead: bool = False

    def share(self, beta: float) -> float:
        """How often the gradient is in d."""
        return 1 + beta if self.ahead else 1.0


def _buffer(slot: Slot, c: Constants) -> Tensor | float:
    return sum(c.beta ** (j + 2) for j in range(c.updates)) * slot.get("momentum_buffer", 0.0)


FOLLOWED: Mapping[str, Followed] = {
    "sgd": Followed(),
    "relay-sgd": Followed(),
    "nesterov": Followed(_buffer, ahead=True),
    "qg-momentum": Followed(lambda slot, c: c.updates * c.beta * slot[AVERAGE]),
    "qg-nesterov": Followed(lambda slot, c: c.updates * c.beta**2 * slot[AVERAGE], ahead=True),
    "gradient-tracking": Followed(lambda slot, c: slot[TRACKER] - slot[LAST]),
}


def known_parts(
    own: TrainingSettings, backbone: Mapping[str, Tensor], state: Mapping[Tensor, Slot]
) -> tuple[Arrays, float]:
    """What of d is known before a step, float64 by array, and how often the gradient is in the rest.

    backbone: parameters and buffers by name [S, ...], as mixed; state: the optimizer's, by parameter.
    """
    if (followed := FOLLOWED.get(own.optimizer)) is None:
        return {}, 1.0
    rule = LOCAL_OPTIMIZERS[own.optimizer].rule
    constants = Constants(own.learning_rate, own.momentum, own.local_updates)
    share, found = followed.share(own.momentum), Arrays()
    for name, x in backbone.items():
        if not x.requires_grad:
            continue
        slot = dict(state.get(x, {}))
        if rule:
            rule.begin(slot, x.detach(), constants)
        decayed = share * own.local_updates * own.weight_decay * x.detach().double()
        found[name] = np.asarray((decayed + followed.state(slot, constants)).numpy())
    return found, share
