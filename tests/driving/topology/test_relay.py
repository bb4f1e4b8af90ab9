"""Relaying along a tree: figures worked out by hand, the paper's equations as plain loops, and what absence does."""

import networkx as nx
import numpy as np
import pytest

from fedsuite.driving.topology import Overlay, both_ways
from fedsuite.driving.topology.matcha import plan_matcha
from fedsuite.driving.topology.mixing import average_model, mix
from fedsuite.driving.topology.relay import is_tree, relay_matrix, relay_schedule

CHAIN = both_ways([(0, 1), (1, 2)])
# Silo i has f_i = h_i / 2 (x - b_i)^2.
H, B = np.array([1.0, 2.0, 0.5]), np.array([1.0, -1.0, 4.0])
ETA = 0.1


def random_tree(size: int, seed: int) -> tuple[tuple[int, int], ...]:
    rng = np.random.default_rng(seed)
    return both_ways([(int(rng.integers(i)), i) for i in range(1, size)])


def tree_of(size: int, seed: int = 0) -> Overlay:
    return Overlay("mst", size, random_tree(size, seed))


def descend(x: np.ndarray) -> np.ndarray:
    return x - ETA * H * (x - B)


def played(steps: int, missing: float = 0.0, updates: int = 1) -> np.ndarray:
    """Models of three silos on the chain; each answers with probability 1 - missing."""
    rng, rows = np.random.default_rng(0), np.zeros(3 + len(CHAIN))
    for _ in range(steps):
        present = rng.random(3) >= missing
        for _ in range(updates):
            rows[:3] = np.where(present, descend(rows[:3]), rows[:3])
        rows = relay_matrix(CHAIN, present) @ rows
    return rows[:3]


def test_three_steps_worked_out_by_hand_and_where_they_end() -> None:
    three = (0.0515925926, 0.0649629630, 0.0452962963)
    np.testing.assert_allclose(played(3), three, atol=1e-10)
    optimum = (H * B).sum() / H.sum()
    assert optimum == pytest.approx(0.2857142857)
    np.testing.assert_allclose(played(400), optimum, atol=1e-12)
    np.testing.assert_allclose(played(600, missing=0.2), optimum, atol=1e-12)


def test_with_several_updates_it_ends_where_federated_averaging_does() -> None:
    for updates in (2, 3):
        step = 1 - (1 - ETA * H) ** updates
        np.testing.assert_allclose(
            played(400, updates=updates), (step * B).sum() / step.sum(), atol=1e-12
        )


class Twin:
    """The equations as they stand in the paper, silo by silo: sums as messages, and counts of models in them."""

    def __init__(self, links: tuple[tuple[int, int], ...], start: np.ndarray, size: int) -> None:
        self.near = [[j for i, j in links if i == silo] for silo in range(size)]
        self.start, self.x = start, [start.copy() for _ in range(size)]
        self.message = {link: np.zeros_like(start) for link in links}
        self.count = dict.fromkeys(links, 0)
        self.heard = [1] * size

    def step(self, z: list[np.ndarray], present: list[bool]) -> None:
        """z: models of all silos after training; of an absent one it is not looked at."""
        message, count = dict(self.message), dict(self.count)
        for i, j in self.message:
            if present[i] and present[j]:
                message[i, j], count[i, j] = z[i].copy(), 1
                for k in self.near[i]:
                    if k != j:
                        message[i, j] += self.message[k, i]
                        count[i, j] += self.count[k, i]
        self.message, self.count = message, count
        for i, near in enumerate(self.near):
            if present[i]:
                self.heard[i] = 1 + sum(count[j, i] for j in near)
                rest = (len(z) - self.heard[i]) * self.start
                self.x[i] = (z[i] + sum(message[j, i] for j in near) + rest) / len(z)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(("size", "seed"), [(1, 0), (2, 0), (5, 1), (9, 2), (14, 3)])
