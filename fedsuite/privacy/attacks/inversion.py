"""Inputs of a linear layer from its gradient: exact for one example, mixed for several (Phong et al. 2018, IEEE TIFS 13(5)).

    z = W x + b     W [O, I], b [O], x_n [I] of examples n, delta_no = dL / dz_no
    dL/dW_o = sum_n delta_no x_n,   dL/db_o = sum_n delta_no                                            (1)
    one example:    row o of dW over db_o is x, whatever lies behind the layer                          (2)
    several:        rows are means of the inputs, weighted by delta_no / db_o; rank(dW) tells how many  (3)

With the squared error of one example, L = (p - y)^2 and p = W x + b, the label follows too: y = p - db / 2 (4).

What is sent is seldom the gradient. A step of plain SGD is its multiple, and (2) does not mind; Adam's first step from a
fresh state is -rate g / (|g| + eps), and RMSprop's the same tenfold: signs, which tell where x is not 0, and its signs up to
one for all. But what a step lacks of `rate` tells |g|, as far as float32 holds it, which is so for small g (5).

    s = change / -rate,   g = eps s / (1 - |s|)                                                         (5)

Later steps, and several in one visit, mix batches.
"""

from collections.abc import Sequence

import numpy as np

from fedsuite.privacy.likeness import cosine

SMALLEST = 1e-12  # of a bias gradient, over the largest: below, a row has no usable ratio
LEAST_LACK = 1e-7  # 1 - |s| in (5): float32 holds no less


def rows_over_bias(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Inputs as single rows tell them, (2): gradients [O, I] and [O] -> [R, I], of the R rows whose bias moved."""
    weight, bias = _checked(weight, bias)
    largest = float(np.abs(bias).max(initial=0.0))
    told = np.abs(bias) > SMALLEST * largest
    return np.asarray(weight[told] / bias[told, None])


def common_input(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The input [I] that explains all rows best: argmin_x |dW - db x^T|. ValueError where no bias moved."""
    weight, bias = _checked(weight, bias)
    square = float(bias @ bias)
    if square == 0.0:
        raise ValueError("the bias did not move, so that nothing can be divided by its change")
    return np.asarray(bias @ weight / square)


def unexplained(weight: np.ndarray, bias: np.ndarray) -> float:
    """|dW - db x^T| / |dW| of the common input x: 0 for one example, more for several."""
    weight, bias = _checked(weight, bias)
    left = weight - np.outer(bias, common_input(weight, bias))
    return float(np.linalg.norm(left) / max(float(np.linalg.norm(weight)), np.finfo(float).tiny))


def gradient_rank(weight: np.ndarray, tolerance: float = 1e-5) -> int:
    """How many independent inputs stand in dW [O, I], (3): singular values above `tolerance` times the largest."""
    values = np.linalg.svd(np.asarray(weight, np.float64), compute_uv=False)
    return int((values > tolerance * values[0]).sum()) if len(values) and values[0] > 0 else 0


def label_of_one(
    weight: np.ndarray, bias: np.ndarray, d_weight: np.ndarray, d_bias: np.ndarray
) -> float:
    """The label by (4), of a layer with one output: weights [1, I] and [1] as they were, and their gradients."""
    x = common_input(d_weight, d_bias)
    prediction = float(np.asarray(weight, np.float64)[0] @ x + float(bias[0]))
    return prediction - float(d_bias[0]) / 2


def sent_before_mixing(mixed: np.ndarray, own: np.ndarray, share: float) -> np.ndarray:
    """What the only neighbour sent: mixed = (1 - share) own + share theirs, solved for theirs (a ring's two terms)."""
    if not 0 < share <= 1:
        raise ValueError(f"share: expected more than 0 and at most 1, got {share}")
    both = np.asarray(mixed, np.float64) - (1 - share) * np.asarray(own, np.float64)
    return np.asarray(both / share)


def first_step_undone(change: np.ndarray, rate: float, epsilon: float) -> np.ndarray:
    """The gradient by (5), of what a first step of Adam or of RMSprop with bias correction has changed."""
    s = np.clip(np.asarray(change, np.float64) / -rate, -1, 1)
    return np.asarray(epsilon * s / np.maximum(1 - np.abs(s), LEAST_LACK))


def best_match(found: np.ndarray, candidates: Sequence[np.ndarray] | np.ndarray) -> float:
    """Largest cosine of `found` [I] with the candidates [n, I]."""
    return max(cosine(found, x) for x in candidates)


def _checked(weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    weight, bias = np.asarray(weight, np.float64), np.asarray(bias, np.float64)
    if weight.ndim != 2 or bias.shape != weight.shape[:1]:
        raise ValueError(f"expected gradients [O, I] and [O], got {weight.shape} and {bias.shape}")
    return weight, bias
