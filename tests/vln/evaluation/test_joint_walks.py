"""Walks of several houses in one batch are those of each house alone."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, join_houses
from fedsuite.vln.evaluation import joint_walks
from fedsuite.vln.evaluation.joint_walks import Walks, walk_together
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.training.learner import walk_all
from tests.harness import changed

CONFIG = changed(FedVLNConfig(), max_actions=8, evaluation_batch_size=5)


@pytest.fixture
def other(small_agent: Agent) -> Agent:
    """An agent that walks otherwise."""
    agent = copy.deepcopy(small_agent)
    with torch.no_grad():
        for p in agent.parameters():
            p.neg_()
    return agent


def test_every_house_walks_as_it_does_alone(
    small_agent: Agent, other: Agent, oak: House, elm: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two houses with one agent share batches; the third comes with another agent, between them."""
    counts: list[int] = []

    def counted(*given: Any) -> Any:
        counts.append(len(given[2]))
        return walk_all(*given)

    monkeypatch.setattr(joint_walks, "walk_all", counted)
    asked = [
        Walks(small_agent, join_houses([elm]), elm.samples["train"], CONFIG),
        Walks(other, join_houses([oak]), oak.samples["train"], CONFIG),
        Walks(small_agent, join_houses([oak]), oak.samples["val_seen"], CONFIG),
    ]
    found = walk_together(asked)
    assert counts == [3 + 6, 18]
    for one, walks in zip(asked, found, strict=True):
        assert walks == walk_all(one.agent, one.world, one.samples, CONFIG)
    assert _places(found[1]) != _places(walk_all(small_agent, *_of(asked[1])))


def _places(walks: tuple[Sequence[Sequence[int]], object]) -> list[list[int]]:
    return [list(places) for places in walks[0]]


def _of(asked: Walks) -> tuple[Any, ...]:
    return asked.world, asked.samples, asked.config
