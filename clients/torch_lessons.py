"""The mini-batches of a TorchClient's training one by one, for local methods that take every step themselves."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor


class TorchLessons:
    """loss: of a mini-batch; drawing: torch's random numbers of everybody else are afterwards where they were; seed: of
    those that dropout draws, which go on from call to call."""

    def __init__(
        self,
        batches: Iterator[tuple[Tensor, ...]],
        loss: Callable[..., Tensor],
        drawing: Callable[[], AbstractContextManager[None]],
        seed: int,
    ) -> None:
        self.batches, self.loss, self.drawing = batches, loss, drawing
        self.batch: tuple[Tensor, ...] = ()
        self.total = 0.0
        with drawing():
            torch.manual_seed(seed)
            self.state = _state()

    def draw(self) -> None:
        """The next mini-batch."""
        self.batch = next(self.batches)

    def backward(self, counted: bool = True) -> None:
        """Add the gradients of the loss on it."""
        with self.drawing():
            _set(self.state)
            loss = self.loss(*self.batch)
            loss.backward()
            self.state = _state()
        if counted:
            self.total += float(loss.detach())

    def clip(self, counted: bool = True) -> None:
        """Gradients are taken as they are."""

    def random_state(self) -> Any:
        """Of torch's own streams."""
        return self.state

    def set_random_state(self, state: Any) -> None:
        """Put them where they were."""
        self.state = state

    def report(self, steps: int) -> dict[str, float]:
        """The mean loss."""
        return {"steps": steps, "loss": self.total / max(steps, 1)}


def _state() -> list[Tensor]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), *cuda]


def _set(state: list[Tensor]) -> None:
    torch.set_rng_state(state[0])
    if state[1:]:
        torch.cuda.set_rng_state_all(state[1:])
