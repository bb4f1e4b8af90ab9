"""How replies become the next model.

Symbols (FedVLN, Zhou & Wang 2022, Eq. 7 and Algorithm 1): w server model, w_k model of client k after local training,
n_k its samples, p_k = n_k / sum of n over the round's clients, eta server learning rate, Delta the merged change.

  parallel    Delta = sum_k p_k (w_k - w);  w <- w + eta Delta        every client starts from the same w
  sequential  w <- w + eta p_k (w_k - w)  for k in turn               client k starts from the w its predecessor moved

A merge rule makes Delta of what the clients sent (robust.py has those that withstand hostile clients), a server
optimizer makes the next w of Delta (server_optimizers.py has those with a state); both are values, chosen by
configuration, `module:NAME` for one's own. Sums are taken in float64 in the order given (sort by partition first), then
rounded once to the array's own type.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from fedsuite.arrays import Arrays, Named
from fedsuite.averaging.step import Step
from fedsuite.settings.metrics import Metrics

Weights = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Merged:
    """delta: Delta by name, float64; admitted [N]: how much of the say that its weight gives it every client had, from 1
    (all) to 0 (rejected, or shortened to nothing); empty if the rule weighs single numbers, not clients."""

    delta: Arrays
    admitted: np.ndarray = field(default_factory=lambda: np.ones(0))


@dataclass(frozen=True)
class MergeRule:
    """How changes become one. combine: (w, [w_k], [p_k], adding up to 1, f) -> Merged, of the names that the clients sent,
    all the same ones; f: how many hostile clients it has to withstand. One that takes a fifth argument gets the Step.
    least: f -> the fewest clients that it works with."""

    combine: Callable[..., Merged]
    least: Callable[[int], int] = lambda _: 1

    @cached_property
    def takes_step(self) -> bool:
        """Whether `combine` has a place for the Step."""
        try:
            inspect.signature(self.combine).bind(*MERGED_WITH)
        except (TypeError, ValueError):
            return False
        return True

    def merged(
        self,
        server: Named,
        clients: Sequence[Named],
        weights: np.ndarray,
        tolerated: int,
        step: Step,
    ) -> Merged:
        """What `combine` makes of the clients."""
        given = (step,) if self.takes_step else ()
        return self.combine(server, clients, weights, tolerated, *given)


MERGED_WITH = (
    "w",
    "models",
    "weights",
    "f",
    "step",
)  # what `combine` gets; the last one where it has a place


def _unknown() -> float:
    raise ValueError("this step knows no changes of clients")


@dataclass(frozen=True)
class ServerStep(Step):
    """A server optimizer's step and its constants. rate: eta; momentum: beta (beta_1); second_momentum: beta_2; tau: what is
    added to a divisor; corrected: running means are divided by 1 - beta^t; mean_square(): sum_k p_k ||w_k - w||^2."""

    rate: float = 1.0
    momentum: float = 0.9
    second_momentum: float = 0.99
    tau: float = 1e-3
    corrected: bool = False
    mean_square: Callable[[], float] = _unknown


ONE = ServerStep()  # eta = 1


class ServerOptimizer(Protocol):
    """What moves the server's model."""

    def __call__(
        self, server: Named, delta: Named, state: Named, step: ServerStep
    ) -> tuple[Arrays, Arrays]:
        """w, Delta (float64), own state ({} at first), constants -> the next w of Delta's names, float64; the next state."""


def shares(num_examples: Sequence[int]) -> np.ndarray:
    """p_k [N] float64, adding up to 1; ValueError unless some n_k is positive and none negative."""
    counts = np.asarray(num_examples, np.float64)
    if len(counts) == 0 or (counts < 0).any() or counts.sum() <= 0:
        raise ValueError(
            f"expected sample counts >= 0 with a positive sum, got {list(num_examples)}"
        )
    return counts / counts.sum()


def capped(weights: Weights, most: float) -> np.ndarray:
    """p_k with none above `most`: those above get it, the others share the rest in proportion (those of weight 0
    alike, where there are no others), until none is above.

    With fewer than 1 / `most` clients all are equal.
    """
    p = np.asarray(weights, np.float64)
    if len(p) * most <= 1:
        return np.full(len(p), 1 / len(p))
    full = np.zeros(len(p), bool)
    while (over := (p > most) & ~full).any():
        full |= over
        others = p[~full] if p[~full].any() else np.ones((~full).sum())
        p = np.full(len(p), most)
        p[~full] = others * ((1 - most * full.sum()) / others.sum())
    return p


def relative_weights(counts: Sequence[int], most: float) -> np.ndarray:
    """p_k over the largest of them, none above `most`: what a client may multiply its own change by, from counts alone."""
    weights = capped(shares(counts), most)
    relative: np.ndarray = weights / weights.max()
    return relative


def mean(server: Named, clients: Sequence[Named], weights: Weights) -> Arrays:
    """Delta = sum_k p_k (w_k - w): FedAvg (McMahan et al. 2017)."""
    delta: Arrays = {}
    for name in clients[0]:
        start = server[name].astype(np.float64)
        delta[name] = np.zeros_like(start)
        for arrays, weight in zip(clients, weights, strict=True):
            delta[name] += weight * (arrays[name] - start)
    return delta


def plain(server: Named, delta: Named, state: Named, step: ServerStep) -> tuple[Arrays, Arrays]:
    """w + eta Delta; no state."""
    return {k: server[k].astype(np.float64) + step.rate * d for k, d in delta.items()}, {}


def server_step(
    server: Named,
    delta: Named,
    step: ServerStep = ONE,
    optimizer: ServerOptimizer = plain,
    state: Named | None = None,
) -> tuple[Arrays, Arrays]:
    """The next server model, names that Delta does not have as they were, and the optimizer's next state."""
    moved, after = optimizer(server, delta, state or {}, step)
    copied = {k: v.copy() for k, v in server.items()}
    return copied | {k: np.asarray(v, server[k].dtype) for k, v in moved.items()}, after


def weighted_means(
    metrics: Sequence[Mapping[str, float]], weights: Sequence[float]
) -> dict[str, float]:
    """Mean of every metric over the clients that report it, weighted; metrics of zero total weight are left out."""
    names = dict.fromkeys(n for m in metrics for n in m)
    means = {}
    for name in names:
        pairs = [(m[name], w) for m, w in zip(metrics, weights, strict=True) if name in m]
        total = sum(w for _, w in pairs)
        if total > 0:
            means[name] = sum(v * w for v, w in pairs) / total
    return means


def merged_metrics(
    table: Metrics, own: Sequence[Mapping[str, float]], counts: Sequence[float] | None = None
) -> dict[str, float]:
    """What clients measured, as one, as the rows say; {} without examples.

    own: by client; counts: the numbers of their examples, which are their metrics `count` if not given.
    """
    counts = [m.get("count", 0.0) for m in own] if counts is None else counts
    names = dict.fromkeys(name for m in own for name in m)
    sums = {name: sum(m.get(name, 0.0) for m in own) for name in names}
    if not sum(counts):
        return {}
    added = {k: v for k, v in sums.items() if table.row(k).averaged == "sum"}
    if of_sums := {r.name: r.of(sums) for r in table.rows if callable(r.averaged)}:
        return of_sums | added
    counted = {r.name: r.counted_by for r in table.rows if r.counted_by}
    means = [{k: v for k, v in m.items() if k not in added and k not in counted} for m in own]
    found = weighted_means(means, counts)
    for name, by in counted.items():
        those = [m for m in own if name in m]
        found |= weighted_means([{name: m[name]} for m in those], [m[by] for m in those])
    return found | added
