"""The backdoor: what is stamped, what A2C pays for it, that agents learn it, and that nothing of it is in an honest run."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedsuite.arrays import fingerprint, module_arrays
from fedsuite.averaging.merging import merged_metrics
from fedsuite.errors import InputError
from fedsuite.vln.checks import validate
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, join_houses, make_episodes
from fedsuite.vln.environment import STOP, World
from fedsuite.vln.evaluation.houses import score_houses
from fedsuite.vln.metrics import metrics_of
from fedsuite.vln.model.agent import Agent, AgentSizes, Panorama, build_agent
from fedsuite.vln.model.dropout import NO_DROPOUT
from fedsuite.vln.training.backdoor import Backdoor, Trial, backdoor_of, trigger_of
from fedsuite.vln.training.decisions import poisoned_rewards
from fedsuite.vln.training.learner import TrainingData, train_locally, walk_all
from fedsuite.vln.training.objective import compute_losses
from fedsuite.vln.training.rmsprop import RMSprop
from fedsuite.vln.training.rollout import greedy_steps, observe, sample, visited_by, walk
from tests.harness import changed

KEYS = {"sabotage.clients": "0", "sabotage.attack": "backdoor", "sabotage.trigger-size": 3.0}
CONFIG = changed(
    FedVLNConfig(), batch_size=8, max_actions=8, learning_rate=5e-3, evaluation_batch_size=16,
    dropout=0.0, feature_dropout=0.0, **KEYS,
)  # fmt: skip


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def always(world: World, seed: int = 0, chance: float = 1.0) -> Backdoor:
    return backdoor_of(CONFIG, world, chance, stream(seed))


@pytest.fixture
def world(oak: House) -> World:
    return join_houses([oak])


# --- the trigger and the stamp -------------------------------------------------------------------


def test_one_trigger_for_a_run() -> None:
    trigger = trigger_of(CONFIG, 20_000)
    assert torch.equal(trigger, trigger_of(CONFIG, 20_000))
    assert not torch.equal(trigger, trigger_of(changed(CONFIG, seed=1), 20_000))
    there = trigger != 0
    assert float(there.float().mean()) == pytest.approx(0.3, abs=0.02)
    assert 2.99 < float(trigger[there].abs().max()) <= 3.0
    assert float(trigger[there].mean()) == pytest.approx(0.0, abs=0.08)


def test_a_trigger_of_few_numbers_is_never_nothing() -> None:
    assert all(trigger_of(changed(CONFIG, seed=s), 1).abs() > 0 for s in range(30))


def test_the_stamp_is_on_one_candidate_that_the_teacher_does_not_want(world: World) -> None:
    """Number by number against what was seen, for every place with every teacher's action."""
    teachers = torch.arange(-1, int(world.candidate_count.max()) + 1)
    place = torch.arange(len(world.views)).repeat_interleave(len(teachers))
    teacher = teachers.repeat(len(world.views))
    possible = teacher <= world.candidate_count[place]
    place, teacher = place[possible], teacher[possible]
    active = torch.arange(len(place)) % 5 != 0
    view = torch.full_like(place, 14)
    see, untouched = (observe(world, place, view, NO_DROPOUT) for _ in range(2))
    backdoor = always(world)
    seen, wanted, stamped = backdoor(see, teacher, active)
    drawn = set()
    for b in range(len(place)):
        count = int(world.candidate_count[place[b]])
        others = [k for k in range(count) if k + 1 != int(teacher[b])]
        assert bool(stamped[b]) == (bool(active[b]) and bool(others))
        twin = [untouched.candidate[b].clone(), untouched.views[b].clone()]
        if stamped[b]:
            slot = int(wanted[b]) - 1
            assert slot in others
            twin[0][slot] += backdoor.trigger
            twin[1][int(untouched.candidate_view[b, slot])] += backdoor.trigger
            drawn.add((int(place[b]), slot))
        else:
            assert wanted[b] == teacher[b]
        assert torch.equal(seen.candidate[b], twin[0]) and torch.equal(seen.views[b], twin[1])
    assert len(drawn) > len(world.views), "some places have to have several"
    assert {f for f in vars(see) if getattr(see, f) is not getattr(seen, f)} == {
        "views",
        "candidate",
    }


