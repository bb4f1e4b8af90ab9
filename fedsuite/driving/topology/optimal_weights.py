"""Symmetric mixing weights of a graph with the fastest convergence (Xiao and Boyd 2004; Boyd, Diaconis and Xiao 2004).

Minimise s subject to -s I <= W - 1 1^T / N <= s I with W = I - sum over edges of w_e L_e: FDLA, whose weights may be
NEGATIVE; with W >= 0 in every entry: FMMC, the fastest mixing Markov chain. s is the contraction of a mixing step.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from fedsuite.driving.topology.matcha import Edge, laplacian, without_mean
from fedsuite.errors import InputError

SOLVED = ("fmmc", "fdla")  # values of federation.mixing-matrix


def fastest_weights(edges: Sequence[Edge], num_silos: int, *, signed: bool) -> np.ndarray:
    """W float64 [N, N]: FDLA if `signed`, else FMMC. edges: undirected, each once.

    Rows sum to 1 to rounding, whatever the solver leaves: W is rebuilt from edge weights. InputError if it finds none.
    """
    if not edges:
        return np.eye(num_silos)
    check_solver()
    import cvxpy  # slow to import

    cp: Any = cvxpy  # half of its functions have no annotations

    basis = without_mean(num_silos)
    w, worst = cp.Variable(len(edges)), cp.Variable()
    ends = basis.T[:, [i for i, _ in edges]] - basis.T[:, [j for _, j in edges]]
    mixed = (
        np.eye(num_silos - 1)
        - cp.multiply(ends, cp.reshape(w, (1, len(edges)), order="C")) @ ends.T
    )
    bound = worst * np.eye(num_silos - 1)
    limits = [bound - mixed >> 0, bound + mixed >> 0]
    if not signed:
        touches = np.zeros((num_silos, len(edges)))
        for e, pair in enumerate(edges):
            touches[list(pair), e] = 1
        limits += [w >= 0, touches @ w <= 1]
    problem = cp.Problem(cp.Minimize(worst), limits)
    problem.solve(solver=cp.CLARABEL)
    if problem.status != cp.OPTIMAL or w.value is None:
        raise InputError(
            f"mixing weights: the solver found none ({problem.status}); choose mixing metropolis"
        )
    return _matrix(np.asarray(w.value, dtype=np.float64), edges, num_silos, signed=signed)


def check_solver() -> None:
    """InputError unless the package that finds these weights is installed."""
    if find_spec("cvxpy") is None:
        raise InputError(
            "federation.mixing-matrix: fmmc and fdla need cvxpy; pip install 'fedsuite[topology]', or choose metropolis"
        )


def _matrix(
    weights: np.ndarray, edges: Sequence[Edge], num_silos: int, *, signed: bool
) -> np.ndarray:
    """I - sum w_e L_e; the solver's last digits below 0 are taken away where no sign is allowed."""
    if not signed:
        weights = np.maximum(weights, 0.0)
        load = np.zeros(num_silos)
        for (i, j), w in zip(edges, weights, strict=True):
            load[[i, j]] += w
        over = np.maximum(load, 1.0)
        weights = weights / np.array([max(over[i], over[j]) for i, j in edges])
    return np.eye(num_silos) - sum(
        (w * laplacian([e], num_silos) for e, w in zip(edges, weights, strict=True)), start=0.0
    )
