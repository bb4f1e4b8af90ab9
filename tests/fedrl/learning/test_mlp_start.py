"""How the shared MLP starts: exactly as a sum, in every party's copy and in the targets, and what that is good for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsuite.arrays import module_arrays
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.networks import MLP_STARTS, TwoLayers, new_mlp
from fedsuite.randomness import torch_generator_for
from tests.fedrl.learning.test_party import parties
from tests.harness import changed

FURTHER = 3  # hidden units beyond the two of each action


def started(parties: int, actions: int, further: int = 0, start: str = "sum") -> TwoLayers:
    hidden = 2 * actions + further
    config = changed(FedRLConfig(), parties=parties, mlp_hidden=hidden, mlp_start=start)
    return new_mlp(config, actions, "mlp")


def eighths(parties: int, actions: int, seed: int = 0) -> list[Tensor]:
    """Q-values of every party whose sums are exact in float32, in whatever order they are added."""
    draw = torch.Generator().manual_seed(seed)
    shape = (50, actions)
    return [torch.randint(-4000, 4000, shape, generator=draw) / 8 for _ in range(parties)]


@pytest.mark.parametrize("further", [0, FURTHER])
@pytest.mark.parametrize("actions", [2, 5, 16])
@pytest.mark.parametrize("num_parties", [2, 3])
def test_q_f_starts_as_the_exact_sum(num_parties: int, actions: int, further: int) -> None:
    mlp, q = started(num_parties, actions, further), eighths(num_parties, actions)
    assert torch.equal(mlp(*q), sum(q[1:], start=q[0]))
    drawn = started(num_parties, actions, further, "published")
    assert not torch.allclose(drawn(*q), sum(q[1:], start=q[0]), atol=1.0)


def test_every_partys_gradient_is_that_of_the_sum() -> None:
    """dQ_f(a) / dQ_i(b) = 1 if a = b, else 0."""
    q = [block[0].requires_grad_() for block in eighths(3, 4)]
    for jacobian in torch.autograd.functional.jacobian(started(3, 4, FURTHER), tuple(q)):
        assert torch.equal(jacobian, torch.eye(4))


def test_units_beyond_two_an_action_start_as_drawn_and_learn() -> None:
    mlp, drawn = started(2, 4, FURTHER), started(2, 4, FURTHER, "published")
    further = mlp.hidden.weight[8:].clone()
    assert torch.equal(further, drawn.hidden.weight[8:])
    assert torch.equal(mlp.hidden.bias[8:], torch.full((FURTHER,), 0.1))
    adam = torch.optim.Adam(mlp.parameters(), 0.01)
    for seed in range(3):
        adam.zero_grad()
        (mlp(*eighths(2, 4, seed)) - 7).square().sum().backward()
        adam.step()
        assert mlp.output.weight[:, 8:].abs().min() > 0  # heard after the first step
    assert (mlp.hidden.weight[8:] - further).abs().max() > 0.005


def test_all_copies_and_the_targets_start_alike(tmp_path: Path) -> None:
    alpha, partners = parties(tmp_path, parties=3)
    assert alpha.mlp is not None and alpha.target_mlp is not None
    own = module_arrays(alpha.mlp)
    for other in (alpha.target_mlp, *(p.mlp for p in partners)):
        assert other is not None
        assert all(np.array_equal(own[k], array) for k, array in module_arrays(other).items())
    q = [block.numpy() for block in eighths(3, 16)]
    for target in (False, True):
        np.testing.assert_array_equal(alpha.joint(q, target), q[0] + q[1] + q[2])


def test_the_start_follows_the_setting_and_can_be_set_by_itself() -> None:
    follow: list[dict[str, Any]] = [{}, {"follow": "published-code"}]
    rules = [changed(FedRLConfig(), **own).published.rules.mlp_start for own in follow]
    assert rules == ["sum", "published"] and set(MLP_STARTS) == set(rules)
    own = changed(FedRLConfig(), follow="published-code", mlp_start="sum")
    assert own.published.rules.mlp_start == "sum"


# --- the plateau -----------------------------------------------------------------------------------

STEPS, BATCH, SEEN = 300, 32, 4


def share_of_right_choices(start: str, level: float, seed: int = 1) -> float:
    """After a regression on Y = level + 50 for the right one of two actions, level - 50 for the other.

    Which one is right is the sign of the sum of one number that each of two parties sees; their Q-values get
    N(0, 1), as in a run.
    """
    mlp = new_mlp(changed(FedRLConfig(), seed=seed, mlp_start=start), 2, "mlp")
    draw = torch_generator_for(seed, "plateau")
    networks = [TwoLayers(SEEN, 32, 2, draw) for _ in range(2)]
    weights = [p for module in (*networks, mlp) for p in module.parameters()]
    adam = torch.optim.Adam(weights, 0.01, fused=True)

    def judged(count: int) -> tuple[Tensor, Tensor]:
        seen = torch.randn(2, count, SEEN, generator=draw)
        q = [net(own) for net, own in zip(networks, seen, strict=True)]
        q = [own + torch.randn(own.shape, generator=draw) for own in q]
        return mlp(*q), (seen[:, :, 0].sum(0) > 0).long()

    for _ in range(STEPS):
        q_f, right = judged(BATCH)
        taken = torch.randint(2, (BATCH,), generator=draw)
        wanted = level + torch.where(taken == right, 50.0, -50.0)
        adam.zero_grad()
        (wanted - q_f.gather(1, taken[:, None])[:, 0]).square().sum().backward()
        adam.step()
    q_f, right = judged(2000)
    return float((q_f.argmax(1) == right).float().mean())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "level", "least", "most"),
    [
        ("published", 0.0, 0.9, 1.0),
        ("published", 200.0, 0.4, 0.6),  # both actions have become one function of the parties' Q
        ("sum", 200.0, 0.8, 1.0),
    ],
)
def test_values_that_are_large_beside_their_differences_stall_the_drawn_start_only(
    start: str, level: float, least: float, most: float
) -> None:
    assert least <= share_of_right_choices(start, level) <= most
