"""x W^T by oneDNN, the library of torch's convolutions.

Other products of torch go to MKL, which on AMD processors takes about twice as long. oneDNN makes a kernel for every new
shape, which pays for large products only.
"""

import torch
from torch import Tensor

_LARGE = 1 << 24  # multiplications


def times_transposed(x: Tensor, weight: Tensor) -> Tensor:
    """x [.., B, I], W [.., O, I] -> [.., B, O]; has no gradient."""
    large = x.shape[-2] * weight.numel() >= _LARGE and torch.backends.mkldnn.is_available()
    if not (large and x.device.type == "cpu" and x.dtype == torch.float32):
        return x @ weight.mT
    if weight.dim() > 2:
        return torch.stack([times_transposed(*pair) for pair in zip(x, weight, strict=True)])
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
    return product
