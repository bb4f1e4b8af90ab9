"""RMSprop with an optional bias correction, and Adam; their states as named arrays.

  v <- alpha v + (1 - alpha) g^2;   w <- w - lr g / (sqrt(v / c) + eps),   c = 1 - alpha^k with correction, else 1

Without correction (torch.optim.RMSprop) the first step from a fresh state is 1/sqrt(1 - alpha) = 10 lr long, and a client
that trains 22 steps a round from fresh states moves 3.7 lr a step on average; with it every step is about lr.

Agents learn with RMSprop, speakers with Adam (Kingma & Ba 2015), as in the official release.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from fedsuite.arrays import Arrays

STEP = "step"
MOMENTS = {"mean.": "exp_avg", "square.": "exp_avg_sq"}
"""Prefixes of Adam's arrays, and torch's names for them."""


class RMSprop:
    """Optimises all parameters of `module`; those without a gradient stay as they are."""

    def __init__(
        self,
        module: nn.Module,
        lr: float,
        alpha: float = 0.99,
        eps: float = 1e-8,
        bias_correction: bool = False,
    ) -> None:
        self.parameters: dict[str, nn.Parameter] = dict(module.named_parameters())
        self.square: dict[str, Tensor] = {
            k: torch.zeros_like(p) for k, p in self.parameters.items()
        }
        self.lr, self.alpha, self.eps, self.bias_correction = lr, alpha, eps, bias_correction
        self.steps = 0

    @torch.no_grad()
    def step(self) -> None:
        """One update with the gradients at hand, which are then cleared."""
        self.steps += 1
        names = [k for k, p in self.parameters.items() if p.grad is not None]
        weights = [self.parameters[k].data for k in names]
        gradients = [g for k in names if (g := self.parameters[k].grad) is not None]
        squares = [self.square[k] for k in names]
        torch._foreach_mul_(squares, self.alpha)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - self.alpha)
        scale = torch._foreach_sqrt(squares)
        if self.bias_correction:
            torch._foreach_div_(scale, (1 - self.alpha**self.steps) ** 0.5)
        torch._foreach_add_(scale, self.eps)
        torch._foreach_addcdiv_(weights, gradients, scale, -self.lr)
        for parameter in self.parameters.values():
            parameter.grad = None

    def state_arrays(self) -> Arrays:
        """Running squares by parameter name, and the number of steps under `step`."""
        arrays = {k: v.cpu().numpy().copy() for k, v in self.square.items()}
        return {**arrays, STEP: np.array(self.steps, np.int64)}

    def load_state_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore what `state_arrays` gave."""
        self.steps = int(arrays[STEP])
        for name, square in self.square.items():
            square.copy_(torch.tensor(arrays[name]))


class Adam:
    """torch.optim.Adam of all parameters of `module`; those without a gradient stay as they are."""

    def __init__(
        self,
        module: nn.Module,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.parameters: dict[str, nn.Parameter] = dict(module.named_parameters())
        self.inner = torch.optim.Adam(
            self.parameters.values(), lr=lr, betas=betas, eps=eps, foreach=True
        )

    def step(self) -> None:
        """One update with the gradients at hand, which are then cleared."""
        self.inner.step()
        self.inner.zero_grad()

    def state_arrays(self) -> Arrays:
        """Running means `mean.<name>` and squares `square.<name>`, and under `step` every parameter's steps [P].

        Steps are counted by parameter, because one that never had a gradient has taken none.
        """
        arrays: Arrays = {}
        for prefix, key in MOMENTS.items():
            for name, p in self.parameters.items():
                value = self.inner.state[p].get(key, torch.zeros_like(p))
                arrays[prefix + name] = value.detach().cpu().numpy().copy()
        steps = [int(self.inner.state[p].get(STEP, 0)) for p in self.parameters.values()]
        return {**arrays, STEP: np.array(steps, np.int64)}

    def load_state_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore what `state_arrays` gave."""
        self.inner.state.clear()
        for steps, (name, p) in zip(arrays[STEP], self.parameters.items(), strict=True):
            self.inner.state[p] = {STEP: torch.tensor(float(steps))} | {
                key: torch.tensor(arrays[prefix + name], device=p.device)
                for prefix, key in MOMENTS.items()
            }
