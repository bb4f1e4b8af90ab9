"""DP-SGD of a house: gradients of single instructions, by a slow twin, and all draws from the noise's source."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedsuite.arrays import fingerprint, module_arrays
from fedsuite.averaging.privacy_settings import PrivacySettings
from fedsuite.privacy.example_level import NoisedSteps
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, join_houses, make_episodes
from fedsuite.vln.environment import STOP
from fedsuite.vln.model.agent import Agent, AgentSizes, build_agent
from fedsuite.vln.training.private_learner import SIDE_BY_SIDE, PrivateLearner
from fedsuite.vln.training.rmsprop import RMSprop
from fedsuite.vln.training.rollout import walk
from tests.harness import changed

OWN = PrivacySettings(unit="example", clip=1.5, noise_multiplier=1e-12)
BASE: dict[str, Any] = {
    "max_actions": 8,
    "learning_rate": 1e-2,
    "objective.kind": "none",
    "teacher_weight": 0.7,
}
PLAIN = {**BASE, "dropout": 0.0, "feature_dropout": 0.0}  # fmt: skip


def learner(
    house: House, own: dict[str, Any], batch: int = 4, secret: int = 0, **privacy: Any
) -> PrivateLearner:
    config = changed(FedVLNConfig(), **own)
    sizes = AgentSizes(30, house.views.shape[-1], angle=8, hidden=16, word=6, action=4)
    samples = house.samples["train"]
    visit = NoisedSteps(replace(OWN, **privacy), batch, len(samples), np.random.default_rng(secret))
    agent = build_agent(sizes, seed=0).train()
    return PrivateLearner(agent, join_houses([house]), samples, config, visit)


def twin(
    of: PrivateLearner, rows: Sequence[int], teacher: float, sampled: float = 0.0
) -> dict[str, Tensor]:
    """Sum of clipped gradients, each by a plain backward pass of an episode alone; sampled ones follow the best action."""
    agent: Agent = of.agent
    total = {k: torch.zeros(p.shape, dtype=torch.float64) for k, p in of.trained.items()}
    for row in rows:
        agent.zero_grad()
        alone = make_episodes([of.samples[row]], of.world)
        for weight, policy in (
            (teacher, lambda logits, wanted, _: wanted),
            (sampled, lambda logits, *_: logits.argmax(1)),
        ):
            if weight:
                for step in walk(agent, of.world, alone, policy, torch.tensor([8])).steps:
                    if int(step.teacher) >= STOP:
                        (weight * cross_entropy(step.logits, step.teacher)).backward(
                            retain_graph=True
                        )
        found = {
            k: p.grad.double() if p.grad is not None else torch.zeros_like(p).double()
            for k, p in of.trained.items()
        }
        norm = float(sum(g.square().sum() for g in found.values())) ** 0.5
        for name, gradient in found.items():
            total[name] += gradient * min(1.0, of.visit.settings.clip / norm)
    agent.zero_grad()
    return total


def test_a_sum_is_that_of_single_episodes_clipped_one_by_one(oak: House) -> None:
    """More than walk side by side; q n = 4 divides, whatever the batch has. The critic is left out."""
    private, rows = learner(oak, PLAIN), range(SIDE_BY_SIDE + 3)
    found, want = private.gradient(rows), twin(private, rows, 0.7)
    assert found.keys() == want.keys() and not any(k.startswith("critic") for k in found)
    for name, value in want.items():
        torch.testing.assert_close(4 * found[name].double(), value, rtol=1e-4, atol=1e-5, msg=name)
    lengths = [
        float(sum(v.square().sum() for v in twin(private, [r], 0.7).values())) ** 0.5 for r in rows
    ]
    assert max(lengths) <= 1.5 + 1e-9  # and some were longer before
    wide = learner(oak, PLAIN, clip=1e6)
    assert (
        max(
            float(sum(v.square().sum() for v in twin(wide, [r], 0.7).values())) ** 0.5 for r in rows
        )
        > 1.5
    )


def test_both_episodes_of_an_instruction_are_one_gradient(
    oak: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sampled episode that takes the likeliest action, so that its twin can."""
    monkeypatch.setattr(
        "fedsuite.vln.training.objective.sample", lambda logits, _: logits.argmax(1)
    )
    private = learner(oak, {**PLAIN, "objective.kind": "imitation", "sampled_weight": 0.4})
    found, want = private.gradient([2, 5]), twin(private, [2, 5], 0.7, 0.4)
    for name, value in want.items():
        torch.testing.assert_close(4 * found[name].double(), value, rtol=1e-4, atol=1e-5, msg=name)


def test_dropout_and_sampled_actions_follow_the_noise_alone(oak: House) -> None:
    """Of torch's seed and the run's nothing depends; steps move all but the critic."""
    own = {**BASE, "objective.kind": "imitation"}

    def trained(secret: int, seed: int) -> tuple[str, dict[str, np.ndarray]]:
        private = learner(oak, {**own, "seed": seed}, batch=18, secret=secret)
        torch.manual_seed(seed)
        private.train(RMSprop(private.agent.parameters(), 1e-2, True), 2)
        arrays = module_arrays(private.agent)
        return fingerprint(arrays), arrays

    first, arrays = trained(1, 1)
    assert first == trained(1, 2)[0] != trained(2, 1)[0]
    start = module_arrays(learner(oak, own).agent)
    still = {name for name in start if np.array_equal(start[name], arrays[name])}
    assert still == {name for name in start if name.startswith("critic.")}


def test_one_instruction_more_moves_the_sum_by_the_clipping_norm_at_most(oak: House) -> None:
    private = learner(oak, PLAIN, clip=0.5)
    whole, rest = private.gradient(range(7)), private.gradient(range(6))
    moved = float(sum((4 * (whole[k] - rest[k]).double()).square().sum() for k in whole)) ** 0.5
    assert 0.49 < moved <= 0.5 * (1 + 1e-4)
