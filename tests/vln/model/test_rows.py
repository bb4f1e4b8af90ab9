"""Rows chosen by a mask are those of indexing, and so are their gradients."""

import pytest
import torch
from torch.nn.functional import pad

from fedsuite.vln.model.rows import Chosen, joined_rows

MASKS = ["TFTTF", "FFTFF", "FTTTT", "TTTTT"]


@pytest.mark.parametrize("letters", MASKS)
@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 3, 2)])
def test_rows_and_gradients_equal_those_of_indexing(letters, shape):
    mask = torch.tensor([letter == "T" for letter in letters])
    x = torch.arange(1.0, 1.0 + torch.Size(shape).numel()).view(shape).requires_grad_()
    chosen, want = Chosen(mask), x[mask]
    assert len(chosen) == letters.count("T")
    upstream = torch.arange(10.0, 10.0 + want.numel()).view(want.shape)
    (got_gradient,) = torch.autograd.grad((chosen.of(x) * upstream).sum(), x)
    (want_gradient,) = torch.autograd.grad((want * upstream).sum(), x)
    assert torch.equal(chosen.of(x), want)
    assert torch.equal(got_gradient, want_gradient)


def test_rows_without_a_gradient_stay_without():
    x = torch.arange(5)
    rows = Chosen(torch.tensor([True, False, False, True, False])).of(x)
    assert rows.tolist() == [0, 3]
    assert not rows.requires_grad


@pytest.mark.parametrize("letters", MASKS)
@pytest.mark.parametrize("backwards", [False, True])
def test_rows_are_put_back_where_they_were(letters, backwards):
    """In the order of the mask or in one of their own; zeros elsewhere, and gradients go back to where they came from."""
    mask = torch.tensor([letter == "T" for letter in letters])
    index = mask.nonzero().squeeze(1)
    index = index.flip(0) if backwards else index
    chosen = Chosen(mask, index if backwards else None)
    x = torch.arange(1.0, 16.0).view(5, 3)
    rows = chosen.of(x).requires_grad_()
    back = chosen.put_back(rows)
    assert torch.equal(back, torch.where(mask.unsqueeze(1), x, 0.0))
    upstream = torch.arange(10.0, 25.0).view(5, 3)
    (gradient,) = torch.autograd.grad((back * upstream).sum(), rows)
    assert torch.equal(gradient, upstream[index])


def test_rows_of_different_width_are_joined():
    parts = [torch.randn(b, k, requires_grad=True) for b, k in ((2, 3), (1, 5), (4, 1), (0, 2))]
    got = joined_rows(parts, -7.0)
    want = torch.cat([pad(part, (0, 5 - part.shape[1]), value=-7.0) for part in parts])
    assert torch.equal(got, want)
    upstream = torch.randn(7, 5)
    slopes = (torch.autograd.grad((x * upstream).sum(), parts) for x in (got, want))
    for mine, theirs in zip(*slopes, strict=True):
        assert torch.equal(mine, theirs)
