"""MATCHA: proper colourings, optimal probabilities, the step alpha, and random rounds."""

import json

import networkx as nx
import numpy as np
import pytest

from fedsuite.driving.topology import load_network
from fedsuite.driving.topology.matcha import (
    MatchaPlan,
    activation_probabilities,
    best_alpha,
    edge_colouring,
    laplacian,
    plan_matcha,
)
from fedsuite.errors import InputError


def graphs():
    yield from (load_network(n).underlay for n in ("gaia", "nws", "exodus", "ebone", "geant"))
    for seed in range(25):
        yield nx.gnp_random_graph(3 + seed, 0.4, seed=seed)
    yield nx.petersen_graph()
    yield nx.complete_graph(2)


def test_colouring_is_proper_with_few_colours():
    for graph in graphs():
        matchings = edge_colouring(graph)
        edges = [e for m in matchings for e in m]
        assert sorted(edges) == sorted((min(e), max(e)) for e in graph.edges)
        for matching in matchings:
            ends = [v for e in matching for v in e]
            assert len(ends) == len(set(ends)) and matching
        assert len(matchings) <= 1 + max((d for _, d in graph.degree), default=0)


def second_eigenvalue(matchings, p, size):
    mean = sum(q * laplacian(m, size) for q, m in zip(p, matchings, strict=True))
    return np.linalg.eigvalsh(mean)[1]


@pytest.mark.slow
@pytest.mark.needs_shared
@pytest.mark.parametrize("name", ["gaia", "amazon_us", "exodus", "ebone", "geantdistance"])
def test_probabilities_and_alpha_of_the_reference_matchings(shared, name):
    data = json.loads((shared / "golden" / "topologies" / f"{name}_20157248.json").read_text())
    size, data = data["n_nodes"], data["overlays"]["matcha"]
    kept = [k for k, m in enumerate(data["matchings"]) if m]
    matchings = [tuple(map(tuple, data["matchings"][k])) for k in kept]
    reference = np.array(data["activation_probabilities"])[kept]
    alpha, rho = best_alpha(matchings, reference, size)
    assert alpha == pytest.approx(data["alpha"], abs=1e-4)
    assert rho == pytest.approx(data["rho"], abs=1e-4)
    p = activation_probabilities(matchings, size, 0.5)
    assert p.sum() <= 0.5 * len(matchings) + 1e-6 and p.min() >= 0 and p.max() <= 1
    # The optimum is flat, so values are compared; the reference's solver may overstep its limits by 1e-3.
    best = second_eigenvalue(matchings, p, size)
    assert best == pytest.approx(second_eigenvalue(matchings, reference, size), rel=2e-3)
    if name in ("gaia", "amazon_us"):
        assert p == pytest.approx(reference, abs=1e-4)


def test_plans_of_complete_networks():
    for name, value in (("gaia", 0.15385), ("nws", 0.08333)):
        plan = plan_matcha(load_network(name).underlay)
        assert plan.probabilities == pytest.approx([0.5] * len(plan.matchings), abs=1e-4)
        assert (plan.alpha, plan.rho) == pytest.approx((value, value), abs=1e-4)


@pytest.mark.slow
def test_probabilities_beat_other_choices():
    graph = nx.connected_watts_strogatz_graph(12, 4, 0.5, seed=3)
    matchings = edge_colouring(graph)
    best = second_eigenvalue(matchings, activation_probabilities(matchings, 12, 0.4), 12)
    rng = np.random.default_rng(0)
    for _ in range(300):
        p = rng.random(len(matchings))
        p = np.minimum(1, p * 0.4 * len(matchings) / p.sum())
        assert second_eigenvalue(matchings, p, 12) <= best * (1 + 1e-5)
    full = activation_probabilities(matchings, 12, 1.0)
    assert full == pytest.approx(np.ones(len(matchings)), abs=1e-6)


def test_rho_is_the_second_moment_of_the_rounds():
    plan = plan_matcha(nx.cycle_graph(5))
    total, count, size = np.zeros((5, 5)), 0, len(plan.matchings)
    for bits in range(2**size):
        on = [m for m in range(size) if bits >> m & 1]
        chance = np.prod([p if m in on else 1 - p for m, p in enumerate(plan.probabilities)])
        w = plan.matrix(on)
        total += chance * w @ w
        count += chance
    assert count == pytest.approx(1)
    assert np.linalg.eigvalsh(total - 1 / 5)[-1] == pytest.approx(plan.rho, abs=1e-9)
    around = [best_alpha(plan.matchings, np.array(plan.probabilities), 5)[1]]
    assert around[0] == pytest.approx(plan.rho)


def test_rounds():
    plan = plan_matcha(load_network("gaia").underlay)
    drawn = [plan.active_in_round(7, r) for r in range(400)]
    assert all(drawn) and drawn[3] == plan.active_in_round(7, 3)
    share = np.bincount(np.concatenate(drawn), minlength=11) / 400
    assert share == pytest.approx([0.5] * 11, abs=0.1)
    w = plan.matrix(drawn[0])
    assert w == pytest.approx(w.T) and w.sum(axis=1) == pytest.approx(np.ones(11))
    assert plan.support().all()
    rare = MatchaPlan(2, (((0, 1),),), (0.05,), 0.5, 0.9)
    assert all(rare.active_in_round(0, r) == [0] for r in range(50))
    with pytest.raises(InputError, match="no matching became active"):
        MatchaPlan(2, (((0, 1),),), (0.0,), 0.5, 1.0).active_in_round(0, 1)
    with pytest.raises(InputError, match="budget: expected a fraction"):
        plan_matcha(nx.path_graph(3), 0.0)
