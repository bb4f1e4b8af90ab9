"""MATCHA: every round a random set of matchings of the network talks (Wang et al. 2019, "MATCHA: speeding up
decentralized SGD via matching decomposition sampling").

Step 1, an edge colouring splits the base graph into matchings with Laplacians L_m. Step 2, activation probabilities p
maximise lambda_2(sum_m p_m L_m) subject to 0 <= p <= 1, sum p <= budget x matchings. Step 3, with Lbar = sum p_m L_m and
Ltilde = sum p_m (1 - p_m) L_m, alpha minimises rho, the largest eigenvalue of

    E[W W] - J = I - 2 alpha Lbar + alpha^2 (Lbar^2 + 2 Ltilde) - J

with W = I - alpha sum of the active L_m and J = 1 1^T / N, so that the expected squared consensus distance shrinks at
least by the factor rho a round (below 1 iff the graph is connected).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from fedsuite.errors import InputError
from fedsuite.randomness import rng_for

Edge = tuple[int, int]
Matching = tuple[Edge, ...]
_MAX_DRAWS = 10_000
_MAX_STEPS, _PLANES_A_STEP, _GAP = 500, 6, 1e-5


@dataclass(frozen=True)
class MatchaPlan:
    """Matchings of N silos, their activation probabilities, step alpha and second-moment contraction rho."""

    num_silos: int
    matchings: tuple[Matching, ...]
    probabilities: tuple[float, ...]
    alpha: float
    rho: float

    def active_in_round(self, seed: int, round: int) -> list[int]:
        """Numbers of the matchings that talk in a round of a run: independent draws, repeated while none is active."""
        rng = rng_for(seed, "matcha", round)
        for _ in range(_MAX_DRAWS):
            on = np.flatnonzero(rng.random(len(self.matchings)) < np.array(self.probabilities))
            if len(on):
                return [int(m) for m in on]
        raise InputError(
            f"matcha: no matching became active in {_MAX_DRAWS} draws; raise the budget"
        )

    def edges(self, active: Sequence[int]) -> list[Edge]:
        return [edge for m in active for edge in self.matchings[m]]

    def matrix(self, active: Sequence[int]) -> np.ndarray:
        """W = I - alpha sum of the active Laplacians, float64 [N, N]; symmetric, rows sum to 1."""
        total = sum((laplacian(self.matchings[m], self.num_silos) for m in active), start=0.0)
        return np.eye(self.num_silos) - self.alpha * total

    def support(self) -> np.ndarray:
        """bool [N, N]: pairs that may ever talk, and the diagonal."""
        linked = np.eye(self.num_silos, dtype=bool)
        for matching, probability in zip(self.matchings, self.probabilities, strict=True):
            if probability > 0:
                linked |= laplacian(matching, self.num_silos) < 0
        return linked


def laplacian(edges: Sequence[Edge], num_silos: int) -> np.ndarray:
    """Graph Laplacian, float64 [N, N]."""
    out = np.zeros((num_silos, num_silos))
    for i, j in edges:
        out[[i, j], [i, j]] += 1
        out[[i, j], [j, i]] -= 1
    return out


def without_mean(num_silos: int) -> np.ndarray:
    """Orthonormal basis [N, N - 1] of the vectors whose entries sum to 0."""
    return np.linalg.qr(np.eye(num_silos)[:, 1:] - 1.0 / num_silos)[0]


class _Colouring:
    """State of Misra and Gries' algorithm: colour[u][v] of coloured edges, at most max degree + 1 colours."""

    def __init__(self, graph: "nx.Graph[int]") -> None:
        self.colours = range(max((d for _, d in graph.degree), default=0) + 1)
        self.at: dict[int, dict[int, int]] = {u: {} for u in graph}  # at[u][colour] = neighbour

    def free(self, node: int) -> int:
        return next(c for c in self.colours if c not in self.at[node])

    def colour_of(self, u: int, v: int) -> int:
        return next(c for c, other in self.at[u].items() if other == v)

    def paint(self, u: int, v: int, colour: int) -> None:
        self.at[u][colour], self.at[v][colour] = v, u

    def fan(self, u: int, v: int) -> list[int]:
        """Maximal fan of u from v: each next edge's colour is free on the member before."""
        members = [v]
        while True:
            found = [
                w
                for colour, w in sorted(self.at[u].items())
                if w not in members and colour not in self.at[members[-1]]
            ]
            if not found:
                return members
            members.append(found[0])

    def invert_path(self, u: int, c: int, d: int) -> None:
        """Swap colours c and d along the path from u that starts with d."""
        path, colour = [u], d
        while colour in self.at[path[-1]]:
            path.append(self.at[path[-1]][colour])
            colour = c if colour == d else d
        for own in (self.at[node] for node in path):
            own |= {other: own.pop(colour) for colour, other in ((c, d), (d, c)) if colour in own}

    def add(self, u: int, v: int) -> None:
        members = self.fan(u, v)
        c, d = self.free(u), self.free(members[-1])
        self.invert_path(u, c, d)
        last = self._end(u, members, d)
        for w, after in itertools.pairwise(members[: last + 1]):
            colour = self.colour_of(u, after)
            del self.at[after][colour]
            self.paint(u, w, colour)
        self.paint(u, members[last], d)

    def _end(self, u: int, members: list[int], d: int) -> int:
        """First place of the fan where d is free while everything before it is still a fan."""
        for k, w in enumerate(members):
            if k and self.colour_of(u, w) in self.at[members[k - 1]]:
                break
            if d not in self.at[w]:
                return k
        raise AssertionError("Misra-Gries: no member of the fan can take the colour")


