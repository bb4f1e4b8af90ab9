"""Merging replies of which some may be hostile: what one client can do to the model is bounded.

Every rule makes Delta of the changes d_k = w_k - w of N clients with weights p_k, of which up to f are hostile. All names
count together, in float64; distances are of whole clients, taken from the changes themselves.

  mean              sum p_k d_k                                                                   withstands nobody
  median            per number the middle change (Yin et al. 2018)                                N > 2 f, unweighted
  trimmed-mean      per number the mean without the f lowest and the f highest (Yin et al. 2018)  N > 2 f, unweighted
  krum, multi-krum  the change, or the weighted mean of those, that is nearest others (krum.py)   N >= 2 f + 3
  bulyan            per number the mean of those near the median, of those picked by Krum         N >= 4 f + 3
  geometric-median  least weighted sum of distances, by Weiszfeld's steps (RFA: Pillutla et al.   bad weight < 1/2
                    2022)
  fltrust           those that point where a trusted client's change does (trust.py)              all but the trusted
  pba               those whose prompts are most alike (prompts.py)                               N >= 2 f + 3

Before any rule a cap may be put on weights (merging.capped) and a bound on lengths (`Merge`). Between equals
the client of the lower partition is taken. No rule needs more than one whole array of one client in memory, and of the
numbers of all clients so many as HELD of blocks.py has room for: clients may lie on disk (`Stored`), with the same result.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsuite.arrays import Named
from fedsuite.averaging.blocks import number_by_number
from fedsuite.averaging.distances import lengths
from fedsuite.averaging.krum import bulyan, krum, multi_krum, weighing
from fedsuite.averaging.merging import Merged, MergeRule, mean
from fedsuite.averaging.prompts import by_prompts
from fedsuite.averaging.step import NO_STEP, Step
from fedsuite.averaging.stored import stored_like
from fedsuite.averaging.trust import trusting
from fedsuite.errors import InputError, RunFailed

# Weiszfeld's steps: the least distance that is divided by, when to stop, and when to give up.
SMALLEST, ENOUGH, MOST_STEPS = 1e-6, 1e-10, 1000
FEWEST_TO_COMPARE = 3  # lengths of which one can be said to be out of the ordinary


def _all_equal(
    server: Named, clients: Sequence[Named], weights: np.ndarray, tolerated: int
) -> Merged:
    return Merged(mean(server, clients, weights), np.ones(len(clients)))


def geometric_median_weights(
    squared: np.ndarray, weights: np.ndarray, steps: int = MOST_STEPS
) -> np.ndarray:
    """Coefficients c [N] of the point z = sum c_k d_k with the least sum of p_k ||d_k - z||.

    With D the squared distances, ||d_k - z||^2 = (D c)_k - c D c / 2, so the changes themselves are not needed.
    """
    c = weights
    for _ in range(steps):
        reach = squared @ c
        from_z = np.sqrt(np.maximum(reach - 0.5 * (c @ reach), 0.0))
        after = weights / np.maximum(from_z, SMALLEST)
        after /= after.sum()
        moved, c = np.abs(after - c).max(), after
        if moved <= ENOUGH:
            break
    return c


def _by_number(
    middle: Callable[[np.ndarray, int], np.ndarray],
) -> Callable[[Named, Sequence[Named], np.ndarray, int], Merged]:
    """The rule that gets each array's changes, [N, ...] float64."""

    def combine(
        server: Named, clients: Sequence[Named], weights: np.ndarray, tolerated: int
    ) -> Merged:
        return Merged(number_by_number(server, clients, lambda x: middle(x, tolerated)))

    return combine


def trimmed(values: np.ndarray, tolerated: int) -> np.ndarray:
    """Per number the mean of [N, ...] without the `tolerated` lowest and highest, N > 2 `tolerated`; float64."""
    ordered = np.sort(values.astype(np.float64), axis=0)
    middle: np.ndarray = ordered[tolerated : len(values) - tolerated].mean(axis=0)
    return middle


