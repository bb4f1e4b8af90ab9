"""SCAFFOLD's control variates (Karimireddy et al. 2020, 1910.06378): every local gradient is corrected by c - c_k.

c_k is a client's estimate of its own gradient, c the mean of all clients'. A visit of K steps adds c - c_k to each gradient,
before clipping and moments, and then takes for c_k the mean of its K gradients without that (option II; for SGD it is the
paper's c_k - c + (w - w_k) / (K lr), which is wrong under RMSprop or Adam). c_k stays at home; what is sent is how much it
changed. The server: c += (1 / N) sum over participants of that, N all clients, absent ones too.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedsuite.arrays import Arrays, Named

CONTROL = "control."
"""Prefix of control variates where they travel beside a model, and on a client's disk."""


class Correction:
    """A client's half during one visit. server: c, own: c_k, by name of the parameter; names that `own` lacks start at 0."""

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


def server_control(control: Named, replies: Sequence[Named], count: int) -> Arrays:
    """c + (1 / count) sum of the participants' changes, in the type of c; sums in float64. replies: what participants sent,
    with the changes under CONTROL."""
    return {
        k: np.asarray(c + sum(r[CONTROL + k].astype(np.float64) for r in replies) / count, c.dtype)
        for k, c in control.items()
    }
