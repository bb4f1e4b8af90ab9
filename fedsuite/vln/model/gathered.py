"""Products with a weight that is used at every step of a loop, with its gradient gathered once.

  y_t = x_t W^T        x_t [.., B_t, I], W [.., O, I], y_t [.., B_t, O]

Plain back-propagation writes a gradient of W's size per step and adds them up: with few rows left in a batch that
traffic takes longer than the products. Here every step notes x_t and dy_t, and one product at the end gives

  dW = sum_t dy_t^T x_t = [dy_1; dy_2; ..]^T [x_1; x_2; ..]
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fedsuite.vln.model.products import gradient_of_weight, times_transposed

Notes = list[tuple[Tensor, Tensor]]  # dy_t, x_t


class Gathered:
    """The weights of one loop (one rollout, one sentence batch); make a new one for the next."""

    def __init__(self, gates: bool = True) -> None:
        """gates: whether notes are turned into gradients in the end, or kept."""
        self._gates = gates
        self._weights: dict[int, tuple[Tensor, Tensor, Notes]] = {}

    def times(self, x: Tensor, weight: Tensor) -> Tensor:
        """x W^T; of several agents' weights [S, O, I], each on its rows of x [S B, I], agent by agent."""
        if weight.dim() > x.dim():
            return self.times(x.unflatten(0, (len(weight), -1)), weight).flatten(0, 1)
        if not (torch.is_grad_enabled() and weight.requires_grad):
            return times_transposed(x, weight)
        product: Tensor = _Times.apply(x, *self.gated(weight))
        return product

    def gated(self, weight: Tensor) -> tuple[Tensor, Notes]:
        """What stands for a weight in a product, and the notes of its products."""
        if id(weight) not in self._weights:
            notes: Notes = []
            gate = _Gate.apply(weight, notes) if self._gates else weight
            # The weight itself is kept as well, so that its id stays its own.
            self._weights[id(weight)] = weight, gate, notes
        return self._weights[id(weight)][1:]

    def notes(self, weight: Tensor) -> Notes:
        """Those that a weight has so far."""
        return self._weights[id(weight)][2] if id(weight) in self._weights else []


class _Gate(torch.autograd.Function):
    """Identity whose backward, run after those of all products, turns their notes into the gradient."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, notes: Notes) -> Tensor:
        ctx.notes = notes
        ctx.set_materialize_grads(False)
        return weight.view_as(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor | None) -> tuple[Tensor | None, None]:
        if not ctx.notes:
            return None, None
        outputs, inputs = zip(*ctx.notes, strict=True)
        ctx.notes.clear()
        return gradient_of_weight(outputs, inputs), None


class _Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, notes: Notes) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.notes = notes
        return times_transposed(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        ctx.notes.append((gradient, x))
        if not ctx.needs_input_grad[0]:
            return None, None, None
        return times_transposed(gradient, weight.mT), None, None
