"""PSNR and SSIM against golden values and a twin that goes from window to window."""

import math

import numpy as np
import pytest

from fedsuite.privacy.likeness import cosine, grey_psnr, psnr, ssim


def slow_ssim(x: np.ndarray, y: np.ndarray) -> float:
    """Equation 13 of Wang et al. (2004), one window after another, weights from the formula of a Gaussian."""
    weight = np.array(
        [
            [math.exp(-((i - 5) ** 2 + (j - 5) ** 2) / (2 * 1.5**2)) for j in range(11)]
            for i in range(11)
        ]
    )
    weight /= weight.sum()
    found = []
    for a, b in zip(x, y, strict=True):
        for top in range(a.shape[0] - 10):
            for left in range(a.shape[1] - 10):
                p, q = a[top : top + 11, left : left + 11], b[top : top + 11, left : left + 11]
                mp, mq = (weight * p).sum(), (weight * q).sum()
                vp, vq = (weight * (p - mp) ** 2).sum(), (weight * (q - mq) ** 2).sum()
                pq = (weight * (p - mp) * (q - mq)).sum()
                found.append(
                    ((2 * mp * mq + 1e-4) * (2 * pq + 9e-4))
                    / ((mp**2 + mq**2 + 1e-4) * (vp + vq + 9e-4))
                )
    return float(np.mean(found))


@pytest.mark.parametrize("shape", [(1, 11, 11), (1, 16, 13), (3, 14, 14)])
def test_ssim_is_that_of_the_slow_twin(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    truth = rng.random(shape)
    for picture in (rng.random(shape), np.clip(truth + rng.normal(0, 0.1, shape), 0, 1), 1 - truth):
        assert ssim(picture, truth) == pytest.approx(slow_ssim(picture, truth), abs=1e-12)


def test_pictures_of_one_grey_have_the_similarity_of_their_means() -> None:
    x, y = np.full((1, 12, 12), 0.2), np.full((1, 12, 12), 0.6)
    golden = (2 * 0.2 * 0.6 + 1e-4) / (0.2**2 + 0.6**2 + 1e-4)
    assert ssim(x, y) == pytest.approx(golden, abs=1e-12)
    assert ssim(y, y) == pytest.approx(1)


def test_decibels() -> None:
    truth = np.full((1, 4, 4), 0.5)
    assert psnr(truth + 0.1, truth) == pytest.approx(20)
    assert psnr(truth + 0.01, truth) == pytest.approx(40)
    assert psnr(truth, truth) == math.inf
    assert psnr(truth + 7, truth) == pytest.approx(-10 * math.log10(0.25))  # cut off at 1


def test_no_other_grey_is_better_than_the_mean() -> None:
    truth = np.random.default_rng(0).random((1, 8, 8))
    best = grey_psnr(truth)
    assert best == pytest.approx(-10 * math.log10(truth.var()))
    assert all(grey_psnr(truth, g) < best for g in (0.3, truth.mean() + 0.01, 0.8))


def test_cosine() -> None:
    assert cosine(np.array([3.0, 0.0]), np.array([3.0, 4.0])) == pytest.approx(0.6)
    assert cosine(np.array([1.0, 2.0]), np.array([-2.0, -4.0])) == pytest.approx(-1)
    assert cosine(np.zeros(2), np.ones(2)) == 0


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 11 pixels"):
        ssim(np.zeros((1, 8, 20)), np.zeros((1, 8, 20)))
    with pytest.raises(ValueError, match="two pictures"):
        psnr(np.zeros((1, 8, 8)), np.zeros((8, 8)))
    with pytest.raises(ValueError, match="one size"):
        cosine(np.zeros(3), np.zeros(4))
