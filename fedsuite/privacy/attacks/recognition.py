"""Whether a record was in a step: who has records in hand computes the gradient of each, and compares it with the step's.

Gradients of different records are nearly at right angles in so many dimensions, so that a step's is nearest to those of its
own records (Li, Li and Ribeiro 2023, ICLR, "Effective passive membership inference attacks in federated learning against
overparameterized models"). Here signs are compared: optimizers that divide by lengths of gradients leave them (RMSprop's
first step has nothing else), and a few large numbers do not decide alone.

    score = cos(sign g, sign h)     g the record's gradient, h what the step tells of its own, both [P]
"""

from collections.abc import Iterable

import torch
from torch import Tensor


class Steps:
    """signs: of h of m steps [m, P]; 0 of a number of which a step tells nothing."""

    def __init__(self, signs: Tensor) -> None:
        self.signs = signs.float()
        self.lengths = self.signs.norm(dim=1)

    def scores(self, gradient: Iterable[Tensor]) -> Tensor:
        """Of one record with each step [m]; gradient: g in parts, P numbers together. 0 where g or h is 0 throughout."""
        own = torch.cat([part.sign().flatten() for part in gradient])
        return self.signs @ own / (self.lengths * own.norm()).clamp(min=1.0)
