"""Mixing matrices: how much of whose model every silo takes, theta_i <- sum_j A_ij theta_j.

A float64 [N, N], row = receiver, rows sum to 1 (Do et al. 2024; Nguyen et al. 2022). Ring: half of oneself, half of the
silo before. Trees: Metropolis-Hastings weights 1 / (1 + larger degree), or the fastest ones (FMMC; FDLA, which has negative
weights). Star and complete: 1 / N. MATCHA: W(round) = I - alpha sum of the Laplacians that are active. Columns sum to 1 as
well in all of these, and the consensus distance shrinks by the square of the spectral norm of A - 1 1^T / N a step.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedsuite.driving.topology import Overlay
from fedsuite.driving.topology.custom_topology import check_stochastic, hearing_weights
from fedsuite.driving.topology.matcha import Edge, MatchaPlan, laplacian
from fedsuite.driving.topology.optimal_weights import fastest_weights
from fedsuite.errors import InputError

_AUTO = {"ring": "ring", "star": "uniform", "complete": "uniform"}  # else metropolis


# (A, who answered [N]) -> A over those.
Absence = Callable[[np.ndarray, np.ndarray], np.ndarray]


def renormalise(a: np.ndarray, present: np.ndarray) -> np.ndarray:
    """A without the silos that did not reply, float64 [N, N]; absent silos keep their model, rows still sum to 1.

    present: bool [N]. A row without negative entries is scaled, as before it mixes in the proportions it had. A row with
    negative entries (FDLA, or W = I - alpha L of MATCHA) has no such proportions, its rest may even sum to 0: there a
    silo takes for itself what it would have given to those who are absent, which for W = I - alpha L is dropping their
    links. A silo that is left without any neighbour keeps its model.
    """
    here = np.asarray(present, dtype=bool)
    if here.shape != (len(a),):
        raise ValueError(f"present: expected bool [{len(a)}], got shape {here.shape}")
    out = np.where(here[None, :], a, 0.0)
    for i in np.flatnonzero((a != out).any(axis=1) | ~here):
        if not here[i] or not (np.delete(out[i], i) != 0).any():
            out[i] = np.eye(len(a))[i]
        elif a[i].min() < 0:
            out[i, i] += a[i, ~here].sum()
        else:
            out[i] /= out[i].sum()
    return out


def rebalance(a: np.ndarray, present: np.ndarray) -> np.ndarray:
    """As `renormalise`, for A whose rows and columns sum to 1, and still do so without the silos that did not reply.

    A symmetric A (trees, stars, MATCHA): both ends of a link to an absent silo keep for themselves what they would have
    given. Any other (the directed ring) has no such matrix over the links that are left: nobody mixes in that step.
    """
    here = np.asarray(present, dtype=bool)
    if here.shape != (len(a),):
        raise ValueError(f"present: expected bool [{len(a)}], got shape {here.shape}")
    if here.all():
        return a
    if not np.allclose(a, a.T, rtol=0, atol=1e-12):
        return np.eye(len(a))
    out = np.where(np.outer(here, here), a, 0.0)
    return np.asarray(out + np.diag(1.0 - out.sum(axis=1)))


@dataclass(frozen=True, eq=False)
class MixingSchedule:
    """Mixing matrices of all rounds. support: bool [N, N], entry (i, j): silo i may ever need silo j's model (or i = j).

    absence: what is left of A where some silos did not answer. links: directed links on which messages stay under way from
    one mixing step to the next (relay.py); each has a row and a column of A, behind those of the silos: R = N + links.
    """

    name: str
    num_silos: int
    support: np.ndarray = field(repr=False)
    constant: np.ndarray | None = field(default=None, repr=False)
    matcha: MatchaPlan | None = field(default=None, repr=False)
    seed: int = 0
    absence: Absence = renormalise
    links: tuple[Edge, ...] = ()

    def __post_init__(self) -> None:
        if (self.constant is None) == (self.matcha is None):
            raise ValueError("a schedule has either one matrix for all rounds or a MATCHA plan")

    def matrix(self, round: int) -> np.ndarray:
        """A of this round, float64 [R, R]; the same for the same seed and round."""
        if self.constant is not None:
            return self.constant.copy()
        assert self.matcha is not None
        return self.matcha.matrix(self.matcha.active_in_round(self.seed, round))

    def matrix_among(self, round: int, present: np.ndarray) -> np.ndarray:
        """A of this round, where only these silos answered, bool [N]."""
        return self.absence(self.matrix(round), present)

    def rows_of(self, silos: Collection[int]) -> list[int]:
        """Rows of A that are these silos' own: their models, and the messages from one of them to another."""
        inner = [n for n, link in enumerate(self.links, self.num_silos) if {*link} <= {*silos}]
        return [*silos, *inner]


