"""Log-odds of the teacher's way, against a plain agent that goes it step by step."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, join_houses
from fedsuite.vln.environment import World
from fedsuite.vln.evaluation.log_odds import LARGEST, log_odds
from fedsuite.vln.model.agent import Agent
from tests.harness import changed

CONFIG = changed(FedVLNConfig(), max_actions=6, evaluation_batch_size=4)


def test_the_mean_over_decisions_is_that_of_a_plain_agent(plain, oak: House) -> None:
    samples = oak.samples["train"][:7]
    found = log_odds(plain.agent, join_houses([oak]), samples, CONFIG)
    for sample, value in zip(samples, found, strict=True):
        with torch.no_grad():
            episode = plain.episode(sample, lambda number, logits, teacher: teacher, 6)
        odds = []
        for decision in episode.decisions:
            p = torch.softmax(decision.logits.double(), 0)[decision.teacher].item()
            odds.append(math.log(p) - math.log(1 - p))
        assert abs(value - np.mean(odds)) < 1e-4


def test_neither_order_nor_company_matters(
    small_agent: Agent, world: World, oak: House, elm: House
) -> None:
    agent, samples = small_agent, [*oak.samples["train"][:5], *elm.samples["train"]]
    found = log_odds(agent, world, samples, CONFIG)
    alone = [log_odds(agent, world, [s], CONFIG)[0] for s in samples]
    assert np.allclose(found, alone, atol=1e-4) and np.isfinite(found).all()
    assert np.allclose(found[::-1], log_odds(agent, world, samples[::-1], CONFIG), atol=1e-4)


def test_no_decision_counts_from_where_there_is_no_way(small_agent: Agent, oak: House) -> None:
    one, other, *_ = oak.samples["train"]
    alone = next(i for i in range(len(oak.graph.edge)) if not oak.graph.edge[i].any())
    lost = replace(other, path=(other.path[0], alone))
    world = join_houses([oak])
    found = log_odds(small_agent, world, [one, lost], CONFIG)
    assert found[0] == pytest.approx(log_odds(small_agent, world, [one], CONFIG)[0], abs=1e-4)
    assert math.isnan(found[1])


def test_certainty_is_bounded(small_agent: Agent, oak: House) -> None:
    agent = copy.deepcopy(small_agent)
    with torch.no_grad():
        for parameter in agent.decoder.parameters():
            parameter.mul_(1e3)
    found = log_odds(agent, join_houses([oak]), oak.samples["train"][:4], CONFIG)
    assert (np.abs(found) <= LARGEST).all()
