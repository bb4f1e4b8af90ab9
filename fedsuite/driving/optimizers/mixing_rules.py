"""Update rules of local optimizers that look across mixings: what neighbours did to a silo's model is part of their state.

All silos of a client side by side: x, g and every array of a slot are stacked, [N, ...]. A slot is one parameter's state. A
mixing step t is

  begin   with x_t, what the mixing before has given (and with what was mixed beside it, see `sent`)
  step    u times: x <- x - eta * direction
  then    x_{t+1} = A x, and `sent` arrays are mixed by the same A: a second message of the parameters' size for each

  qg-momentum         m = beta avg + g; x+ = A(x - eta m); avg <- mu avg + (1 - mu) (x - x+) / (eta u)
  qg-nesterov         the same with x+ = A(x - eta (g + beta m))
  gradient-tracking   x+ = A(x - eta y); y+ = A y + g+ - g; y_0 = g_0

qg-*: Lin et al. 2021, 2102.04761, avg their quasi-global buffer, mu = beta, standing still during a step's u updates.
gradient-tracking: DSGT, Pu & Nedic 2018, 1805.11454. All of them need columns of A that sum to 1, else averages drift.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Slot = dict[str, Tensor]
AVERAGE, START, TRACKER, LAST = "average", "start", "tracker", "last"


@dataclass(frozen=True)
class Constants:
    """eta: learning rate; beta: momentum; updates: u, steps between two mixings."""

    eta: float
    beta: float = 0.9
    updates: int = 1


# (slot, x [N, ...] as mixed, constants): brings the slot up to date.
Begin = Callable[[Slot, Tensor, Constants], None]
# (slot, x, gradient at x, constants) -> the new x, before it is mixed; brings the slot up to date.
Step = Callable[[Slot, Tensor, Tensor, Constants], Tensor]


@dataclass(frozen=True)
class Rule:
    """sent: arrays of a slot that are mixed with the model; any_updates: whether u > 1 makes sense; mode: for an eigenvalue
    of A and beta the matrix from one step to the next where gradients are 0, None where mixing alone does not swing."""

    begin: Begin
    step: Step
    sent: tuple[str, ...] = ()
    any_updates: bool = True
    mode: Callable[[complex, float], np.ndarray] | None = None


def begin_quasi_global(slot: Slot, x: Tensor, c: Constants) -> None:
    """avg <- mu avg + (1 - mu) (x - x+) / (eta u), mu = beta; 0 at first."""
    if START in slot:
        moved = (slot[START] - x) / (c.eta * c.updates)
        slot[AVERAGE] = c.beta * slot[AVERAGE] + (1 - c.beta) * moved
    else:
        slot[AVERAGE] = torch.zeros_like(x)
    slot[START] = x.clone()


def step_momentum(slot: Slot, x: Tensor, g: Tensor, c: Constants) -> Tensor:
    """x - eta (beta avg + g)."""
    return x - c.eta * (c.beta * slot[AVERAGE] + g)


def step_nesterov(slot: Slot, x: Tensor, g: Tensor, c: Constants) -> Tensor:
    """x - eta (g + beta (beta avg + g))."""
    return x - c.eta * (g + c.beta * (c.beta * slot[AVERAGE] + g))


def begin_tracking(slot: Slot, x: Tensor, c: Constants) -> None:
    """Zeros at first, which makes y_0 = g_0; later the tracker is there, mixed."""
    slot.setdefault(TRACKER, torch.zeros_like(x))
    slot.setdefault(LAST, torch.zeros_like(x))


def step_tracking(slot: Slot, x: Tensor, g: Tensor, c: Constants) -> Tensor:
    """y <- A y + g - (g of the step before); x - eta y."""
    slot[TRACKER], slot[LAST] = slot[TRACKER] + g - slot[LAST], g.clone()
    return x - c.eta * slot[TRACKER]


def _quasi_global_mode(eigenvalue: complex, mu: float, weight: float) -> np.ndarray:
    """[3, 3] of (x_t, x_{t-1}, avg_{t-1}) for x_{t+1} = eigenvalue (x_t - weight avg_t); eta drops out."""
    new = np.array([-(1 - mu), 1 - mu, mu])  # avg_t eta
    forward = eigenvalue * (np.array([1, 0, 0]) - weight * new)
    return np.array([forward, [1, 0, 0], new])


def largest_mode(rule: Rule, a: np.ndarray, beta: float) -> float:
    """By how much differences between silos can grow in a step where gradients are 0; above 1 mixing alone parts them.

    a: [N, N], the same in every step. Momentum of what mixing did swings where eigenvalues of A are complex and near 1, as
    on a long directed ring: 0.90 with 3 silos, 1.04 with 11, for beta = 0.9.
    """
    eigenvalues = np.linalg.eigvals(a)
    if rule.mode is None:
        return float(np.abs(eigenvalues).max())
    steps = np.stack([rule.mode(complex(v), beta) for v in eigenvalues])
    return float(np.abs(np.linalg.eigvals(steps)).max())


RULES: Mapping[str, Rule] = {
    "qg-momentum": Rule(
        begin_quasi_global, step_momentum, mode=lambda v, beta: _quasi_global_mode(v, beta, beta)
    ),
    "qg-nesterov": Rule(
        begin_quasi_global, step_nesterov, mode=lambda v, beta: _quasi_global_mode(v, beta, beta**2)
    ),
    "gradient-tracking": Rule(begin_tracking, step_tracking, sent=(TRACKER,), any_updates=False),
}
