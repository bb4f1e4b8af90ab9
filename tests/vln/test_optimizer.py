"""RMSprop with and without bias correction, and Adam, against torch's."""

import numpy as np
import pytest
import torch
from torch import nn

from fedsuite.vln.optimizer import Adam, RMSprop


def module(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))


def train(net, step, steps: int) -> None:
    g = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.randn(8, 5, generator=g)
        (net(x) - x.sum(1, keepdim=True)).square().mean().backward()
        step()


def theirs(optimizer):
    def step():
        optimizer.step()
        optimizer.zero_grad()

    return step


def assert_equal_weights(a, b, **tolerance):
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        torch.testing.assert_close(p, q, **tolerance)


def test_without_correction_it_is_torchs_rmsprop():
    ours, reference = module(), module()
    train(ours, RMSprop(ours, lr=0.01).step, 100)
    train(reference, theirs(torch.optim.RMSprop(reference.parameters(), lr=0.01)), 100)
    assert_equal_weights(ours, reference, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(ours[0].weight, module()[0].weight, atol=0.05)


def test_with_correction_it_is_adam_without_momentum():
    ours, reference = module(), module()
    train(ours, RMSprop(ours, lr=0.01, bias_correction=True).step, 100)
    adam = torch.optim.Adam(reference.parameters(), lr=0.01, betas=(0.0, 0.99), eps=1e-8)
    train(reference, theirs(adam), 100)
    assert_equal_weights(ours, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("correction", "length"), [(False, 10.0), (True, 1.0)])
def test_length_of_the_first_step(correction, length):
    """1 / sqrt(1 - 0.99) = 10 learning rates from a fresh state, whatever the gradient; 1 if corrected."""
    net, lr = module(), 1e-3
    before = [p.detach().clone() for p in net.parameters()]
    for p in net.parameters():
        p.grad = torch.where(torch.arange(p.numel()).view_as(p) % 2 == 0, 37.0, -0.01)
    signs = [p.grad.sign() for p in net.parameters()]
    RMSprop(net, lr, bias_correction=correction).step()
    for p, b, s in zip(net.parameters(), before, signs, strict=True):
        torch.testing.assert_close(b - p, length * lr * s, rtol=1e-3, atol=1e-7)


def test_parameters_without_gradient_stay_and_keep_their_state():
    net = module()
    optimizer = RMSprop(net, lr=0.1)
    net[2](torch.ones(1, 4)).sum().backward()
    before = net[0].weight.detach().clone()
    optimizer.step()
    assert torch.equal(net[0].weight, before)
    assert not optimizer.square["0.weight"].any() and optimizer.square["2.weight"].all()
    assert all(p.grad is None for p in net.parameters())


@pytest.mark.parametrize("correction", [False, True])
def test_state_arrays_carry_the_optimizer_on(correction):
    whole, parts = module(), module()
    train(whole, RMSprop(whole, 0.01, bias_correction=correction).step, 6)
    g = torch.Generator().manual_seed(1)
    arrays = RMSprop(parts, 0.01).state_arrays()
    for _ in range(6):  # a new optimizer for every step
        optimizer = RMSprop(parts, 0.01, bias_correction=correction)
        optimizer.load_state_arrays(arrays)
        x = torch.randn(8, 5, generator=g)
        (parts(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        arrays = optimizer.state_arrays()
    assert_equal_weights(whole, parts, rtol=0, atol=0)
    assert arrays["step"].shape == () and arrays["step"].dtype == np.int64 and arrays["step"] == 6
    assert list(arrays) == [*dict(parts.named_parameters()), "step"]


def test_state_arrays_are_copies():
    net = module()
    optimizer = RMSprop(net, 0.01)
    arrays = optimizer.state_arrays()
    train(net, optimizer.step, 1)
    assert not arrays["0.weight"].any()
    loaded = RMSprop(net, 0.01)
    frozen = optimizer.state_arrays()
    for a in frozen.values():
        a.flags.writeable = False
    loaded.load_state_arrays(frozen)
    train(net, loaded.step, 1)
    assert frozen["step"] == 1 and loaded.steps == 2


def test_adam_is_torchs_adam():
    ours, reference = module(), module()
    train(ours, Adam(ours, lr=0.01).step, 50)
    train(reference, theirs(torch.optim.Adam(reference.parameters(), lr=0.01)), 50)
    assert_equal_weights(ours, reference, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(ours[0].weight, module()[0].weight, atol=0.05)


def test_adams_arrays_carry_it_on():
    whole, parts = module(), module()
    train(whole, Adam(whole, 0.01).step, 6)
    g = torch.Generator().manual_seed(1)
    arrays = Adam(parts, 0.01).state_arrays()
    assert not any(a.any() for a in arrays.values())
    for _ in range(6):  # a new optimizer for every step
        optimizer = Adam(parts, 0.01)
        optimizer.load_state_arrays(arrays)
        x = torch.randn(8, 5, generator=g)
        (parts(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        arrays = optimizer.state_arrays()
    assert_equal_weights(whole, parts, rtol=0, atol=0)
    assert arrays["step"].dtype == np.int64 and arrays["step"].tolist() == [6] * 4
    names = list(dict(parts.named_parameters()))
    assert list(arrays) == [*(f"mean.{n}" for n in names), *(f"square.{n}" for n in names), "step"]


def test_adam_leaves_parameters_without_gradient_alone():
    """Also after its state has travelled: their first step, when it comes, is a first step."""
    net = module()
    optimizer = Adam(net, lr=0.1)
    before = net[0].weight.detach().clone()
    for _ in range(3):
        net[2](torch.ones(1, 4)).sum().backward()
        optimizer.step()
    assert torch.equal(net[0].weight, before)
    assert all(p.grad is None for p in net.parameters())
    arrays = optimizer.state_arrays()
    assert arrays["step"].tolist() == [0, 0, 3, 3] and not arrays["mean.0.weight"].any()
    carried = Adam(net, lr=0.1)
    carried.load_state_arrays(arrays)
    net[0].weight.grad = torch.ones_like(net[0].weight)
    carried.step()
    torch.testing.assert_close(before - net[0].weight, torch.full_like(before, 0.1))


def test_adams_arrays_are_copies():
    net = module()
    optimizer = Adam(net, 0.01)
    train(net, optimizer.step, 1)
    frozen = optimizer.state_arrays()
    kept = {k: v.copy() for k, v in frozen.items()}
    for a in frozen.values():
        a.flags.writeable = False
    loaded = Adam(net, 0.01)
    loaded.load_state_arrays(frozen)
    train(net, loaded.step, 1)
    train(net, optimizer.step, 1)
    assert all(np.array_equal(frozen[k], kept[k]) for k in kept)
    assert loaded.state_arrays()["step"].tolist() == [2] * 4