def ring_matrix(edges: Sequence[Edge], num_silos: int) -> np.ndarray:
    """Half of oneself, half of the in-neighbour; edges (j, i): j sends to i, exactly one into every silo."""
    if num_silos > 1 and sorted(i for _, i in edges) != list(range(num_silos)):
        raise InputError("ring mixing: expected one edge into every silo; choose overlay ring")
    a = 0.5 * np.eye(num_silos)
    for j, i in edges:
        a[i, j] += 0.5
    return a if num_silos > 1 else np.eye(1)


def undirected(edges: Sequence[Edge]) -> list[Edge]:
    """Each link once, i < j; InputError if a link goes one way only."""
    given = set(edges)
    for i, j in given:
        if (j, i) not in given:
            raise InputError(
                f"mixing weights: silo {i + 1} sends to silo {j + 1} but not back; "
                "choose an overlay with links both ways, or mixing auto"
            )
    return sorted((i, j) for i, j in given if i < j)


# Matrix of an overlay's directed edges and N. All but the ring's want both ways of every link (or InputError). fmmc and fdla
# mix fastest, with non-negative weights and with SIGNED ones (the releases' choice); uniform is a server's average.
RULES: Mapping[str, Callable[[Sequence[Edge], int], np.ndarray]] = {
    "ring": ring_matrix,
    "metropolis": lambda edges, n: hearing_weights(laplacian(undirected(edges), n) < 0),
    "fmmc": lambda edges, n: fastest_weights(undirected(edges), n, signed=False),
    "fdla": lambda edges, n: fastest_weights(undirected(edges), n, signed=True),
    "uniform": lambda edges, n: np.full((n, n), 1.0 / n),
}


def schedule_of(
    overlay: Overlay, seed: int = 0, mixing: str = "auto", weights: np.ndarray | None = None
) -> MixingSchedule:
    """Schedule of a built overlay; `weights` is the user's own matrix for a custom one.

    mixing: auto, or metropolis, fmmc, fdla, uniform on overlays with links both ways. InputError if overlay and mixing do
    not go together. The fastest weights take a solver up to a minute or two for trees of 80 silos.
    """
    size = overlay.num_silos
    if overlay.matcha is not None:
        if mixing != "auto":
            raise InputError(f"mixing {mixing!r}: MATCHA has its own matrices; set mixing auto")
        plan = overlay.matcha
        return MixingSchedule(overlay.name, size, plan.support(), matcha=plan, seed=seed)
    a = _constant(overlay, mixing, weights)
    a = check_stochastic(a, f"{overlay.name} mixing", signed=mixing == "fdla")
    return MixingSchedule(overlay.name, size, (a != 0) | np.eye(size, dtype=bool), constant=a)


def _constant(overlay: Overlay, mixing: str, weights: np.ndarray | None) -> np.ndarray:
    size, edges = overlay.num_silos, overlay.edges
    if not edges:
        return np.eye(size)
    if mixing == "auto" and weights is not None:
        return weights
    rule = _AUTO.get(overlay.name, "metropolis") if mixing == "auto" else mixing
    if rule == "uniform" and overlay.name not in ("star", "complete"):
        raise InputError(
            f"mixing uniform: overlay {overlay.name} does not join all silos; choose star or complete"
        )
    return RULES[rule](edges, size)


def closed_groups(support: np.ndarray, groups: Sequence[Sequence[int]]) -> list[Edge]:
    """Pairs (i, j) where silo i needs the model of silo j of another group; empty if every group is closed."""
    where = np.full(len(support), -1)
    for number, group in enumerate(groups):
        where[list(group)] = number
    if sum(map(len, groups)) != len(support) or (where < 0).any():
        raise ValueError(f"groups: expected every one of {len(support)} silos once, got {groups}")
    across = (np.asarray(support) != 0) & (where[:, None] != where[None, :])
    return [(int(i), int(j)) for i, j in np.argwhere(across)]