MEAN = MergeRule(_all_equal)
MERGE_RULES: Mapping[str, MergeRule] = {
    "mean": MEAN,
    "median": MergeRule(_by_number(lambda x, _: np.median(x, axis=0)), lambda f: 2 * f + 1),
    "trimmed-mean": MergeRule(_by_number(trimmed), lambda f: 2 * f + 1),
    "krum": MergeRule(weighing(krum), lambda f: 2 * f + 3),
    "multi-krum": MergeRule(weighing(multi_krum), lambda f: 2 * f + 3),
    "bulyan": MergeRule(bulyan, lambda f: 4 * f + 3),
    "geometric-median": MergeRule(weighing(lambda d, p, _: geometric_median_weights(d, p))),
    "fltrust": MergeRule(trusting),
    "pba": MergeRule(by_prompts, lambda f: 2 * f + 3),
}


@dataclass(frozen=True)
class Merge:
    """A merge rule and what goes before it: (w, [w_k], [p_k], step) -> Merged. RunFailed if clients are too few.

    bound: a change longer than `bound` times the median length is shortened to that (clips) or left out; 0 = no bound.
    Where most clients did not move, the median is 0, and those who moved are shortened to nothing (`admitted` 0), so that
    the model stays: measured by those alone who moved, a single hostile client among idle ones would have no bound.
    """

    rule: MergeRule = MEAN
    tolerated: int = 0
    bound: float = 0.0
    clips: bool = True
    name: str = "mean"

    def __call__(
        self, server: Named, clients: Sequence[Named], weights: np.ndarray, step: Step = NO_STEP
    ) -> Merged:
        self.check(len(clients))
        if not self.bound:
            return self.rule.merged(server, clients, weights, self.tolerated, step)
        own = lengths(server, clients)
        most = self.bound * float(np.median(own))
        beyond = most / np.maximum(own, np.finfo(float).tiny) if self.clips else 0.0
        factors = np.where(own > most, beyond, 1.0)
        inside = [k for k, factor in enumerate(factors) if self.clips or factor]
        self._check(len(inside), self.rule.least(self.tolerated), len(clients) - len(inside))
        kept = [_shortened(server, clients[k], factors[k]) for k in inside]
        p = weights[inside] / weights[inside].sum() if len(inside) < len(clients) else weights
        if step.trusted is not None:
            place = inside.index(step.trusted) if step.trusted in inside else None
            step = replace(step, trusted=place)
        merged = self.rule.merged(server, kept, p, self.tolerated, step)
        factors[inside] *= merged.admitted if len(merged.admitted) else 1.0
        return Merged(merged.delta, factors)

    def check(self, count: int) -> None:
        """RunFailed if `count` clients are too few to start with."""
        least = self.rule.least(self.tolerated)
        self._check(count, max(least, FEWEST_TO_COMPARE) if self.bound else least)

    def check_planned(self, count: int) -> None:
        """InputError if the `count` changes that every round is to have are too few."""
        try:
            self.check(count)
        except RunFailed as error:
            raise InputError(f"federation.merge: {error}") from None

    def _check(self, count: int, least: int, rejected: int = 0) -> None:
        if count >= least:
            return
        found = f"merge rule {self.name}: {count} changes to merge"
        asked = f"with federation.tolerated = {self.tolerated}"
        cure = "let more clients take part, or tolerate fewer hostile ones"
        if rejected:
            found += f" and {rejected} rejected, longer than {self.bound:g} times the median length"
            cure = f"raise federation.update-bound, set federation.beyond-bound to clip, {cure}"
        elif self.bound:
            asked += " and federation.update-bound"
        raise RunFailed(f"{found}, but {asked} it needs {least}; {cure}")


WEIGHTED_MEAN = Merge()


def _shortened(server: Named, client: Named, factor: float) -> Named:
    """w + factor (w_k - w), float64; the client's own arrays where nothing changes, on disk where those are."""
    if factor == 1.0:
        return client
    starts = {k: server[k].astype(np.float64) for k in client}
    return stored_like(client, {k: starts[k] + factor * (v - starts[k]) for k, v in client.items()})
