"""Clipping and noise of Q-vectors."""

import numpy as np
import pytest
import torch
from scipy import stats

from fedsuite.privacy.gaussian import clip_rows, gaussian_noise
from fedsuite.randomness import rng_for


def q_values() -> torch.Tensor:
    q = torch.randn(4, 50, 16, generator=torch.Generator().manual_seed(0))
    return q * torch.logspace(-3, 3, 50)[:, None]  # norms from 0.004 to 4,000


def test_rows_are_scaled_to_the_bound_only_if_they_exceed_it() -> None:
    q, bound = q_values(), 2.5
    clipped = clip_rows(q, bound).numpy()
    for row, got in zip(q.reshape(-1, 16).numpy(), clipped.reshape(-1, 16), strict=True):
        norm = np.sqrt(sum(float(v) ** 2 for v in row))
        if norm <= bound:
            assert np.allclose(got, row, rtol=1e-6)
        else:
            assert np.allclose(got, row * (bound / norm), rtol=1e-5)
        assert np.linalg.norm(got.astype(np.float64)) <= bound * (1 + 1e-6)
        assert np.array_equal(np.argsort(got), np.argsort(row))


def test_a_bound_of_0_changes_nothing_and_a_negative_one_is_refused() -> None:
    q = q_values()
    assert torch.equal(clip_rows(q, 0), q)
    with pytest.raises(ValueError, match="must be >= 0, got -1"):
        clip_rows(q, -1)


def test_gradients_of_clipping() -> None:
    q = q_values()[0, ::7].double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: clip_rows(x, 2.5), q)
    zero = torch.zeros(2, 16, requires_grad=True)
    clipped = clip_rows(zero, 2.5)
    clipped.sum().backward()
    assert torch.equal(clipped, torch.zeros(2, 16))
    assert zero.grad is not None and torch.equal(zero.grad, torch.ones(2, 16))


def test_noise_is_normal_with_the_given_deviation() -> None:
    noise = gaussian_noise(rng_for(0, "noise"), (100, 25, 16), 0.3)
    assert noise.dtype == np.float32 and noise.shape == (100, 25, 16)
    assert stats.kstest(noise.ravel(), stats.norm(0, 0.3).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(noise[..., 0].ravel(), noise[..., 1].ravel())[0, 1]) < 0.08
    assert np.array_equal(noise, gaussian_noise(rng_for(0, "noise"), (100, 25, 16), 0.3))


def test_no_noise_is_exactly_zero_and_draws_nothing() -> None:
    rng = rng_for(0, "noise")
    none = gaussian_noise(rng, 8, 0.0)
    assert none.dtype == np.float32 and none.tobytes() == bytes(32)
    assert rng.random() == rng_for(0, "noise").random()
    with pytest.raises(ValueError, match=r"must be >= 0, got -0.1"):
        gaussian_noise(rng, 8, -0.1)
