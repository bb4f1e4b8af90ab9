"""Clipping of Q-vectors and Gaussian noise on them: what a party does to Q-values before they leave.

  Q^ = Q * min(1, c / |Q|_2) + N(0, sigma^2 I)

Q-values [..., A] of A actions; c bound on their L2 norm (0: no clipping); sigma standard deviation of each of
the A components. Zhuo et al. (2019) add noise with sigma = 1 and do not clip; without a bound there is no sensitivity
from which a guarantee could be derived (see `accounting`).
"""

from collections.abc import Sequence

import numpy as np
from torch import Tensor


def clip_rows(q: Tensor, bound: float) -> Tensor:
    """Q-values [..., A] shrunk to an L2 norm of at most `bound`, 0: as they are. Differentiable, also at zeros."""
    if bound < 0:
        raise ValueError(f"the bound of clipping must be >= 0, got {bound}")
    if bound == 0:
        return q
    # Clamped before the root, so that the gradient at 0 is that of the identity.
    square = q.square().sum(-1, keepdim=True).clamp_min(bound * bound)
    return q * (bound * square.rsqrt())


def gaussian_noise(
    rng: np.random.Generator, shape: int | Sequence[int], sigma: float
) -> np.ndarray:
    """Independent N(0, sigma^2), float32; sigma 0 gives zeros and draws nothing."""
    if sigma < 0:
        raise ValueError(f"the standard deviation of noise must be >= 0, got {sigma}")
    if sigma == 0:
        return np.zeros(shape, np.float32)
    return rng.standard_normal(shape, np.float32) * np.float32(sigma)
