"""How like the truth a reconstruction is: cosine, PSNR, SSIM, and what a grey picture reaches without seeing anything.

Pictures are [C, H, W] with numbers between 0 and 1.

    cosine   x . y / (|x| |y|)
    PSNR     10 log10(1 / mean (x - y)^2), decibels; infinite for equal pictures
    SSIM     mean over windows of (2 m_x m_y + c_1) (2 s_xy + c_2) / ((m_x^2 + m_y^2 + c_1) (s_x^2 + s_y^2 + c_2))
             (Wang et al. 2004, IEEE TIP 13(4), equation 13), in Gaussian windows of 11 x 11 and sigma 1.5 that lie wholly in
             the picture; c_1 = 0.01^2, c_2 = 0.03^2; channels averaged. 1 for equal pictures.
"""

import math

import numpy as np
from scipy.signal import convolve

SIDE, SIGMA = 11, 1.5
C1, C2 = 0.01**2, 0.03**2


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    """Of two arrays of the same size, in [-1, 1]; 0 where one of them is zero."""
    x, y = np.asarray(x, np.float64).ravel(), np.asarray(y, np.float64).ravel()
    if x.shape != y.shape:
        raise ValueError(f"expected arrays of one size, got {x.size} and {y.size} numbers")
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / lengths if lengths > 0 else 0.0


def psnr(picture: np.ndarray, truth: np.ndarray) -> float:
    """Decibels; numbers beyond 0 and 1 are cut off, as a screen does."""
    picture, truth = _two(picture, truth)
    square = float(np.mean((np.clip(picture, 0, 1) - truth) ** 2))
    return math.inf if square == 0 else -10 * math.log10(square)


def grey_psnr(truth: np.ndarray, grey: float | None = None) -> float:
    """PSNR of a picture of one grey, by default the truth's own mean: the best that a guess of one number can do."""
    truth = np.asarray(truth, np.float64)
    return psnr(np.full_like(truth, truth.mean() if grey is None else grey), truth)


def ssim(picture: np.ndarray, truth: np.ndarray) -> float:
    """ValueError for pictures smaller than a window."""
    picture, truth = _two(picture, truth)
    if min(truth.shape[1:]) < SIDE:
        raise ValueError(f"expected pictures of at least {SIDE} pixels a side, got {truth.shape}")
    x = np.clip(picture, 0, 1)
    mean_x, mean_y = _windows(x), _windows(truth)
    var_x, var_y = _windows(x * x) - mean_x**2, _windows(truth * truth) - mean_y**2
    both = _windows(x * truth) - mean_x * mean_y
    over = (2 * mean_x * mean_y + C1) * (2 * both + C2)
    under = (mean_x**2 + mean_y**2 + C1) * (var_x + var_y + C2)
    return float(np.mean(over / under))


def window() -> np.ndarray:
    """Weights of a window [11, 11], which add up to 1."""
    at = np.arange(SIDE) - SIDE // 2
    line = np.exp(-(at**2) / (2 * SIGMA**2))
    square = np.outer(line, line)
    return np.asarray(square / square.sum())


def _windows(values: np.ndarray) -> np.ndarray:
    """Weighted means over all windows that lie wholly inside: [C, H, W] -> [C, H - 10, W - 10]."""
    return np.asarray(convolve(values, window()[None], mode="valid", method="direct"))


def _two(picture: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    picture, truth = np.asarray(picture, np.float64), np.asarray(truth, np.float64)
    if picture.shape != truth.shape or truth.ndim != 3:
        raise ValueError(
            f"expected two pictures [C, H, W], got shapes {picture.shape} and {truth.shape}"
        )
    return picture, truth
