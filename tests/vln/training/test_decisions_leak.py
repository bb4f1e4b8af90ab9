"""A house's gradient gives away what its agent saw: one decision exactly, and how many there were."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedsuite.privacy.attacks.inversion import (
    common_input,
    gradient_rank,
    rows_over_bias,
    unexplained,
)
from fedsuite.privacy.likeness import cosine
from fedsuite.vln.data.dataset import House, Sample, join_houses, make_episodes
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.training.rollout import walk


def teacher(logits: Tensor, teacher: Tensor, row: Tensor) -> Tensor:
    return teacher


def moves(logits: Tensor, teacher: Tensor, row: Tensor) -> Tensor:
    """Always the first candidate, so that episodes do not end."""
    return torch.ones_like(teacher)


def gradient_of(
    agent: Agent, house: House, samples: list[Sample], policy: object, limit: int
) -> tuple[np.ndarray, np.ndarray]:
    """Of the decoder's LSTM, after imitation of `limit` decisions in every episode."""
    world = join_houses([house])
    limits = torch.full((len(samples),), limit)
    out = walk(agent, world, make_episodes(samples, world), policy, limits)  # type: ignore[arg-type]
    loss = torch.stack([F.cross_entropy(s.logits, s.teacher) for s in out.steps]).sum()
    agent.zero_grad()
    loss.backward()
    cell = agent.decoder.cell
    return cell.weight_ih.grad.numpy(), cell.bias_ih.grad.numpy()


def attended(plain: object, sample: Sample) -> np.ndarray:
    """The input of the first decision by the plain twin: pose, view features by attention, their angles."""
    d = plain.agent.decoder  # type: ignore[attr-defined]
    with torch.no_grad():
        _, state, _ = plain.read(sample.tokens)  # type: ignore[attr-defined]
        place, view = sample.path[0], sample.start_view
        panorama, _, _ = plain.look(place, view)  # type: ignore[attr-defined]
        pose = plain.angle(np.pi / 6 * (view % 12), np.pi / 6 * (view // 12 - 1))  # type: ignore[attr-defined]
        weights = torch.softmax(panorama @ (d.view_attention.query.weight @ state), 0)
        return torch.cat([torch.tanh(d.action(pose)), weights @ panorama]).numpy()


def test_one_decision_gives_its_view_away(small_agent: Agent, plain: object, oak: House) -> None:
    sample = oak.samples["train"][0]
    weight, bias = gradient_of(small_agent, oak, [sample], teacher, 1)
    truth, found = attended(plain, sample), common_input(weight, bias)
    action, feature = small_agent.sizes.action, small_agent.sizes.feature
    views = slice(action, action + feature)
    assert cosine(found[views], truth[views]) == pytest.approx(1, abs=1e-6)
    assert found == pytest.approx(truth, abs=1e-4)
    strong = np.abs(bias) > 0.1 * np.abs(bias).max()
    for row in rows_over_bias(weight[strong], bias[strong]):
        assert cosine(row[views], truth[views]) == pytest.approx(1, abs=1e-5)
    assert unexplained(weight, bias) < 1e-5 and gradient_rank(weight) == 1


@pytest.mark.parametrize("decisions", [2, 6])
def test_rank_counts_decisions(small_agent: Agent, oak: House, decisions: int) -> None:
    sample = oak.samples["train"][0]
    weight, bias = gradient_of(small_agent, oak, [sample], moves, decisions)
    assert gradient_rank(weight, 1e-6) == decisions
    assert unexplained(weight, bias) > 0.05
