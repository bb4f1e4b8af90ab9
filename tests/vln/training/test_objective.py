"""Losses and gradients against the plain EnvDrop, rewards by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import join_houses, make_episodes
from fedsuite.vln.environment import World
from fedsuite.vln.model.dropout import NO_DROPOUT, Dropout
from fedsuite.vln.training import objective
from fedsuite.vln.training.decisions import rewards
from fedsuite.vln.training.objective import compute_losses
from tests.harness import changed

LIMIT = 7
CONFIG = changed(
    FedVLNConfig(), max_actions=20, train_max_actions=LIMIT, entropy_weight=0.05, discount=0.8
)


def configured(**changes) -> FedVLNConfig:
    return changed(CONFIG, **changes)


def stream() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def table():
    """Fixed actions of the sampled rows; a third of them stop on the way, the others are cut off."""
    actions = torch.randint(1, 100, (8, LIMIT), generator=torch.Generator().manual_seed(4))
    actions[[0, 3, 6], [0, 2, 5]] = 0
    return actions


@pytest.fixture
def fixed_actions(monkeypatch, table):
    """Replace the draws from the softmax by the table."""

    def inject(num_forced: int) -> None:
        real = objective.walk

        def walk(agent, world, episodes, policy, *rest, **options):
            time = iter(range(100))

            def fixed(logits, teacher, row):
                t = next(time)
                drawn = table[(row - num_forced).clamp(min=0), min(t, LIMIT - 1)]
                drawn = drawn % torch.isfinite(logits).sum(1)
                return torch.where(row < num_forced, teacher, drawn)

            return real(agent, world, episodes, fixed, *rest, **options)

        monkeypatch.setattr(objective, "walk", walk)

    return inject


def choice(table, row):
    return lambda time, logits, teacher: int(table[row, time]) % len(logits)


def teacher_choice(time, logits, teacher):
    return teacher


def gradients(agent, loss):
    grads = torch.autograd.grad(loss, list(agent.parameters()), allow_unused=True)
    return {n: g for (n, _), g in zip(agent.named_parameters(), grads, strict=True)}


def assert_same_gradients(agent, loss, twin_loss):
    got, want = gradients(agent, loss), gradients(agent, twin_loss)
    assert {n for n, g in got.items() if g is None} == {n for n, g in want.items() if g is None}
    for name, g in want.items():
        if g is not None:
            scale = g.abs().max().item()
            assert_close(got[name], g, rtol=1e-3, atol=2e-5 * max(scale, 1e-3), msg=name)


def test_imitation_equals_the_plain_one(small_agent, plain, plain_losses, oak):
    world, samples = join_houses([oak]), oak.samples["train"][:10]
    config = configured(objective="none")
    forced = make_episodes(samples, world)
    got = compute_losses(small_agent, world, forced, None, 0.3, config, NO_DROPOUT, stream())
    want = plain_losses[0]([plain.episode(s, teacher_choice, 20) for s in samples])
    assert got.imitation == pytest.approx(want.item(), rel=1e-5) and got.sampled == 0
    assert_close(got.total, 0.3 * want)
    assert got.decisions == sum(len(s.path) for s in samples)
    assert_same_gradients(small_agent, got.total, 0.3 * want)


def test_a2c_equals_the_plain_one(small_agent, plain, plain_losses, oak, table, fixed_actions):
    """Alone, with stops on the way and episodes cut off (bootstrap)."""
    world, samples = join_houses([oak]), oak.samples["train"][4:12]
    config = CONFIG
    fixed_actions(0)
    got = compute_losses(
        small_agent, world, None, make_episodes(samples, world), 0.0, config, NO_DROPOUT, stream()
    )
    walks = [plain.episode(s, choice(table, i), LIMIT) for i, s in enumerate(samples)]
    assert 0 < sum(w.bootstrap != 0 for w in walks) < 8
    want = plain_losses[1](plain, walks, samples, 0.8, 0.05)
    assert got.sampled == pytest.approx(want.item(), rel=1e-4)
    assert_same_gradients(small_agent, got.total, want)


@pytest.mark.parametrize("kind", ["a2c", "imitation"])
def test_both_parts_in_one_batch_equal_two_rollouts(
    kind, small_agent, plain, plain_losses, oak, table, fixed_actions
):
    world = join_houses([oak])
    forced, sampled = oak.samples["train"][:5], oak.samples["train"][6:14]
    config = configured(objective=kind, sampled_weight=0.7)
    fixed_actions(5)
    batches = make_episodes(forced, world), make_episodes(sampled, world)
    got = compute_losses(small_agent, world, *batches, 0.3, config, NO_DROPOUT, stream())
    imitation = plain_losses[0]([plain.episode(s, teacher_choice, 20) for s in forced])
    walks = [plain.episode(s, choice(table, i), LIMIT) for i, s in enumerate(sampled)]
    wanted = {
        "a2c": lambda: plain_losses[1](plain, walks, sampled, 0.8, 0.05),
        "imitation": lambda: plain_losses[0](walks),
    }
    other = wanted[kind]()
    assert got.imitation == pytest.approx(imitation.item(), rel=1e-4)
    assert got.sampled == pytest.approx(other.item(), rel=1e-4)
    assert_same_gradients(small_agent, got.total, 0.3 * imitation + 0.7 * other)


@pytest.mark.parametrize("kind", ["a2c", "imitation"])
def test_environment_dropout_equals_a_house_that_looks_so(kind, small_agent, oak):
    """Multiplying all views beforehand and dropping no features gives the same losses and gradients."""
    mask = torch.tensor([0.0, 1.6, 1.6, 0.0, 1.6, 1.6, 1.6, 0.0])
    house = replace(oak, views=np.array(oak.views) * mask.numpy())
    config, got = configured(objective=kind), []
    for place, feature_p, factor in ((house, 0.0, None), (oak, 0.4, mask)):
        world = join_houses([place])
        first, second = (
            replace(
                make_episodes(s, world),
                feature_factor=None if factor is None else factor.expand(len(s), -1),
            )
            for s in (oak.samples["train"][:5], oak.samples["train"][6:14])
        )
        dropout = Dropout(0.5, feature_p, torch.Generator().manual_seed(3))
        got.append(
            compute_losses(small_agent, world, first, second, 0.6, config, dropout, stream())
        )
    assert got[0].total.item() == got[1].total.item() and got[0].decisions == got[1].decisions
    assert got[0].imitation == got[1].imitation and got[0].sampled == got[1].sampled
    assert_same_gradients(small_agent, got[1].total, got[0].total)


def test_mini_batches_that_do_not_fit_are_refused(small_agent, oak):
    world = join_houses([oak])
    bare = make_episodes(oak.samples["train"][:3], world)
    masked = replace(bare, feature_factor=torch.ones(3, 8))
    rest = (0.2, CONFIG, NO_DROPOUT, stream())
    for pair in ((bare, masked), (masked, bare)):
        with pytest.raises(ValueError, match="both mini-batches"):
            compute_losses(small_agent, world, *pair, *rest)
    with pytest.raises(ValueError, match="got neither"):
        compute_losses(small_agent, world, None, None, *rest)


def test_losses_depend_on_the_streams_alone(small_agent, world, oak, elm):
    def run(dropout_seed, action_seed):
        forced = make_episodes(oak.samples["train"][:4], world)
        sampled = make_episodes([*elm.samples["train"], *oak.samples["train"][:4]], world)
        dropout = Dropout(0.5, 0.3, torch.Generator().manual_seed(dropout_seed))
        actions = torch.Generator().manual_seed(action_seed)
        return compute_losses(
            small_agent, world, forced, sampled, 0.3, CONFIG, dropout, actions
        ).total.item()

    assert run(1, 2) == run(1, 2)
    assert len({run(1, 2), run(1, 3), run(2, 2)}) == 3


LINE_M = torch.tensor([0.0, 2.9, 3.0, 8.0])


class Line(World):
    """Goal distances of four places are LINE_M; nothing else is asked for."""

    def __init__(self):
        pass

    def goal_distance_m(self, viewpoint, goal):
        return LINE_M[viewpoint]


def test_rewards_by_hand():
    cases = [  # before, action, after, reward
        (3, 1, 0, 1.0),  # nearer, by however much
        (2, 2, 1, 1.0),
        (0, 1, 1, -1.0),  # farther
        (1, 1, 1, 0.0),  # neither
        (0, 0, 0, 2.0),  # stops at the goal
        (1, 0, 1, 2.0),  # stops within 3 m
        (2, 0, 2, -2.0),  # 3 m is not within 3 m
        (3, 0, 3, -2.0),
    ]
    before, action, after, want = (torch.tensor(x) for x in zip(*cases, strict=True))
    goal = torch.zeros(8, dtype=torch.int64)
    assert rewards(Line(), before, after, action, goal).tolist() == want.tolist()


def test_a_house_of_one_way_doors_gives_finite_losses(small_agent, oak):
    """A sampled walk may enter places from which the goal cannot be reached any more."""
    graph = oak.graph
    one_way = replace(graph, edge=np_one_way(graph.edge))
    house = replace(oak, graph=one_way, candidates=one_way.candidates)
    world = join_houses([house])
    reach = [s for s in oak.samples["train"] if one_way.distance_m[s.path[0], s.path[-1]] < 1e6]
    assert len(reach) >= 3
    episodes = make_episodes(reach * 8, world)
    for kind in ("a2c", "imitation"):
        config = configured(objective=kind)
        out = compute_losses(
            small_agent, world, episodes, episodes, 0.3, config, NO_DROPOUT, stream()
        )
        assert out.total.isfinite() and out.imitation > 0
        some = [g for g in gradients(small_agent, out.total).values() if g is not None]
        assert len(some) > 15 and all(g.isfinite().all() for g in some)


def np_one_way(edge):
    """Two neighbours in the last column of the grid can be entered but not left."""
    edge = edge.copy()
    assert edge[7, 11] and edge[11, 7]
    for trap in (7, 11):
        edge[trap, [i for i in range(len(edge)) if i not in (7, 11)]] = False
    return edge