def edge_colouring(graph: "nx.Graph[int]") -> tuple[Matching, ...]:
    """Matchings that cover every edge once, at most max degree + 1 of them (Misra and Gries 1992); edges as i < j."""
    state = _Colouring(graph)
    for u, v in sorted((min(e), max(e)) for e in graph.edges):
        state.add(u, v)
    found = (
        tuple(sorted((u, at[c]) for u, at in state.at.items() if c in at and u < at[c]))
        for c in state.colours
    )
    return tuple(matching for matching in found if matching)


def activation_probabilities(
    matchings: Sequence[Matching], num_silos: int, budget: float
) -> np.ndarray:
    """p [number of matchings]; InputError unless 0 < budget <= 1.

    Cutting planes: for every unit vector v whose entries sum to 0, lambda_2 <= sum p_m (v . L_m v). A linear program
    over the planes found so far gives an upper bound, its solution's eigenvectors the next planes, until both meet.
    """
    from scipy.optimize import linprog  # 20 MB, and no other overlay needs it

    if not 0 < budget <= 1:
        raise InputError(f"matcha budget: expected a fraction in (0, 1], got {budget}; correct it")
    count = len(matchings)
    basis = without_mean(num_silos)
    own = np.stack([basis.T @ laplacian(edges, num_silos) @ basis for edges in matchings])
    scale = float(np.linalg.eigvalsh(budget * own.sum(axis=0))[0])
    if scale <= 1e-9:
        raise InputError("matcha: expected a connected network; add links between its parts")
    own /= scale  # to numbers around 1, where the tolerances of the linear program are small
    planes, seen = np.empty((0, count)), -np.inf
    p = best = np.full(count, budget)
    for _ in range(_MAX_STEPS):
        value, vectors = np.linalg.eigh(np.tensordot(p, own, axes=1))
        if value[0] > seen:
            seen, best = float(value[0]), p
        new = vectors[:, : min(_PLANES_A_STEP, len(value))]
        planes = np.vstack([planes, np.einsum("ik,mij,jk->km", new, own, new, optimize=True)])
        found = linprog(
            np.append(np.zeros(count), -1.0),
            A_ub=np.vstack(
                [
                    np.column_stack([-planes, np.ones(len(planes))]),
                    np.append(np.ones(count), 0.0),
                ]
            ),
            b_ub=np.append(np.zeros(len(planes)), budget * count),
            bounds=[(0, 1)] * count + [(None, None)],
        )
        if found.x is None or found.fun is None:
            raise InputError(f"matcha: no activation probabilities found ({found.message})")
        p = np.clip(found.x[:-1], 0.0, 1.0)
        if -found.fun - seen <= _GAP * seen:
            return best
    raise InputError("matcha: activation probabilities did not converge; change the budget")


def best_alpha(
    matchings: Sequence[Matching], probabilities: np.ndarray, num_silos: int
) -> tuple[float, float]:
    """(alpha, rho): rho is convex in alpha, so a line search finds its minimum."""
    from scipy.optimize import minimize_scalar

    own = np.stack([laplacian(edges, num_silos) for edges in matchings])
    mean = np.tensordot(probabilities, own, axes=1)
    spread = np.tensordot(probabilities * (1 - probabilities), own, axes=1)
    rest = np.eye(num_silos) - 1.0 / num_silos
    square = mean @ mean + 2 * spread

    def rho(alpha: float) -> float:
        return float(np.linalg.eigvalsh(rest - 2 * alpha * mean + alpha**2 * square)[-1])

    top = 2.0 / float(np.linalg.eigvalsh(mean)[-1])  # beyond it rho is above 1
    found = minimize_scalar(rho, bounds=(0.0, top), method="bounded", options={"xatol": 1e-9})
    return float(found.x), float(found.fun)


def plan_matcha(base: "nx.Graph[int]", budget: float = 0.5) -> MatchaPlan:
    """Matchings, probabilities and alpha of a connected base graph on 0..N-1."""
    size = base.number_of_nodes()
    matchings = edge_colouring(base)
    if not matchings:
        raise InputError(f"matcha: expected at least two linked silos, got {size}; use local")
    p = activation_probabilities(matchings, size, budget)
    alpha, rho = best_alpha(matchings, p, size)
    return MatchaPlan(size, matchings, tuple(p.tolist()), alpha, rho)
