"""Gradient descent of our own gives the bytes of torch's, step by step, for any learning rate and any set of gradients."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import ExponentialLR

from fedsuite.averaging.optimizer_state import optimizer_arrays
from fedsuite.averaging.plain_sgd import PlainSGD


def trained(kind: Any) -> list[Tensor]:
    """Parameters after eight steps at a falling rate; the last has no gradient in every other one."""
    torch.manual_seed(3)
    network = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    optimizer = kind(network.parameters(), 0.37)
    falling = ExponentialLR(optimizer, 0.9)
    for step in range(8):
        network(torch.randn(6, 7)).square().mean().backward()
        if step % 2:
            network[2].bias.grad = None
        optimizer.step()
        falling.step()
        optimizer.zero_grad()
        assert all(p.grad is None for p in network.parameters())
    return [p.detach() for p in network.parameters()]


def test_the_bytes_of_torch() -> None:
    for own, theirs in zip(trained(PlainSGD), trained(torch.optim.SGD), strict=True):
        assert torch.equal(own, theirs)


def test_state_and_a_closure() -> None:
    """It keeps nothing from step to step, and what torch's can be told it can be told."""
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = PlainSGD([weight], 0.5)

    def loss() -> Any:
        optimizer.zero_grad(set_to_none=False)
        value = weight.square().sum()
        value.backward()
        return value

    assert float(optimizer.step(loss).detach()) == 5.0
    assert weight.tolist() == [0.0, 0.0]
    assert optimizer_arrays(optimizer, ["weight"]) == {}
    names: Iterable[str] = torch.optim.SGD([weight], 0.5).param_groups[0].keys()
    assert optimizer.param_groups[0].keys() == names
