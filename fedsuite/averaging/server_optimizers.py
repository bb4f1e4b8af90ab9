"""What moves the server's model along the merged change Delta, which is a direction of descent: steps are added.

Symbols: w the model, eta the server's learning rate, m and v its state, number by number; all starts at 0 unless said.

  none      w += eta Delta                                                        FedAvg: McMahan et al. 2017
  momentum  m = b1 m + Delta;  w += eta m                                         FedAvgM: Hsu et al. 2019, 1909.06335
  nesterov  m = b1 m + Delta;  w += eta (Delta + b1 m)                            DiLoCo, Alg. 1: 2311.08105
  adam      m = b1 m + (1 - b1) Delta;  v = b2 v + (1 - b2) Delta^2;              Reddi et al. 2021, Alg. 2: 2003.00295,
            w += eta m / (sqrt(v) + tau),  v starts at tau^2                      without bias correction
  yogi      as adam, but v -= (1 - b2) Delta^2 sign(v - Delta^2)                  same
  adagrad   v += Delta^2;  w += eta Delta / (sqrt(v) + tau),  v starts at tau^2   same, b1 = 0
  fedexp    w += eta' Delta,  eta' = eta max(1, s / (2 (||Delta||^2 + tau))),     Jhunjhunwala et al. 2023, 2301.09604
            s = sum p_k ||w_k - w||^2

With `corrected`, adam and yogi start v at 0 and divide m by 1 - b1^t and v by 1 - b2^t in step t = 1, 2, ...
Flower's FedAdam, FedYogi and FedAdagrad differ: v starts at 0, and FedAdam corrects with t + 1. FedExP's authors also
evaluate the mean of the last two models, which is not done here. Whole numbers get the mean, whatever the optimizer.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from fedsuite.arrays import Arrays, Named, under_prefix, with_prefix
from fedsuite.averaging.merging import ServerOptimizer, ServerStep, plain

TAKES = ("w", "delta", "state", "step")  # of a server optimizer
FIRST, SECOND, COUNT = "m.", "v.", "t"


def _split(server: Named, delta: Named, step: ServerStep) -> tuple[Arrays, Arrays]:
    """Delta of floating-point arrays; the next values of all others."""
    own = {k: d for k, d in delta.items() if server[k].dtype.kind == "f"}
    return own, plain(server, {k: d for k, d in delta.items() if k not in own}, {}, step)[0]


def momentum(
    server: Named, delta: Named, state: Named, step: ServerStep, ahead: bool = False
) -> tuple[Arrays, Arrays]:
    """Heavy ball; ahead: Nesterov's form."""
    own, moved = _split(server, delta, step)
    before, b1 = under_prefix(state, FIRST), step.momentum
    m = {k: b1 * before.get(k, 0.0) + d for k, d in own.items()}
    for k, d in own.items():
        moved[k] = server[k] + step.rate * (d + b1 * m[k] if ahead else m[k])
    return moved, with_prefix(m, FIRST)


def _adam_square(v: np.ndarray, square: np.ndarray, b2: float) -> np.ndarray:
    return b2 * v + (1 - b2) * square


def _yogi_square(v: np.ndarray, square: np.ndarray, b2: float) -> np.ndarray:
    return np.asarray(v - (1 - b2) * square * np.sign(v - square))


def adaptive(
    server: Named, delta: Named, state: Named, step: ServerStep, yogi: bool = False
) -> tuple[Arrays, Arrays]:
    """FedAdam; yogi: FedYogi."""
    own, moved = _split(server, delta, step)
    first, second = under_prefix(state, FIRST), under_prefix(state, SECOND)
    t = int(state.get(COUNT, np.asarray(0))) + 1
    b1, b2, square = step.momentum, step.second_momentum, _yogi_square if yogi else _adam_square
    start = 0.0 if step.corrected else step.tau**2
    mend1, mend2 = (1 - b1**t, 1 - b2**t) if step.corrected else (1.0, 1.0)
    m, v = {}, {}
    for k, d in own.items():
        m[k] = b1 * first.get(k, 0.0) + (1 - b1) * d
        v[k] = square(second.get(k, np.full_like(d, start)), d * d, b2)
        moved[k] = server[k] + step.rate * (m[k] / mend1) / (np.sqrt(v[k] / mend2) + step.tau)
    return moved, with_prefix(m, FIRST) | with_prefix(v, SECOND) | {COUNT: np.asarray(t)}


def adagrad(server: Named, delta: Named, state: Named, step: ServerStep) -> tuple[Arrays, Arrays]:
    """FedAdagrad."""
    own, moved = _split(server, delta, step)
    before = under_prefix(state, SECOND)
    v = {k: before.get(k, np.full_like(d, step.tau**2)) + d * d for k, d in own.items()}
    for k, d in own.items():
        moved[k] = server[k] + step.rate * d / (np.sqrt(v[k]) + step.tau)
    return moved, with_prefix(v, SECOND)


def fedexp(server: Named, delta: Named, state: Named, step: ServerStep) -> tuple[Arrays, Arrays]:
    """The rate grows with how far the clients' changes are apart."""
    own, moved = _split(server, delta, step)
    length = sum(float(np.vdot(d, d)) for d in own.values())
    rate = step.rate * max(1.0, step.mean_square() / (2 * (length + step.tau)))
    return moved | {k: server[k] + rate * d for k, d in own.items()}, {}


SERVER_OPTIMIZERS: Mapping[str, ServerOptimizer] = {
    "none": plain,
    "momentum": momentum,
    "nesterov": partial(momentum, ahead=True),
    "adam": adaptive,
    "yogi": partial(adaptive, yogi=True),
    "adagrad": adagrad,
    "fedexp": fedexp,
}
