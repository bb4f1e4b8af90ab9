"""What operators of torch compute that have kernels on a GPU alone, done on the CPU.

with on_the_cpu() as calls:
    torch.ops.aten._thnn_fused_lstm_cell(..)  # and its gradients
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor


def lstm_cell(x: Tensor, y: Tensor, cell: Tensor, *bias: Any) -> tuple[Tensor, ...]:
    """x + y [B, 4H] the gates i, f, g, o; h, c, and what its gradients need: the gates after their functions."""
    i, f, g, o = (x + y).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = f * cell + i * g
    return o * after.tanh(), after, torch.cat([i, f, g, o], 1)


def lstm_cell_back(
    dh: Tensor | None, dc: Tensor | None, cell: Tensor, after: Tensor, gates: Tensor, has_bias: bool
) -> tuple[Tensor, ...]:
    """Gradients of the gates, and of the cell before, by dh and dc, of which one may not be there."""
    i, f, g, o = gates.chunk(4, 1)
    dh = torch.zeros_like(cell) if dh is None else dh
    slope = dh * o * (1 - after.tanh() ** 2) + (0 if dc is None else dc)
    parts = slope * g * i * (1 - i), slope * cell * f * (1 - f), slope * i * (1 - g * g)
    found = torch.cat([*parts, dh * after.tanh() * o * (1 - o)], 1)
    return found, slope * f, torch.zeros(0)


KERNELS = {
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_back,
}


@contextmanager
def on_the_cpu() -> Iterator[list[str]]:
    """Names of the operators as they are called."""
    library, calls = torch.library.Library("aten", "IMPL"), list[str]()

    def called(name: str, *given: Any) -> Any:
        calls.append(name)
        return KERNELS[name](*given)

    for name in KERNELS:
        library.impl(name, partial(called, name), "CPU")
    try:
        yield calls
    finally:
        library._destroy()