def test_equals_a_plain_loop_over_silos(size: int, seed: int, missing: float) -> None:
    rng, links = np.random.default_rng(seed), random_tree(size, seed)
    start = rng.normal(size=4)
    twin, rows = Twin(links, start, size), np.tile(start, (size + len(links), 1))
    for _ in range(25):
        present = rng.random(size) >= missing
        z = [x - 0.3 * np.tanh(x - i) for i, x in enumerate(twin.x)]
        twin.step(z, [*present])
        rows[:size][present] = np.array(z)[present]
        rows = relay_matrix(links, present) @ rows
        np.testing.assert_allclose(rows[:size], twin.x, atol=1e-12)
    assert twin.heard == [size] * size


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_every_silo_has_one_model_of_each_and_those_that_did_not_come_are_the_start(
    missing: float,
) -> None:
    """Models are told apart by their silo; once all have come, each weighs 1 / n, whoever is absent later."""
    size, links = 8, random_tree(8, 5)
    ways = dict(nx.all_pairs_shortest_path_length(nx.Graph(links)))
    rng, rows = np.random.default_rng(1), np.zeros((size + len(links), size + 1))
    rows[:, size] = 1  # the start
    own = np.eye(size, size + 1)
    for step in range(1, 60):
        present = rng.random(size) >= missing
        before = rows[:size].copy()
        rows[:size][present] = own[present]
        rows = relay_matrix(links, present) @ rows
        np.testing.assert_array_equal(rows[:size][~present], before[~present])
        np.testing.assert_allclose(rows.sum(axis=1), 1)
        models = rows[:size, :size]
        assert (np.isclose(models, 0) | np.isclose(models, 1 / size)).all()
        if not missing:
            come = [[ways[i][j] <= step for j in range(size)] for i in range(size)]
            np.testing.assert_array_equal(models > 0, come)
    np.testing.assert_allclose(models, 1 / size)


def test_moments_of_batch_norm_become_those_of_all_frames() -> None:
    """A mixture's variance holds the spread between silos, also where it is passed on in parts."""
    schedule = relay_schedule(tree_of(7))
    rng, rows = np.random.default_rng(0), len(schedule.matrix(0))
    own = {"n.running_mean": rng.normal(size=(7, 3)), "n.running_var": rng.random((7, 3))}
    arrays = {k: np.full((rows, 3), 0.5) for k in own}
    for t in range(8):
        for key, value in own.items():
            arrays[key][:7] = value
        arrays = mix(arrays, schedule.matrix(t))
    expected = average_model(own)
    for key, value in expected.items():
        np.testing.assert_allclose(arrays[key][:7], np.tile(value, (7, 1)), atol=1e-12)


def test_messages_have_rows_behind_the_silos_and_go_with_both_their_ends() -> None:
    schedule = relay_schedule(Overlay("mst", 3, CHAIN))
    assert schedule.links == ((0, 1), (1, 0), (1, 2), (2, 1))
    assert schedule.matrix(0).shape == (7, 7) and schedule.support.shape == (3, 3)
    assert schedule.rows_of([1]) == [1] and schedule.rows_of([2, 1]) == [2, 1, 5, 6]
    assert schedule.rows_of(range(3)) == [*range(7)]
    all_here = schedule.matrix_among(4, np.ones(3, bool))
    np.testing.assert_array_equal(all_here, schedule.matrix(4))


SOMETIMES = Overlay("matcha", 3, both_ways([(0, 1), (1, 2)]), matcha=plan_matcha(nx.path_graph(3)))


@pytest.mark.parametrize(
    ("overlay", "answer"),
    [
        (Overlay("mst", 3, CHAIN), True),
        (Overlay("local", 1, ()), True),
        (Overlay("ring", 2, ((0, 1), (1, 0))), True),
        (Overlay("local", 3, ()), False),
        (Overlay("ring", 3, ((0, 1), (1, 2), (2, 0))), False),
        (Overlay("custom", 3, ((0, 1), (1, 2))), False),
        (Overlay("complete", 3, both_ways([(0, 1), (1, 2), (0, 2)])), False),
        (Overlay("custom", 5, both_ways([(0, 1), (2, 3), (3, 4), (2, 4)])), False),
        (SOMETIMES, False),
    ],
)
def test_what_a_tree_is(overlay: Overlay, answer: bool) -> None:
    assert is_tree(overlay) is answer
