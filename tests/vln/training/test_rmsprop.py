"""RMSprop with and without bias correction against torch's optimizers."""

import pytest
import torch
from torch import nn

from fedsuite.vln.training.rmsprop import RMSprop, step_together


def module(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))


def train(net, optimizer, steps: int) -> None:
    g = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.randn(8, 5, generator=g)
        (net(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def torchs(parameters, correction: bool) -> torch.optim.Optimizer:
    if correction:
        return torch.optim.Adam(parameters, 0.01, betas=(0.0, 0.99), eps=1e-8, foreach=True)
    return torch.optim.RMSprop(parameters, 0.01, foreach=True)


@pytest.mark.parametrize("correction", [False, True])
def test_it_is_torchs_rmsprop_and_with_correction_adam_without_momentum(correction):
    ours, reference = module(), module()
    train(ours, RMSprop(ours.parameters(), 0.01, correction), 100)
    train(reference, torchs(reference.parameters(), correction), 100)
    for p, q in zip(ours.parameters(), reference.parameters(), strict=True):
        assert torch.equal(p, q)
    assert not torch.allclose(ours[0].weight, module()[0].weight, atol=0.05)


@pytest.mark.parametrize(("correction", "length"), [(False, 10.0), (True, 1.0)])
def test_length_of_the_first_step(correction, length):
    """1 / sqrt(1 - 0.99) = 10 learning rates from a fresh state, whatever the gradient; 1 if corrected."""
    net, lr = module(), 1e-3
    before = [p.detach().clone() for p in net.parameters()]
    for p in net.parameters():
        p.grad = torch.where(torch.arange(p.numel()).view_as(p) % 2 == 0, 37.0, -0.01)
    RMSprop(net.parameters(), lr, correction).step()
    for p, b in zip(net.parameters(), before, strict=True):
        torch.testing.assert_close(b - p, length * lr * p.grad.sign(), rtol=1e-3, atol=1e-7)


def test_parameters_without_gradient_stay_and_keep_their_state():
    net = module()
    optimizer = RMSprop(net.parameters(), lr=0.1)
    net[2](torch.ones(1, 4)).sum().backward()
    before = net[0].weight.detach().clone()
    optimizer.step()
    assert torch.equal(net[0].weight, before)
    first, last = (optimizer.state[layer.weight]["square_avg"] for layer in (net[0], net[2]))
    assert not first.any() and last.all()


def test_steps_taken_together_are_those_of_each():
    """With other rates, other numbers of steps before, and parameters without a gradient."""

    def begun():
        ways = [
            (0.01, True, 2),
            (0.03, True, 2),
            (0.01, True, 0),
            (0.01, True, 2),
            (0.01, False, 2),
        ]
        for seed, (rate, correction, before) in enumerate(ways):
            net = module(seed)
            optimizer = RMSprop(net.parameters(), rate, correction)
            train(net, optimizer, before)
            net(torch.ones(1, 5)).sum().backward()
            if seed == 3:
                net[0].bias.grad = None
            yield net, optimizer

    each, together = [*begun()], [*begun()]
    for _, optimizer in each:
        optimizer.step()
    step_together([optimizer for _, optimizer in together])
    for (net, one), (other, another) in zip(each, together, strict=True):
        assert one.param_groups[0]["step"] == another.param_groups[0]["step"]
        for p, q in zip(net.parameters(), other.parameters(), strict=True):
            assert torch.equal(p, q)
            assert torch.equal(one.state[p]["square_avg"], another.state[q]["square_avg"])
    assert not torch.equal(each[0][0][0].weight, module(0)[0].weight)
