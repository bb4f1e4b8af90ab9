"""The mixing step of `mixing.mix` where the models are: on a GPU, without passing through the host.

The same float64 sums, rounded once to the array's type. Their order is that of the GPU's library, so that a last bit may
differ from what the host makes of them.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedsuite.driving.topology.mixing import MEAN, VARIANCE


def mix_tensors(stacked: Mapping[str, Tensor], a: np.ndarray) -> dict[str, Tensor]:
    """New models [N, ...] of all silos, name by name; a: float64 [N, N], row = receiver. Integers stay with their silo."""
    device = next(iter(stacked.values())).device
    weights = torch.from_numpy(np.asarray(a, np.float64)).to(device)

    def product(x: Tensor) -> Tensor:
        return weights @ x

    mixed = {}
    for name, values in stacked.items():
        if not values.is_floating_point():
            mixed[name] = values
            continue
        x = values.detach().double().flatten(1)
        if name.endswith(VARIANCE):
            m = stacked[name.removesuffix(VARIANCE) + MEAN].detach().double().flatten(1)
            out = (product(x + m * m) - product(m).square()).clamp(min=0.0)
        else:
            out = product(x)
        mixed[name] = out.to(values.dtype).view_as(values)
    return mixed
