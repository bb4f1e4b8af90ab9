"""Rows chosen by a mask are those of indexing, and so are their gradients."""

import pytest
import torch

from fedsuite.vln.model.rows import Chosen

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
