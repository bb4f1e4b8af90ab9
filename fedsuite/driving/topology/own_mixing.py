"""A mixing step as one silo takes it: its own row of the matrix, over its neighbours' models.

A row of A is applied by the very product that a server would apply for all silos (mixing.py), with zeros in the place of
models that the row does not ask for: so the result has the same bytes, whatever order the product sums in. That computes N
rows where one is needed, of models that take milliseconds.
"""

from collections.abc import Mapping

import numpy as np

from fedsuite.arrays import Arrays
from fedsuite.driving.topology.robust_mixing import MixingLimits, MixingRule

Model = Mapping[str, np.ndarray]  # by name [1, ...]


def mixed_here(
    own: int,
    before: Model,
    models: Mapping[int, Model],
    a: np.ndarray,
    rule: MixingRule,
    limits: MixingLimits,
) -> tuple[Arrays, int]:
    """The silo's model [1, ...] after the step, and how many of its neighbours' models were clipped.

    own: number of the silo; before: its model before its local updates; models: after theirs, its own and those of all with
    a weight in its row of a [N, N]; rule: one whose rows do not look at one another.
    """
    if lacking := {own, *others(a[own], own)} - models.keys():
        raise ValueError(f"models of silos {sorted(lacking)} are missing")
    start = {name: _stacked(len(a), {own: values}) for name, values in before.items()}
    after = {
        name: _stacked(len(a), {j: model[name] for j, model in models.items()}) for name in before
    }
    mixed = rule(start, after, a, limits)
    cut = int(mixed.cut[own]) if len(mixed.cut) else 0
    return {name: np.array(values[own : own + 1]) for name, values in mixed.stacked.items()}, cut


def others(weights: np.ndarray, own: int) -> list[int]:
    """Silos but the own one with a weight among these [N], ascending."""
    return [int(j) for j in np.flatnonzero(weights) if j != own]


def _stacked(silos: int, rows: Mapping[int, np.ndarray]) -> np.ndarray:
    """[silos, ...] of rows [1, ...], the others 0."""
    first = next(iter(rows.values()))
    out = np.zeros((silos, *first.shape[1:]), first.dtype)
    for number, values in rows.items():
        out[number] = values[0]
    return out
