"""Products through oneDNN equal torch's, and large ones do go there."""

import pytest
import torch
from torch.testing import assert_close

from fedsuite.vln.model import products
from fedsuite.vln.model.gathered import Gathered

SIZES = [(300, 256, 512), (5, 1024, 1024), (3, 8, 5), (0, 4, 4)]  # B, I, O


def operands(batch, rows, inputs, outputs, dtype=torch.float32):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(*batch, rows, inputs, generator=g, dtype=dtype)
    return x, torch.randn(*batch, outputs, inputs, generator=g, dtype=dtype)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_products_equal_torchs(batch, size):
    x, weight = operands(batch, *size)
    want = (x.double() @ weight.double().mT).float()
    assert_close(products.times_transposed(x, weight), want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_gradients_of_weights_in_parts_equal_torchs(batch, size):
    x, _ = operands(batch, *size)
    dy, _ = operands(batch, size[0], size[2], 1)
    want = (dy.double().mT @ x.double()).float()
    parts = [v.split([size[0] // 3, size[0] - size[0] // 3], -2) for v in (dy, x)]
    assert_close(products.gradient_of_weight(*parts), want, rtol=1e-5, atol=1e-3)


@pytest.mark.slow
def test_many_numbers_of_rows_need_few_kernels(monkeypatch):
    """oneDNN keeps a kernel for every shape that it has ever seen."""
    shapes, product = set(), products._onednn

    def noted(x, weight):
        shapes.add((*x.shape, *weight.shape))
        return product(x, weight)

    monkeypatch.setattr(products, "_onednn", noted)
    weight = torch.zeros(256, 1024)
    for rows in range(16, 1025):
        products.times_transposed(torch.zeros(rows, 1024), weight)
        products.gradient_of_weight([torch.zeros(rows, 256)], [torch.zeros(rows, 1024)])
    # Up to 128 rows a size every 16, from there to 1,024 three octaves of eight.
    assert len(shapes) == 2 * (8 + 3 * 8)


def test_double_precision_stays_double():
    x, weight = operands((), *SIZES[0], torch.float64)
    assert_close(products.times_transposed(x, weight), x @ weight.T)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")
def test_large_products_are_onednns():
    x, weight = operands((2,), *SIZES[0])
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as large:
        products.times_transposed(x, weight)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as small:
        products.times_transposed(x[:, :3], weight)
    of = [{event.key for event in p.key_averages()} for p in (large, small)]
    assert [any("mkldnn" in key for key in keys) for keys in of] == [True, False]


@pytest.mark.parametrize("batch", [(), (2,)])
def test_gradients_of_large_products_equal_autograds(batch):
    leaves = [v.requires_grad_() for v in operands(batch, *SIZES[0])]
    upstream = operands(batch, SIZES[0][0], SIZES[0][2], 1)[0]
    got = torch.autograd.grad((Gathered().times(*leaves) * upstream).sum(), leaves)
    want = torch.autograd.grad((leaves[0] @ leaves[1].mT * upstream).sum(), leaves)
    for a, b in zip(got, want, strict=True):
        assert_close(a, b, rtol=1e-5, atol=1e-3)


def test_stacked_weights_have_gradients_of_their_own():
    """Of two stacks that are added up, in two passes back; by torch.stack alone the second pass adds twice."""
    own, other = ([torch.ones(3, requires_grad=True) for _ in range(2)] for _ in range(2))
    factor = torch.arange(1.0, 7.0).view(2, 3)
    for _ in range(2):
        together = products.stacked(own) + products.stacked(other)
        assert torch.equal(together, torch.full((2, 3), 2.0))
        (together * factor).sum().backward()
    for house in range(2):
        assert torch.equal(own[house].grad, 2 * factor[house])
        assert torch.equal(other[house].grad, 2 * factor[house])
