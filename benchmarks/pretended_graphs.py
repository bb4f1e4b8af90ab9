"""CUDA graphs that are none: operators are written down while work is done, and done again on the same tensors.

    Recordings(PretendedGraphs())

Refused is what a graph cannot do: read a number off a tensor, make a tensor whose shape follows from numbers, draw; and to
read tensors of the host, whose numbers would be those of the first time in every replay. What a replay may write over is
spoiled: all that others of its place have made, but for the graph before, of which it goes on.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_REFUSED = {
    "_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive",
    "repeat_interleave", "bincount", "lift_fresh", "random_", "exponential_", "multinomial", "bernoulli", "bernoulli_",
    "uniform_", "normal_", "rand", "rand_like", "randn", "randn_like", "randint", "randperm", "native_dropout",
}  # fmt: skip
# Where places are given by flags, the shape follows from how many are set.
_INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}
_NOWHERE = 119  # an index that is out of most ranges, and that a byte can hold


class _Written(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition("::")[2].partition(".")[0]
        found = func(*args, **(kwargs or {}))
        places = _tensors(args[1]) if name in _INDEXED else []
        flags = any(place.dtype == torch.bool for place in places)
        # A tensor of tests/pretended_gpu.py has a `near`, one of the host has none.
        devices = {hasattr(x, "near") for x in _tensors((args, kwargs, found))}
        if name in _REFUSED or flags or len(devices) > 1:
            raise RuntimeError(f"{name} cannot be recorded")
        self.done.append((func, args, kwargs or {}, found))
        return found


class PretendedGraphs:
    """number: of graphs recorded; replays: of all. aside: what operators are replayed in, such as away from a `Counting`."""

    def __init__(self, aside: Callable[[], AbstractContextManager[Any]] = nullcontext) -> None:
        self.number = self.replays = 0
        self._aside = aside
        self._places: dict[Hashable, list[list[Any]]] = defaultdict(list)

    def __call__(
        self, work: Callable[[], Sequence[Any]], place: Hashable
    ) -> tuple[Sequence[Any], Callable[[], object]]:
        with _Written() as written:
            found = work()
        self.number += 1
        done = [one for one in written.done if not one[0].is_view]
        own, there = [made for *_, made in done], self._places[place]
        for made in own:  # a graph has done nothing while it was recorded
            _write(made, None)
        read = {_memory(x) for _, *given, _ in done for x in _tensors(given)}
        before = there[-1] if there and not read.isdisjoint(map(_memory, _tensors(there[-1]))) else None  # fmt: skip
        there.append(own)

        def replay() -> None:
            self.replays += 1
            with torch.no_grad(), self._aside():
                for other in there:
                    if other is not own and other is not before:
                        _write(other, None)
                for func, args, kwargs, made in done:
                    _write(made, func(*args, **kwargs))

        return found, replay

    def warm(self, work: Callable[[], object]) -> None:
        work()


def _write(made: Any, again: Any) -> None:
    """The numbers of `again` into the tensors that were made, or none that are numbers."""
    into = _tensors(made)
    for place, one in zip(into, into if again is None else tree_leaves(again), strict=True):
        if again is None:
            place.data.fill_(float("nan") if place.is_floating_point() else _NOWHERE)
        elif _memory(place) != _memory(one):
            place.data.copy_(one)


def _tensors(tree: Any) -> list[Any]:
    return [one for one in tree_leaves(tree) if isinstance(one, torch.Tensor)]


def _memory(tensor: Any) -> int:
    """Where it lies; a tensor of tests/pretended_gpu.py has one that has the numbers."""
    where: int = getattr(tensor, "near", tensor).data_ptr()
    return where
