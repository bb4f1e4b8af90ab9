"""Agents that were trained on known records: shadows, to which the attack on membership compares a run's agent.

A shadow has the run's sizes, objective and local optimizer, and is trained on its records in one place; how a federation
merges is not repeated.
"""

from collections.abc import Mapping, Sequence

from fedsuite.arrays import Arrays, load_arrays
from fedsuite.roster.members import Roster
from fedsuite.settings.config import with_keys
from fedsuite.settings.devices import device_of
from fedsuite.settings.values import Value
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import Sample
from fedsuite.vln.environment import World
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.plan import initial_agent
from fedsuite.vln.training.learner import TrainingData, train_locally
from fedsuite.vln.training.rmsprop import RMSprop

BY_HEART: Mapping[str, Value] = {
    "agent.dropout": 0.0, "agent.feature-dropout": 0.0, "objective.kind": "none", "objective.teacher-weight": 1.0,
    "objective.learning-rate": 5e-3, "objective.batch-size": 64,
}  # fmt: skip
SMALLEST = {"agent.hidden-size": 64, "agent.word-embedding-size": 32}  # that learn by heart


def by_heart(config: FedVLNConfig) -> FedVLNConfig:
    """The same run as one that memorises its records: nothing is dropped, and every step imitates."""
    own = config.agent
    sizes = {
        "agent.hidden-size": own.hidden_size,
        "agent.word-embedding-size": own.word_embedding_size,
    }
    larger = {key: max(size, SMALLEST[key]) for key, size in sizes.items()}
    return with_keys(config, {**BY_HEART, **larger})


def trained(
    config: FedVLNConfig,
    roster: Roster,
    world: World,
    samples: Sequence[Sample],
    steps: int,
    seed: int,
) -> Agent:
    """A new agent after `steps` optimizer steps on the samples; its start and its draws are of `seed`."""
    own = with_keys(config, {"seed": seed})
    agent = initial_agent(own, roster).to(device_of(own.device, own.precision)).train()
    objective = own.objective
    optimizer = RMSprop(agent.parameters(), objective.learning_rate, objective.bias_correction)
    data = [TrainingData(samples, objective.teacher_weight)]
    train_locally(agent, optimizer, world, data, own, steps, round=1, partition=0)
    return agent


def loaded(config: FedVLNConfig, roster: Roster, arrays: Arrays) -> Agent:
    """The agent of a model; ValueError where it is no whole one."""
    agent = initial_agent(config, roster)
    load_arrays(agent, arrays)
    return agent.to(device_of(config.device, config.precision))