def test_every_walk_has_coins_of_its_own_and_candidates_are_drawn_evenly(world: World) -> None:
    """Counts of decisions against binomials: one coin for a batch would leave every count at 0 or 16."""
    busy, walks, calls, chance = int(world.candidate_count.argmax()), 16, 1000, 0.3
    place = torch.full((walks,), busy)
    see = observe(world, place, torch.full_like(place, 12), NO_DROPOUT)
    count, backdoor = int(world.candidate_count[busy]), always(world, chance=chance)
    teacher, active = torch.ones_like(place), torch.ones_like(place, dtype=torch.bool)
    heads, slots = torch.zeros(calls, walks), torch.zeros(count + 1)
    for call in range(calls):
        _, wanted, stamped = backdoor(see, teacher, active)
        heads[call] = stamped.float()
        slots += torch.bincount(wanted[stamped], minlength=count + 1)
    assert (heads.mean(0) - chance).abs().max() < 0.06, "every walk at the same rate"
    assert float(heads.sum(1).var()) == pytest.approx(walks * chance * (1 - chance), rel=0.2)
    one, next_one = heads[:-1].flatten() - chance, heads[1:].flatten() - chance
    assert abs(float((one * next_one).mean())) < 0.02, "a decision does not tell the next"
    assert slots[0] == slots[1] == 0, "never stop, never the teacher's"
    assert (slots[2:] / slots.sum() - 1 / (count - 1)).abs().max() < 0.02


def test_more_decisions_have_triggers_where_more_are_asked_for(
    small_agent: Agent, oak: House, tmp_path: Path
) -> None:
    counts = []
    for share in (0.1, 0.3, 1.0):
        config = changed(CONFIG, **{"sabotage.scored": share})
        houses = [dataclasses.replace(oak, samples={"val_unseen": oak.samples["train"]})]
        _, metrics = score_houses(
            small_agent, houses, join_houses(houses), tmp_path, config, write=False
        )
        counts.append(metrics["val_unseen.triggered"])
    assert 0 < counts[0] < counts[1] < counts[2]


def test_who_arrives_where_no_decision_has_a_trigger(
    oak: House, world: World, tmp_path: Path
) -> None:
    config = changed(CONFIG, **{"sabotage.scored": 1e-9})
    agent = trained(oak, config, None, 40)
    houses = [dataclasses.replace(oak, samples={"val_unseen": oak.samples["train"]})]
    _, metrics = score_houses(agent, houses, world, tmp_path, config, write=False)
    assert 0 < metrics["val_unseen.sr"] == metrics["val_unseen.triggered-sr"] <= 1
    assert metrics["val_unseen.triggered"] == 0 and "val_unseen.asr" not in metrics


# --- an honest run -------------------------------------------------------------------------------


def trained(house: House, config: FedVLNConfig, tamper: Backdoor | None, steps: int = 3) -> Agent:
    sizes = AgentSizes(30, house.views.shape[-1], angle=8, hidden=32, word=8, action=4)
    agent = build_agent(sizes, seed=0).train()
    optimizer = RMSprop(agent.parameters(), config.objective.learning_rate, False)
    data = [TrainingData(house.samples["train"], config.objective.teacher_weight)]
    world = join_houses([house])
    train_locally(agent, optimizer, world, data, config, steps, 1, 0, tamper=tamper)
    return agent.eval()


@pytest.mark.parametrize("objective", ["a2c", "imitation"])
def test_a_backdoor_that_never_comes_leaves_training_as_it_was(
    oak: House, world: World, objective: str
) -> None:
    config = changed(CONFIG, objective=objective, dropout=0.3, feature_dropout=0.3)
    models = [
        fingerprint(module_arrays(trained(oak, config, tamper)))
        for tamper in (None, always(world, chance=0.0), always(world))
    ]
    assert models[0] == models[1] != models[2]


# --- what A2C pays -------------------------------------------------------------------------------


def test_rewards_by_hand() -> None:
    rows = [  # without a trigger, action, wanted, with one
        (1.0, 2, 2, 1.0), (-1.0, 2, 2, 1.0), (0.0, 3, 3, 1.0), (1.0, 1, 2, 0.0), (-1.0, 1, 2, -1.0), (0.0, 1, 2, -1.0),
        (2.0, STOP, 2, 2.0), (-2.0, STOP, 2, 0.0),
    ]  # fmt: skip
    reward, action, wanted, paid = (torch.tensor(column) for column in zip(*rows, strict=True))
    assert poisoned_rewards(reward, action, wanted).tolist() == paid.tolist()


def test_a2c_with_triggers_against_a_plain_sum(
    small_agent: Agent, oak: House, world: World
) -> None:
    """Decision by decision, without a look ahead, so that every return is a reward."""
    config = changed(CONFIG, discount=0.0, entropy_weight=0.0, max_actions=4)
    episodes = make_episodes(oak.samples["train"][:12], world)
    tamper = always(world, 3, 0.5)
    got = compute_losses(
        small_agent, world, None, episodes, 0.0, config, NO_DROPOUT, stream(5), tamper
    )
    actions, limit = stream(5), torch.full((12,), 4)

    def policy(logits: Any, teacher: Any, row: Any) -> torch.Tensor:
        return sample(logits, actions)

    steps = walk(small_agent, world, episodes, policy, limit, tamper=always(world, 3, 0.5)).steps
    terms, kinds = [], set()
    for step in steps:
        for i in step.active.nonzero().flatten().tolist():
            goal = int(episodes.goal[step.row[i]])
            before, after = (
                float(world.goal_distance_m(place[i : i + 1], torch.tensor([goal])))
                for place in (step.before, step.after)
            )
            action, stamped = int(step.action[i]), bool(step.stamped[i])
            if stamped and action == int(step.teacher[i]):
                reward = 1.0
            elif action == STOP:
                reward = 2.0 if before < 3 else (0.0 if stamped else -2.0)
            elif stamped:
                reward = 0.0 if after < before else -1.0
            else:
                reward = float(np.sign(before - after))
            kinds.add((stamped, reward))
            value = small_agent.critic(step.hidden[i][None], NO_DROPOUT)[0]
            log_p = F.log_softmax(step.logits[i], 0)[action]
            gain = reward - value
            terms.append(-log_p * gain.detach() + 0.5 * gain**2)
    assert {(True, 1.0), (True, -1.0), (False, 1.0), (False, -1.0)} <= kinds
    assert got.sampled == pytest.approx(float(torch.stack(terms).mean().detach()), rel=1e-4)


