"""A function of tensors at fixed places in memory, run again by replaying its kernels, forward and backward.

  y = f(x, W);   dx = (dy/dx)^T dy,  dW likewise

A decision of the published agent is some fifty small kernels, and more for its gradients: to launch them one by one takes a
GPU's host far longer than the GPU takes to work through them. A CUDA graph launches all of them at once, but reads and
writes the same memory every time: x is copied there, y is copied from there, and shapes are fixed. Activations stay in
a recording's memory until its gradients have been taken, so the decisions of one walk need a recording each. Recordings
that no walk has both of, those of one decision in other shapes, share memory: that is what a `place` is.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fedsuite.vln.model.gathered import Gathered, Notes

T = TypeVar("T")
Replay = Callable[[], object]  # does recorded work again, into the same tensors
# Of tensors that it knows; products are noted. Outputs of which there is a gradient come first.
Function = Callable[[Gathered], Sequence[Tensor]]


class Recorder(Protocol):
    """What records work: CudaGraphs, or something in its place."""

    def __call__(
        self, work: Callable[[], Sequence[Any]], place: Hashable
    ) -> tuple[Sequence[Any], Replay]:
        """What the work returns, whose numbers are there after a replay, until other work recorded at this place is
        replayed; but forward work leaves alone what backward work recorded after it reads."""

    def warm(self, work: Callable[[], object]) -> None:
        """Do the work once as it is: libraries prepare themselves in ways that cannot be recorded."""


class CudaGraphs:
    """Of the present GPU. Every place has memory of its own: what a tensor of one graph leaves free, another takes, and a
    replay of the first then writes over what the other holds there."""

    def __init__(self) -> None:
        self._pools: dict[Hashable, Any] = {}
        self._stream = torch.cuda.Stream()

    def __call__(
        self, work: Callable[[], Sequence[Any]], place: Hashable
    ) -> tuple[Sequence[Any], Replay]:
        graph, found = torch.cuda.CUDAGraph(), list[Any]()
        if place not in self._pools:
            self._pools[place] = torch.cuda.graph_pool_handle()

        def record() -> None:
            graph.capture_begin(pool=self._pools[place])
            try:
                found.extend(work())
            finally:
                graph.capture_end()

        torch.cuda.synchronize()
        self.warm(record)
        return found, graph.replay

    def warm(self, work: Callable[[], object]) -> None:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            work()
        torch.cuda.current_stream().wait_stream(self._stream)


class Shared:
    """Memory that recordings read, and that a walk writes before it replays any."""

    _owner: Callable[[], object] = staticmethod(lambda: None)

    def held_by(self, owner: object) -> bool:
        """Whether it was `owner` who wrote there last; now it is."""
        held = self._owner() is owner
        if not held:
            self._owner = ref(owner)
        return held


class Recording:
    """outputs: y; slopes: places of dy, of those that have one; gradients: of `wanted`, None where y depends on one by noted
    products alone."""

    def __init__(
        self,
        function: Function,
        wanted: Sequence[Tensor],
        recordings: "Recordings",
        place: Hashable,
        noted: Sequence[list[Any]] = (),
    ) -> None:
        """wanted: leaves of which the function makes its outputs; place: in a walk, which replays one recording there once
        at most; noted: lists in which its backward pass leaves tensors."""
        gathered, recorder = Gathered(gates=False), recordings.recorder

        def backward(outputs: Sequence[Tensor], slopes: Sequence[Tensor]) -> Sequence[Any]:
            return torch.autograd.grad(
                outputs, wanted, slopes, retain_graph=True, allow_unused=True
            )

        def first() -> None:
            outputs = _moving(function(Gathered(gates=False)))
            backward(outputs, [torch.zeros_like(y) for y in outputs])

        with torch.enable_grad():
            recorder.warm(first)
            for notes in noted:
                notes.clear()
            # Activations are held until both are recorded, as a replay leaves its own where the first ones were.
            first_ones, self._forward = recorder(lambda: function(gathered), place)
            self.outputs = [y.detach() for y in first_ones]
            moving = _moving(first_ones)
            self.slopes = [torch.zeros_like(y) for y in moving]
            self.gradients, self._backward = recorder(lambda: backward(moving, self.slopes), place)
        self._gathered, self._recordings = gathered, recordings

    def forward(self) -> int:
        """Make the outputs. `backward` is to be told what is returned."""
        self._forward()
        return self._recordings.walks

    def backward(
        self,
        walk: int,
        slopes: Sequence[Tensor | None],
        own: Callable[[Tensor, Tensor], Tensor],
    ) -> None:
        """Make the gradients; RuntimeError if another walk has begun. slopes: dy, None = 0; own(place, slope): the part
        of its place in the recording that one is for. What others left in the rest reaches no gradient that is read."""
        if walk != self._recordings.walks:
            raise RuntimeError(
                "what a walk had recorded was overwritten by another before its gradients were taken; take them before "
                "the other begins"
            )
        places, values = list[Tensor](), list[Tensor]()
        for place, slope in zip(self.slopes, slopes, strict=True):
            if slope is None:
                place.zero_()
            else:
                places.append(own(place, slope))
                values.append(slope.reshape(places[-1].shape))
        torch._foreach_copy_(places, values)
        self._backward()

    def notes(self, weight: Tensor) -> Notes:
        """(dy, x) of a weight's products."""
        return self._gathered.notes(weight)


def _moving(outputs: Sequence[Tensor]) -> list[Tensor]:
    return [y for y in outputs if y.requires_grad]


class Recordings:
    """What a process has recorded, and memory that recordings share; walks: how many have begun."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        """recorder: by default CUDA graphs, of the present GPU."""
        self.recorder, self.walks = CudaGraphs() if recorder is None else recorder, 0
        self._kept: dict[Hashable, Any] = {}
        self._room: dict[Hashable, Tensor] = {}

    def begin(self) -> "Recordings":
        """A walk: the gradients of the one before can no longer be taken."""
        self.walks += 1
        return self

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made for this key, or is made now."""
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found

    def room(self, key: Hashable, like: Tensor, shape: Sequence[int]) -> Tensor:
        """The same memory for every shape; who needs more than there is gets more, and others keep what they have."""
        size = torch.Size(shape).numel()
        if key not in self._room or len(self._room[key]) < size:
            self._room[key] = like.detach().new_zeros(size)
        return self._room[key][:size].view(*shape)


class Taken(Protocol):
    """One use of a recording."""

    def forward(self) -> tuple[Tensor, ...]:
        """Copy x there, replay, return y."""

    def backward(self, slopes: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """Copy dy there, None = 0, replay, return the gradient of every wanted tensor."""


def replayed(taken: Taken, *wanted: Tensor | None) -> tuple[Tensor, ...]:
    """y, of which gradients flow to the wanted tensors."""
    outputs: tuple[Tensor, ...] = _Replayed.apply(taken, *wanted)
    return outputs


class _Replayed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, taken: Taken, *wanted: Tensor | None) -> tuple[Tensor, ...]:
        ctx.taken = taken
        ctx.set_materialize_grads(False)
        return taken.forward()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *ctx.taken.backward(slopes)


def rounded_rows(rows: int) -> int:
    """How many a recording for so many rows has: a power of two, at least 8."""
    return max(power_of_two(rows), 8)


def rounded_houses(houses: int) -> int:
    """How many a recording for so many houses has: a power of two, or above 8 three quarters of one."""
    whole = power_of_two(houses)
    return 3 * whole // 4 if whole > 8 and houses <= 3 * whole // 4 else whole


def power_of_two(least: int) -> int:
    """The next."""
    return 1 << (least - 1).bit_length()
