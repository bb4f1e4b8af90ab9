"""CUDA graphs that are none: operators are written down while work is done, and done again on the same tensors.

    Recordings(PretendedGraphs())

What a graph would refuse is refused: to read a number off a tensor, whose shape follows from numbers, and to draw.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

_REFUSED = (
    "_local_scalar_dense", "nonzero", "masked_select", "unique", "random_", "exponential_", "multinomial",
    "bernoulli", "uniform_", "normal_", "is_nonzero", "equal",
)  # fmt: skip


class _Written(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition("::")[2].partition(".")[0]
        if name in _REFUSED:
            raise RuntimeError(f"{name} cannot be recorded")
        found = func(*args, **(kwargs or {}))
        self.done.append((func, args, kwargs or {}, found))
        return found


class PretendedGraphs:
    """number: of graphs recorded; replays."""

    def __init__(self) -> None:
        self.number = self.replays = 0

    def __call__(
        self, work: Callable[[], Sequence[Any]]
    ) -> tuple[Sequence[Any], Callable[[], object]]:
        with _Written() as written:
            found = work()
        self.number += 1
        # A graph has done nothing while it was recorded.
        with torch.no_grad():
            for func, _, _, made in written.done:
                if not func.is_view:
                    _spoil(made)

        def replay() -> None:
            self.replays += 1
            with torch.no_grad(), _disable_current_modes():
                for func, args, kwargs, made in written.done:
                    if not func.is_view:
                        _write(func(*args, **kwargs), made)

        return found, replay

    def warm(self, work: Callable[[], object]) -> None:
        work()


def _write(again: Any, made: Any) -> None:
    for new, old in zip(tree_leaves(again), tree_leaves(made), strict=True):
        if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
            old.data.copy_(new)


def _spoil(made: Any) -> None:
    for one in tree_leaves(made):
        if isinstance(one, torch.Tensor) and one.is_floating_point():
            one.data.fill_(float("nan"))
