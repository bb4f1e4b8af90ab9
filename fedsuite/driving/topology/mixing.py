"""The mixing step theta_i <- sum_j A_ij theta_j of N silos, their consensus distance, and their average.

Do et al. 2024; Nguyen et al. 2022. Models are stacked by name: arrays [N, ...]. Sums are taken in float64 and rounded
once to the array's type; an array's result depends on nothing but itself (its mean as well, for running variances).

BatchNorm statistics of silos are moments of different data: mean_i = sum_j A_ij mean_j, and by the law of total variance
var_i = sum_j A_ij (var_j + mean_j^2) - mean_i^2. Counters and other integers stay with their silo.
"""

from collections.abc import Callable, Collection, Mapping

import numpy as np
from scipy.sparse import csr_array

MEAN, VARIANCE, COUNT = "running_mean", "running_var", "num_batches_tracked"
# Columns a block: its float64 copies of N rows stay in the cache, and all blocks have this width (the last one is padded),
# so that a column's sum is taken in the same order wherever it stands.
_BLOCK = 2048
_SPARSE = 0.15  # up to this share of non-zero weights, sparse rows are quicker than a dense product

Stack = Mapping[str, np.ndarray]
Product = Callable[[np.ndarray], np.ndarray]


def mix(stacked: Stack, a: np.ndarray) -> dict[str, np.ndarray]:
    """New models [N, ...] of all silos; the input is left as it is, arrays that do not change are passed on as they are.

    a: float64 [N, N], row = receiver. What silos keep to themselves is left out of `stacked` (see `batch_norm_names`).
    If all rows of `a` are equal the result is a read-only view of one model. ValueError for a wrong shape or a missing mean.
    """
    weights = np.asarray(a, dtype=np.float64)
    silos = _num_silos(stacked)
    if weights.shape != (silos, silos):
        raise ValueError(f"mixing matrix: expected shape ({silos}, {silos}), got {weights.shape}")
    same_rows = bool((weights == weights[0]).all())
    product = _product(weights[:1] if same_rows else weights)
    mixed: dict[str, np.ndarray] = {}
    for name, values in stacked.items():
        if values.dtype.kind != "f":
            mixed[name] = values
            continue
        means = _mean_of(stacked, name) if name.endswith(VARIANCE) else None
        out = _mix_array(values, means, product, 1 if same_rows else silos)
        mixed[name] = np.broadcast_to(out, values.shape) if same_rows else out
    return mixed


def batch_norm_names(names: Collection[str]) -> frozenset[str]:
    """Those names that belong to a BatchNorm layer: statistics, and scale and offset beside them."""
    layers = {n.removesuffix(MEAN) for n in names if n.endswith(MEAN)}
    parts = ("weight", "bias", MEAN, VARIANCE, COUNT)
    return frozenset(n for layer in layers for part in parts if (n := layer + part) in names)


def _num_silos(stacked: Stack) -> int:
    sizes = {values.shape[0] if values.ndim else 0 for values in stacked.values()}
    if len(sizes) != 1 or not min(sizes):
        raise ValueError(f"stacked models: expected arrays [N, ...] of one N, got N in {sizes}")
    return sizes.pop()


def _mean_of(stacked: Stack, name: str) -> np.ndarray:
    other = name.removesuffix(VARIANCE) + MEAN
    if other not in stacked or stacked[other].shape != stacked[name].shape:
        raise ValueError(f"{name}: needs {other} of the same shape; mix the two in one call")
    return stacked[other]


def _product(weights: np.ndarray) -> Product:
    """x [N, _BLOCK] float64 -> weights @ x."""
    if len(weights) == 1 or np.count_nonzero(weights) > _SPARSE * weights.size:
        return lambda x: weights @ x
    # Rows of a CSR matrix are added up in ascending j.
    rows = csr_array(weights)
    return lambda x: rows @ x


def _mix_array(
    values: np.ndarray, means: np.ndarray | None, product: Product, num_rows: int
) -> np.ndarray:
    """[num_rows, ...] in the type of `values`; with `means` the values are variances."""
    flat = values.reshape(len(values), -1)
    flat_means = None if means is None else means.reshape(len(values), -1)
    out = np.empty((num_rows, flat.shape[1]), values.dtype)
    x, m = np.zeros((len(flat), _BLOCK)), np.zeros((len(flat), _BLOCK))
    for start in range(0, flat.shape[1], _BLOCK):
        width = min(_BLOCK, flat.shape[1] - start)
        part = slice(start, start + width)
        x[:, :width] = flat[:, part]
        if flat_means is None:
            out[:, part] = product(x)[:, :width]
            continue
        m[:, :width] = flat_means[:, part]
        total = product(x + m * m) - product(m) ** 2
        out[:, part] = np.maximum(total[:, :width], 0.0)
    return out.reshape(num_rows, *values.shape[1:])


def consensus_distance(stacked: Stack) -> float:
    """Mean over silos of the squared Euclidean distance of their parameters to the mean model; buffers do not count."""
    silos = _num_silos(stacked)
    total = 0.0
    for name, values in stacked.items():
        if name.endswith((MEAN, VARIANCE, COUNT)) or values.dtype.kind != "f":
            continue
        flat = values.reshape(silos, -1)
        for start in range(0, flat.shape[1], _BLOCK):
            x = flat[:, start : start + _BLOCK].astype(np.float64)
            x -= x.mean(axis=0)
            total += float(np.vdot(x, x))
    return total / silos


def average_model(stacked: Stack) -> dict[str, np.ndarray]:
    """The plain mean of all silos' models, [...] a name, variances with the part between silos; counters: the largest."""
    silos = _num_silos(stacked)
    mixed = mix(stacked, np.full((silos, silos), 1.0 / silos))
    return {k: np.array(v[0] if v.dtype.kind == "f" else v.max(axis=0)) for k, v in mixed.items()}
