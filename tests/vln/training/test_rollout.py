"""Rollouts: who walks where, when episodes end, and that dropping finished ones changes nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from fedsuite.vln.data.dataset import join_houses, make_episodes
from fedsuite.vln.environment import STOP
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.training import rollout
from fedsuite.vln.training.rollout import greedy, sample, trajectories, walk


def shortest(logits, teacher, row):
    return teacher


def table_policy(table):
    """Row b stops at decision t if table[b, t] is 0, else takes one of its moves."""
    time = iter(range(table.shape[1]))

    def policy(logits, teacher, row):
        drawn = table[row, next(time)]
        return torch.where(drawn == 0, 0, 1 + drawn % (torch.isfinite(logits).sum(1) - 1))

    return policy


def table_choice(table, row):
    def choose(time, logits, teacher):
        drawn = int(table[row, time])
        return 1 + drawn % (len(logits) - 1) if drawn else 0

    return choose


@pytest.fixture
def batch(oak):
    world = join_houses([oak])
    samples = oak.samples["train"][:16]
    return world, samples, make_episodes(samples, world)


LIMIT = 12


@pytest.fixture
def table():
    """Random moves; all rows but four stop on the way, so that episodes leave the batch one by one."""
    g = torch.Generator().manual_seed(2)
    actions = torch.randint(1, 100, (16, LIMIT), generator=g)
    actions[torch.arange(12), torch.arange(12)] = 0
    return actions


def test_compacted_rollout_equals_the_plain_one(small_agent, plain, batch, table):
    world, samples, episodes = batch
    limit = torch.full((16,), LIMIT)
    out = walk(small_agent, world, episodes, table_policy(table), limit, bootstrap=True)
    sizes = [len(s.row) for s in out.steps]
    assert sizes[0] == 16 and sizes[-1] < 7, "finished episodes have to leave the batch"
    found = [0] * 16
    twins = [plain.episode(s, table_choice(table, i), LIMIT) for i, s in enumerate(samples)]
    for time, step in enumerate(out.steps):
        for i in step.active.nonzero().flatten().tolist():
            row = int(step.row[i])
            twin = twins[row].decisions[time]
            assert found[row] == time
            found[row] += 1
            assert (step.action[i], step.before[i], step.after[i], step.teacher[i]) == (
                twin.action,
                twin.before,
                twin.after,
                twin.teacher,
            )
            assert_close(step.logits[i, : len(twin.logits)], twin.logits)
            assert_close(step.hidden[i], twin.hidden)
    assert found == [len(t.decisions) for t in twins]
    unfinished = {i for i, t in enumerate(twins) if t.decisions[-1].action != STOP}
    assert unfinished and set(out.unfinished.tolist()) == unfinished
    for row, hidden in zip(out.unfinished.tolist(), out.last_hidden, strict=True):
        value = plain.agent.critic(hidden[None], rollout.NO_DROPOUT)
        assert value.item() == pytest.approx(twins[row].bootstrap, abs=1e-5)


def test_a_feature_factor_stays_with_its_row(small_agent, plain, oak, batch, table):
    """Every episode sees its own factor at all steps and in the look after a cut, also when others have left."""
    world, samples, episodes = batch
    factor = torch.rand(16, world.feature_size, generator=torch.Generator().manual_seed(0)) * 2
    dimmed = replace(episodes, feature_factor=factor)
    never = Dropout(
        0.0, 0.9, torch.Generator().manual_seed(0)
    )  # no feature dropout beside a factor
    limit = torch.full((16,), LIMIT)
    out = walk(small_agent, world, dimmed, table_policy(table), limit, never, bootstrap=True)
    assert len(out.steps[-1].row) < 7, "finished episodes have to leave the batch"
    twins = []
    for i, s in enumerate(samples):
        house = replace(oak, views=np.array(oak.views) * factor[i].numpy())
        twins.append(type(plain)(small_agent, house).episode(s, table_choice(table, i), LIMIT))
    compared = 0
    for time, step in enumerate(out.steps):
        for i in step.active.nonzero().flatten().tolist():
            twin = twins[int(step.row[i])].decisions[time]
            assert_close(step.logits[i, : len(twin.logits)], twin.logits)
            compared += 1
    assert compared == sum(len(t.decisions) for t in twins)
    for row, hidden in zip(out.unfinished.tolist(), out.last_hidden, strict=True):
        value = small_agent.critic(hidden[None], rollout.NO_DROPOUT)
        assert value.item() == pytest.approx(twins[row].bootstrap, abs=1e-5)


def test_limits_may_differ_between_episodes(small_agent, batch):
    world, _, episodes = batch
    limit = torch.arange(16) % 5 + 1

    def forever(logits, teacher, row):
        return torch.ones_like(row)

    out = walk(small_agent, world, episodes, forever, limit, bootstrap=True)
    taken = torch.zeros(16, dtype=torch.int64)
    for step in out.steps:
        taken[step.row[step.active]] += 1
    assert torch.equal(taken, limit)
    assert sorted(out.unfinished.tolist()) == list(range(16))
    assert out.last_hidden.shape == (16, 16) and not out.last_hidden.requires_grad


def test_no_second_look_without_bootstrap_or_when_all_stop(small_agent, batch):
    world, _, episodes = batch
    short, long = torch.full((16,), 1), torch.full((16,), 20)
    assert walk(small_agent, world, episodes, shortest, short).unfinished is None
    done = walk(small_agent, world, episodes, shortest, long, bootstrap=True)
    assert done.unfinished is None and done.last_hidden is None
    last = torch.cat([s.action[s.active] for s in done.steps])
    assert (last == STOP).sum() == 16


def test_greedy_trajectories_stay_in_the_graph(small_agent, batch, oak):
    world, samples, episodes = batch
    visited, views = trajectories(small_agent, world, episodes, max_actions=15)
    lengths = set()
    for s, places, looks in zip(samples, visited, views, strict=True):
        assert places[0] == s.path[0] and looks[0] == s.start_view
        assert len(places) == len(looks) <= 16
        for a, b, look in zip(places, places[1:], looks[1:], strict=False):
            slot = oak.candidates.viewpoint[a].tolist().index(b)
            assert oak.graph.edge[a, b] and oak.candidates.view[a, slot] == look
        lengths.add(len(places))
    assert len(lengths) > 1, "the case needs walks of different length"


def test_greedy_trajectories_equal_the_plain_ones(small_agent, plain, batch):
    world, samples, episodes = batch
    visited, _ = trajectories(small_agent, world, episodes, max_actions=9)
    for s, places in zip(samples, visited, strict=True):
        twin = plain.episode(s, lambda t, logits, teacher: int(logits.argmax()), 9)
        moves = [d.after for d in twin.decisions if d.action != STOP]
        assert places == [s.path[0], *moves]


def test_trajectories_build_no_gradient_graph(small_agent, batch, monkeypatch):
    world, _, episodes = batch
    seen = []

    def spy(logits, teacher, row):
        seen.append(torch.is_grad_enabled())
        return greedy(logits, teacher, row)

    monkeypatch.setattr(rollout, "greedy", spy)
    trajectories(small_agent, world, episodes, 3)
    assert seen and not any(seen)


def test_sampling_follows_the_softmax_and_its_stream():
    logits = torch.tensor([[0.0, 1.0, -torch.inf], [2.0, 0.0, 0.0]]).repeat(20_000, 1)
    draws = sample(logits, torch.Generator().manual_seed(0)).view(-1, 2)
    for column, row in enumerate(logits[:2]):
        share = torch.bincount(draws[:, column], minlength=3) / len(draws)
        assert_close(share, torch.softmax(row, 0), atol=0.015, rtol=0)
    assert (draws[:, 0] != 2).all(), "padding is never drawn"
    assert torch.equal(draws.flatten(), sample(logits, torch.Generator().manual_seed(0)))


def test_policies_get_detached_logits(small_agent, batch):
    world, _, episodes = batch

    def policy(logits, teacher, row):
        assert not logits.requires_grad
        return teacher

    out = walk(small_agent, world, episodes, policy, torch.full((16,), 20))
    assert out.steps[0].logits.requires_grad
