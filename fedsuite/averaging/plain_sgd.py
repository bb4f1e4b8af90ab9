"""Gradient descent without momentum and decay, w <- w - lr g, for networks so small that calling torch's takes longer.

Around every step torch.optim opens a range for its profiler, calls hooks, marks the place for its compiler, and chooses
among kernels: with a few thousand parameters several times what the step itself takes. The numbers are
those of torch.optim.SGD, bit for bit.
"""

from collections.abc import Callable, Iterable

from torch import Tensor
from torch.optim import SGD


class PlainSGD(SGD):
    """torch.optim.SGD of parameters and a learning rate, which calls no hooks. Off the CPU it takes torch's own step."""

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        super().__init__(params, lr)
        self.on_cpu = all(p.is_cpu for group in self.param_groups for p in group["params"])

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of every parameter that has a gradient."""
        if closure is not None or not self.on_cpu:
            return super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:  # detached, for torch.no_grad() takes longer
                    parameter.detach().add_(parameter.grad, alpha=-group["lr"])
        return None

    step.hooked = True  # type: ignore[attr-defined]  # torch then leaves the method as it is

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients."""
        if not set_to_none:
            return super().zero_grad(set_to_none)
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
