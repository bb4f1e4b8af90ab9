"""Optimizers go on from their arrays as if nothing had happened."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest
import torch
from torch import nn

from fedsuite.arrays import Arrays
from fedsuite.averaging.optimizer_state import load_optimizer_arrays, optimizer_arrays
from fedsuite.vln.training.rmsprop import RMSprop

Make = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "fused Adam": lambda p: torch.optim.Adam(p, 0.01, fused=True),
    "foreach Adam": lambda p: torch.optim.Adam(p, 0.01, foreach=True),
    "plain SGD": lambda p: torch.optim.SGD(p, 0.01),
    "SGD with momentum": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
    "RMSprop": lambda p: RMSprop(p, 0.01),
    "corrected RMSprop": lambda p: RMSprop(p, 0.01, bias_correction=True),
}
KINDS = {
    "fused Adam": {"step", "exp_avg", "exp_avg_sq"}, "foreach Adam": {"step", "exp_avg", "exp_avg_sq"},
    "plain SGD": set[str](), "SGD with momentum": {"momentum_buffer"},
    "RMSprop": {"square_avg"}, "corrected RMSprop": {"square_avg"},
}  # fmt: skip


def module() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))


NAMES = [name for name, _ in module().named_parameters()]


def step(net: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    x = torch.randn(8, 5, generator=torch.Generator().manual_seed(number))
    (net(x) - x.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def assert_same_bytes(found: Arrays, expected: Arrays) -> None:
    assert list(found) == list(expected)
    assert all(found[k].tobytes() == expected[k].tobytes() for k in expected)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_new_optimizer_for_every_step_gives_the_same_bytes(kind: str) -> None:
    make, whole, parts = OPTIMIZERS[kind], module(), module()
    optimizer = make(whole.parameters())
    arrays = optimizer_arrays(make(parts.parameters()), NAMES)
    for number in range(6):
        step(whole, optimizer, number)
        carried = make(parts.parameters())
        load_optimizer_arrays(carried, NAMES, arrays)
        step(parts, carried, number)
        arrays = optimizer_arrays(carried, NAMES)
    for p, q in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.equal(p, q)
    assert_same_bytes(arrays, optimizer_arrays(optimizer, NAMES))
    own = {"step"} if "RMSprop" in kind else set[str]()
    assert arrays.keys() == {f"{k}.{name}" for k in KINDS[kind] for name in NAMES} | own
    if "step" in arrays:
        assert arrays["step"].shape == () and arrays["step"].dtype == np.int64
        assert arrays["step"] == 6


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_arrays_are_copies_both_ways(kind: str) -> None:
    net = module()
    optimizer = OPTIMIZERS[kind](net.parameters())
    step(net, optimizer, 0)
    frozen = optimizer_arrays(optimizer, NAMES)
    kept = {k: v.copy() for k, v in frozen.items()}
    for a in frozen.values():
        a.flags.writeable = False
    loaded = OPTIMIZERS[kind](net.parameters())
    load_optimizer_arrays(loaded, NAMES, frozen)
    step(net, loaded, 1)
    step(net, optimizer, 1)
    assert_same_bytes(frozen, kept)


@pytest.mark.parametrize("fused", [False, True])
def test_parameters_that_were_never_updated_have_no_state(fused: bool) -> None:
    """Also after the state has travelled: their first step, when it comes, is a first step."""
    net = module()
    optimizer = torch.optim.Adam(net.parameters(), 0.1, fused=fused)
    for _ in range(3):
        net[2](torch.ones(1, 4)).sum().backward()
        optimizer.step()
    arrays = optimizer_arrays(optimizer, NAMES)
    assert {name.partition(".")[2] for name in arrays} == {"2.weight", "2.bias"}
    carried = torch.optim.Adam(net.parameters(), 0.1, fused=fused)
    load_optimizer_arrays(carried, NAMES, arrays)
    before = net[0].weight.detach().clone()
    net[0].weight.grad = torch.ones_like(net[0].weight)
    carried.step()
    torch.testing.assert_close(before - net[0].weight, torch.full_like(before, 0.1))


def test_an_empty_or_foreign_state() -> None:
    net = module()
    adam = torch.optim.Adam(net.parameters(), 1e-3)
    assert optimizer_arrays(adam, NAMES) == {}
    step(net, adam, 0)
    load_optimizer_arrays(adam, NAMES, {})
    assert optimizer_arrays(adam, NAMES) == {}
    three = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match=r"exp_avg.conv.weight: no such parameter"):
        load_optimizer_arrays(adam, NAMES, {"exp_avg.conv.weight": three})
    with pytest.raises(ValueError, match=r"exp_avg.0.bias: expected shape \(4,\), got \(3,\)"):
        load_optimizer_arrays(adam, NAMES, {"exp_avg.0.bias": three})
    with pytest.raises(ValueError, match="has 4 parameters, got 1 names"):
        optimizer_arrays(adam, NAMES[:1])
