"""Scores of instructions against what a visit tells: by the gradient as torch has it, and with parts of an agent alone."""

import copy

import numpy as np
import pytest

from fedsuite.randomness import torch_generator_for
from fedsuite.settings.config import with_keys
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, join_houses, make_episodes
from fedsuite.vln.exposure.recognised import scores_of
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.training.learner import TrainingData, train_locally
from fedsuite.vln.training.objective import compute_losses
from fedsuite.vln.training.rmsprop import RMSprop

CONFIG = with_keys(
    FedVLNConfig(),
    {
        "agent.dropout": 0.0, "agent.feature-dropout": 0.0, "objective.batch-size": 1,
        "objective.kind": "none", "objective.teacher-weight": 1.0,
    },
)  # fmt: skip


def gradient_of(agent: Agent, house: House, number: int) -> dict[str, np.ndarray]:
    """Of one instruction, by backward."""
    world, draws = join_houses([house]), torch_generator_for(1, "unused", 0, 0, "cpu")
    own, dropout = copy.deepcopy(agent), Dropout(0.0, 0.0, draws)
    own.zero_grad()
    episodes = make_episodes([house.samples["train"][number]], world)
    compute_losses(own, world, episodes, None, 1.0, CONFIG, dropout, draws).total.backward()
    return {k: p.grad.numpy() for k, p in own.named_parameters() if p.grad is not None}


def test_scores_are_those_of_gradients_by_backward(small_agent: Agent, oak: House) -> None:
    world, train = join_houses([oak]), oak.samples["train"]
    gradients = [gradient_of(small_agent, oak, n) for n in range(4)]
    one_each = [make_episodes([sample], world) for sample in train[:4]]
    for parts in ([*gradients[1]], [k for k in gradients[1] if k.startswith("decoder.")]):
        seen = {k: 5.0 * gradients[1][k] for k in parts}
        found = scores_of(small_agent, world, one_each, CONFIG, seen)
        signs = [np.concatenate([np.sign(g[k]).ravel() for k in parts]) for g in gradients]
        expected = [s @ signs[1] / np.linalg.norm(s) / np.linalg.norm(signs[1]) for s in signs]
        assert found == pytest.approx(expected, abs=1e-5) and found.argmax() == 1
        assert found[1] == pytest.approx(1, abs=1e-5)
    with pytest.raises(ValueError, match="expected parameters of the agent"):
        scores_of(small_agent, world, one_each, CONFIG, {"other": np.ones(3)})


def test_a_first_step_has_the_signs_of_its_instruction(small_agent: Agent, oak: House) -> None:
    """RMSprop is fresh; the agent itself stays as it is."""
    world, train = join_houses([oak]), oak.samples["train"]
    before = {k: p.detach().numpy().copy() for k, p in small_agent.named_parameters()}
    agent = copy.deepcopy(small_agent).train()
    optimizer = RMSprop(agent.parameters(), 1e-3, CONFIG.objective.bias_correction)
    data = [TrainingData(train[2:3], 1.0)]
    train_locally(agent, optimizer, world, data, CONFIG, 1, round=1, partition=0)
    seen = {k: before[k] - p.detach().numpy() for k, p in agent.named_parameters()}
    one_each = [make_episodes([sample], world) for sample in train]
    found = scores_of(small_agent, world, one_each, CONFIG, seen)
    assert found[2] > 0.98 and found.argmax() == 2 and np.sort(found)[-2] < 0.9
    assert all((before[k] == p.detach().numpy()).all() for k, p in small_agent.named_parameters())
