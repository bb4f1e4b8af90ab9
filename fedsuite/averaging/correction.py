"""What a client with control variates does to its gradients during a visit (control_variates.py; 1910.06378, option II)."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedsuite.arrays import Arrays


class Correction:
    """Of one visit. server: c, own: c_k, by name of the parameter; names that `own` lacks start at 0."""

    def __init__(self, server: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray]) -> None:
        self.own = {k: own.get(k, np.zeros_like(c)) for k, c in server.items()}
        self.offset = {k: torch.from_numpy(c - self.own[k]) for k, c in server.items()}
        self.sums: dict[str, Tensor] = {}
        self.steps = 0

    def correct(self, parameters: Mapping[str, Tensor]) -> None:
        """Note the gradients of a step, then add c - c_k to them; a parameter without a gradient counts as 0."""
        self.steps += 1
        for name, offset in self.offset.items():
            parameter = parameters[name]
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if name not in self.sums:
                self.sums[name] = torch.zeros_like(parameter.grad)
            self.sums[name] += parameter.grad
            parameter.grad += offset.to(parameter.device)

    def updated(self) -> Arrays:
        """The next c_k: the mean of the gradients noted."""
        return {k: (s / self.steps).cpu().numpy() for k, s in self.sums.items()} or self.own

    def change(self) -> Arrays:
        """What is sent: the next c_k without the one before."""
        return {k: c - self.own[k] for k, c in self.updated().items()}
