"""RMSprop with an optional bias correction, with which agents learn.

  v <- alpha v + (1 - alpha) g^2;   w <- w - lr g / (sqrt(v / c) + eps),   c = 1 - alpha^k with correction, else 1

Without correction (torch.optim.RMSprop) the first step from a fresh state is 1/sqrt(1 - alpha) = 10 lr long, and a client
that trains 22 steps a round from fresh states moves 3.7 lr a step on average; with it every step is about lr.

With correction it takes the steps of torch.optim.Adam without momentum, to the last bit. That one's state would also hold
the last gradient, as large as the model, which nobody needs and no house should hand on.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import nn

ALPHA, EPSILON = 0.99, 1e-8


class RMSprop(torch.optim.Optimizer):
    """State: `square_avg` of every parameter, zeros at first, and one number of steps, `step`, for all."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, bias_correction: bool = False
    ) -> None:
        super().__init__(parameters, {"lr": lr, "bias_correction": bias_correction, "step": 0})
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["square_avg"] = torch.zeros_like(parameter)

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update with the gradients at hand; parameters without a gradient stay as they are."""
        step_together([self])


@torch.no_grad()
def step_together(optimizers: Sequence[RMSprop]) -> None:
    """A step of each, those at once that have taken equally many with the same settings."""
    alike: dict[tuple[float, bool, int], list[RMSprop]] = {}
    for one in optimizers:
        group = one.param_groups[0]
        group["step"] += 1
        alike.setdefault((group["lr"], group["bias_correction"], group["step"]), []).append(one)
    for (lr, corrected, step), own in alike.items():
        each = [(one.state, p) for one in own for p in one.param_groups[0]["params"]]
        weights = [p for _, p in each if p.grad is not None]
        gradients = [p.grad for p in weights]
        squares = [state[p]["square_avg"] for state, p in each if p.grad is not None]
        torch._foreach_mul_(squares, ALPHA)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - ALPHA)
        scale = torch._foreach_sqrt(squares)
        if corrected:
            torch._foreach_div_(scale, (1 - ALPHA**step) ** 0.5)
        torch._foreach_add_(scale, EPSILON)
        torch._foreach_addcdiv_(weights, gradients, scale, -lr)
