"""Dropout masks: rate, expectation, reproducibility."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedsuite.vln.model.dropout import NO_DROPOUT, Dropout, keep_mask


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("p", "rounded"), [(0.3, 77 / 256), (0.5, 0.5), (0.9, 230 / 256)])
def test_rate_is_the_rounded_one(p, rounded):
    mask = keep_mask(torch.Size([400, 1000]), p, generator())
    assert mask.dtype == torch.float32 and set(mask.unique().tolist()) == {0.0, 1.0}
    assert 1 - mask.mean().item() == pytest.approx(rounded, abs=4 * 0.5 / 400_000**0.5)


@pytest.mark.parametrize("p", [0.3, 0.5, 0.9])
def test_expectation_is_kept(p):
    x = torch.ones(400_000)
    mean = Dropout(p, 0, generator())(x).mean().item()
    assert mean == pytest.approx(1, abs=4 * (p / (1 - p) / 400_000) ** 0.5)
    mean = Dropout(0, p, generator()).features(x.clone()).mean().item()
    assert mean == pytest.approx(1, abs=4 * (p / (1 - p) / 400_000) ** 0.5)


@settings(max_examples=40)
@example(0.999, 5)
@given(st.floats(0, 0.9999), st.integers(1, 40))
def test_any_rate_below_one_gives_finite_values_of_the_right_shape(p, size):
    x = Dropout(p, p, generator(1))(torch.ones(size, 3))
    assert x.shape == (size, 3) and x.isfinite().all()


def test_the_stream_alone_decides():
    x = torch.ones(50, 7)
    a, b, c = (Dropout(0.5, 0.5, generator(s)) for s in (1, 1, 2))
    first = a(x)
    assert torch.equal(first, b(x)) and not torch.equal(first, c(x))
    second = a(x)
    assert not torch.equal(first, second) and torch.equal(second, b(x))
    assert torch.equal(a.features(x.clone()), b.features(x.clone()))


def test_neighbouring_entries_and_rows_are_independent():
    mask = keep_mask(torch.Size([20_000, 16]), 0.5, generator()) - 0.5
    covariance = mask.T @ mask / len(mask) * 4
    assert (covariance - torch.eye(16)).abs().max() < 0.04
    assert abs((mask[1:] * mask[:-1]).mean().item()) < 0.004


@pytest.mark.parametrize("width", [8, 5])
def test_panoramas_are_drawn_as_views_and_then_candidates(width):
    views, candidate = torch.randn(3, 4, width), torch.randn(3, 2, width)
    together, one_by_one = (Dropout(0.0, 0.3, generator()) for _ in range(2))
    wanted = [one_by_one.features(x.clone()) for x in (views, candidate)]
    together.panorama(views, candidate, torch.full((3,), 2))
    assert torch.equal(views, wanted[0]) and torch.equal(candidate, wanted[1])


def test_gradient_is_the_mask():
    x = torch.ones(200, requires_grad=True)
    y = Dropout(0.5, 0, generator())(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach()) and set(y.tolist()) == {0.0, 2.0}


def test_features_are_dropped_in_place_at_their_own_rate():
    x = torch.ones(100, 100)
    y = Dropout(0.0, 0.3, generator()).features(x)
    assert y is x and 0.2 < (x == 0).float().mean() < 0.4


@pytest.mark.parametrize(
    "dropout", [NO_DROPOUT, Dropout(0.5, 0.5, None), Dropout(0, 0, generator())]
)
def test_evaluation_and_rate_zero_change_nothing(dropout):
    x = torch.randn(5, 5)
    assert dropout(x) is x and dropout.features(x) is x


@pytest.mark.parametrize("sizes", [(64, 16, 16), (3, 5, 8), (4,)])
def test_several_at_once_are_those_of_one_after_another(sizes):
    """Values and, afterwards, the stream."""
    at_once, in_turn = Dropout(0.3, 0, generator()), Dropout(0.3, 0, generator())
    for drop, size in zip(at_once.several(7, sizes), sizes, strict=True):
        x = torch.randn(7, size)
        assert torch.equal(drop(x), in_turn(x))
    assert torch.equal(at_once.generator.get_state(), in_turn.generator.get_state())
    x = torch.randn(7, 4)
    assert all(drop(x) is x for drop in NO_DROPOUT.several(7, sizes))