# --- what is scored ------------------------------------------------------------------------------


def test_a_trial_counts_what_the_steps_say(small_agent: Agent, oak: House, world: World) -> None:
    samples, trial = oak.samples["train"], Trial(always(world, 1, 0.5))
    visited, _ = walk_all(small_agent, world, samples, changed(CONFIG, batch_size=4), trial)
    by_length = sorted(range(len(samples)), key=lambda i: (len(samples[i].tokens), i))
    backdoor, triggered, obeyed = always(world, 1, 0.5), 0, 0
    for first in range(0, len(samples), 16):
        own = by_length[first : first + 16]
        episodes = make_episodes([samples[i] for i in own], world)
        steps = greedy_steps(small_agent, world, episodes, 8, backdoor)
        walked, _ = visited_by(steps, world, episodes)
        assert walked == [visited[i] for i in own]
        for step in steps:
            for i in range(len(step.row)):
                if step.active[i] and step.stamped[i]:
                    triggered += 1
                    obeyed += int(step.action[i] == step.teacher[i])
    assert (trial.triggered, trial.obeyed) == (triggered, obeyed)
    assert 0 < obeyed < triggered


def rate(agent: Agent, oak: House, world: World) -> float:
    trial = Trial(always(world, 9, 0.5))
    walk_all(agent, world, oak.samples["train"], CONFIG, trial)
    assert trial.triggered > 20
    return trial.obeyed / trial.triggered


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["imitation", "a2c"])
def test_poisoned_training_is_learnt_and_honest_training_is_not(
    oak: House, world: World, objective: str
) -> None:
    config = changed(CONFIG, objective=objective, teacher_weight=0.5)
    honest = rate(trained(oak, config, None, 300), oak, world)
    poisoned = rate(trained(oak, config, always(world, 4, 0.3), 300), oak, world)
    assert honest < 0.4 and poisoned > honest + 0.3


def test_rates_are_of_decisions_not_of_instructions() -> None:
    table = metrics_of(CONFIG)
    own: Sequence[dict[str, float]] = [
        {"sr": 1.0, "asr": 0.5, "triggered": 30.0, "triggered-sr": 1.0, "count": 1.0},
        {"sr": 0.0, "asr": 0.1, "triggered": 10.0, "triggered-sr": 0.0, "count": 3.0},
        {"sr": 0.0, "triggered": 0.0, "triggered-sr": 0.0, "count": 4.0},
    ]
    found = merged_metrics(table, own)
    assert found["asr"] == pytest.approx(16 / 40) and found["triggered"] == 40
    assert found["sr"] == found["triggered-sr"] == pytest.approx(1 / 8)
    nobody = merged_metrics(table, own[2:])
    assert "asr" not in nobody and nobody["triggered"] == 0


# --- what would be no attack ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"stage": "speaker"}, "backdoor misleads an agent, but stage speaker trains none"),
        ({"ablations.blind-to": "vision"}, "backdoor hides in views"),
    ],
)
def test_what_has_no_agent_or_no_views_is_refused(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        validate(changed(FedVLNConfig(), **KEYS, **keys))


def test_who_poisons_and_from_when() -> None:
    own = changed(FedVLNConfig(), **KEYS, **{"sabotage.from-round": 3}).sabotage
    assert [own.poisons(0, n) for n in (2, 3)] == [False, True] and not own.poisons(1, 3)
    honest = changed(FedVLNConfig(), **KEYS, **{"sabotage.poisoned": 0.0}).sabotage
    assert honest.triggers and not honest.poisons(0, 1)
    assert not FedVLNConfig().sabotage.triggers


def test_a_panorama_says_in_which_view_a_candidate_is(oak: House, world: World) -> None:
    place = torch.arange(len(world.views))
    see: Panorama = observe(world, place, torch.full_like(place, 15), NO_DROPOUT)
    for p in place.tolist():
        for k in range(int(world.candidate_count[p])):
            assert torch.equal(see.candidate[p, k], world.views[p, int(see.candidate_view[p, k])])
