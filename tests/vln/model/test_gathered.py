"""Products whose weight gradient is gathered once: the same as ordinary automatic differentiation."""

import pytest
import torch
from torch.testing import assert_close

from fedsuite.vln.model.gathered import Gathered


def leaf(*shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64).requires_grad_()


def loop(times, x, weight, extra):
    """Three products in a row with fewer rows each time, and one that the loss does not use."""
    y = times(x, weight).tanh()
    y = times(y[..., :3, :], weight).sin()
    times(y * 7, weight)
    return times(y[..., :2, :] * 2, weight) + times(x[..., :2, :], extra)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_gradients_equal_autograd(batch):
    x, weight, extra = leaf(*batch, 4, 5), leaf(*batch, 5, 5, seed=1), leaf(*batch, 5, 5, seed=2)
    got, want = (
        loop(Gathered().times, x, weight, extra),
        loop(lambda a, w: a @ w.mT, x, weight, extra),
    )
    assert_close(got, want)
    upstream = torch.randn_like(want)
    for a, b in zip(
        torch.autograd.grad((got * upstream).sum(), (x, weight, extra)),
        torch.autograd.grad((want * upstream).sum(), (x, weight, extra)),
        strict=True,
    ):
        assert_close(a, b)


def test_gradcheck():
    leaves = leaf(4, 3), leaf(3, 3, seed=1), leaf(3, 3, seed=2)
    assert torch.autograd.gradcheck(lambda *a: loop(Gathered().times, *a), leaves)


def test_inputs_without_gradient_still_train_the_weight():
    x, weight = leaf(4, 3).detach(), leaf(2, 3)
    Gathered().times(x, weight).sum().backward()
    assert_close(weight.grad, x.sum(0).expand(2, 3))


def test_gradients_of_two_loops_add_up():
    x, weight = leaf(4, 3), leaf(2, 3)
    Gathered().times(x, weight).sum().backward()
    once = weight.grad.clone()
    Gathered().times(x, weight).sum().backward()
    assert_close(weight.grad, 2 * once)


def test_nothing_is_kept_without_gradient():
    x, weight = leaf(4, 3), leaf(2, 3)
    with torch.no_grad():
        assert_close(Gathered().times(x, weight), x @ weight.T)
    frozen = Gathered().times(x, weight.detach())
    frozen.sum().backward()
    assert weight.grad is None and x.grad is not None
