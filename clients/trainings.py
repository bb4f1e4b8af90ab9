"""The trainings of one visit of a client, as a local method asks for them: whole ones, or step by step.

Each has the name of a stream, the first one none. By its name it has mini-batches, random numbers and an optimizer of its
own; with the run's settings the optimizer's state goes on from the last visit that counts.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch.optim import Optimizer

from clients.side_by_side import Ask, aside
from fedsuite.arrays import Arrays, Share, load_arrays, module_arrays, under_prefix, with_prefix
from fedsuite.averaging.beside import OPTIMIZER
from fedsuite.averaging.correction import Correction
from fedsuite.averaging.gradients import Gradients
from fedsuite.averaging.local_method import Learnt, Point
from fedsuite.averaging.optimizer_state import load_optimizer_arrays, optimizer_arrays
from fedsuite.averaging.penalties import Penalty


class Lessons(Protocol):
    """The mini-batches of a training, one after another, of the module that the client has."""

    def draw(self) -> None:
        """Go on to the next mini-batch."""

    def backward(self, counted: bool = True) -> None:
        """Add the gradients of the module's loss on it; counted: what is measured goes into the report."""

    def clip(self, counted: bool = True) -> None:
        """Cut the module's gradients as the optimizer is to have them."""

    def random_state(self) -> Any:
        """Where the streams of random numbers are that `backward` draws from."""

    def set_random_state(self, state: Any) -> None:
        """Put them where they were."""

    def report(self, steps: int) -> Mapping[str, float]:
        """Means over the steps, with their number."""


class Trainer(Protocol):
    """A client: `optimizer` makes a fresh one of the module's parameters, `train` makes steps of it."""

    module: torch.nn.Module
    penalty: Penalty | None
    ask: Ask | None

    def optimizer(self) -> Optimizer: ...
    def lessons(self, number: int, stream: str) -> Lessons: ...
    def train(
        self, optimizer: Optimizer, steps: int, number: int, gradients: Gradients, stream: str
    ) -> Mapping[str, float]: ...


class Trainings:
    """number: the round; asked: steps of a training that says nothing else; states: of optimizers before the visit; after:
    those of the trainings so far, left out unless `keeps_states`."""

    def __init__(
        self,
        trainer: Trainer,
        number: int,
        asked: int,
        correction: Correction | None,
        states: Arrays,
        keeps_states: bool,
    ) -> None:
        self.trainer, self.number, self.asked = trainer, number, asked
        self.correction, self.states, self.keeps_states = correction, states, keeps_states
        self.after: Arrays = {}

    def learn(
        self,
        model: Arrays,
        steps: int | None = None,
        *,
        only: Share = Share(),
        toward: Penalty | None = None,
        anchor: Arrays | None = None,
        stream: str = "",
    ) -> Learnt:
        """A whole training, as `Learn` of fedsuite/averaging/local_method.py says."""
        own, correction = self.trainer, None if stream else self.correction
        optimizer = aside(own.ask, lambda: self._begun(model, stream))
        gradients = Gradients(toward or own.penalty, anchor, correction, only)
        count = self.asked if steps is None else steps
        report = own.train(optimizer, count, self.number, gradients, _suffix(stream))
        return aside(own.ask, lambda: self._ended(optimizer, stream, report))

    def _begun(self, model: Arrays, stream: str) -> Optimizer:
        module = self.trainer.module
        load_arrays(module, model)
        module.train()
        module.zero_grad()  # a visit that failed may have left some
        return self.opened(stream)

    def _ended(self, optimizer: Optimizer, stream: str, report: Mapping[str, float]) -> Learnt:
        self.leave(optimizer, stream)
        return Learnt(module_arrays(self.trainer.module), report)

    def by_steps(self, stream: str = "") -> "StepByStep":
        """A training of which the method takes every step."""
        lessons = self.trainer.lessons(self.number, _suffix(stream))
        return StepByStep(self, lessons)

    def opened(self, stream: str) -> Optimizer:
        """The optimizer of a stream, as the last visit left it."""
        optimizer = self.trainer.optimizer()
        if state := under_prefix(self.states, _place(stream)):
            load_optimizer_arrays(optimizer, self._names, state)
        return optimizer

    def leave(self, optimizer: Optimizer, stream: str) -> None:
        """Its state is the stream's from now on."""
        if self.keeps_states:
            self.after |= with_prefix(optimizer_arrays(optimizer, self._names), _place(stream))

    @property
    def _names(self) -> dict[str, torch.nn.Parameter]:
        return dict(self.trainer.module.named_parameters())


class StepByStep:
    """`BySteps` of fedsuite/averaging/local_method.py."""

    def __init__(self, trainings: Trainings, lessons: Lessons) -> None:
        self.trainings, self.lessons, self.steps = trainings, lessons, 0
        self.module = trainings.trainer.module
        self.opened: dict[str, tuple[Optimizer, Gradients]] = {}

    def gradients(self, *models: Arrays) -> list[Point]:
        """At each model, by the random numbers of the first."""
        self.lessons.draw()
        self.steps += 1
        found, before, after = [], self.lessons.random_state(), None
        for model in models:
            load_arrays(self.module, model)
            self.module.train()
            self.module.zero_grad()
            self.lessons.set_random_state(before)
            self.lessons.backward(counted=after is None)
            after = after or self.lessons.random_state()
            found.append(self._point())
        self.lessons.set_random_state(after)
        return found

    def stepped(
        self, model: Arrays, point: Point, stream: str = "", *, factor: float = 1.0
    ) -> Arrays:
        """One step of the stream's optimizer."""
        load_arrays(self.module, {**model, **point.buffers})
        parameters = dict(self.module.named_parameters())
        for name, parameter in parameters.items():
            gradient = point.gradient.get(name)
            parameter.grad = (
                None
                if gradient is None
                else torch.tensor(factor * gradient, device=parameter.device)
            )
        if stream not in self.opened:
            penalty, correction = self.trainings.trainer.penalty, self.trainings.correction
            shape = Gradients() if stream else Gradients(penalty, correction=correction)
            self.opened[stream] = (self.trainings.opened(stream), shape)
        optimizer, gradients = self.opened[stream]
        gradients.shape(parameters)
        self.lessons.clip(counted=not stream)
        optimizer.step()
        self.module.zero_grad()
        self.trainings.leave(optimizer, stream)
        return module_arrays(self.module)

    def report(self) -> Mapping[str, float]:
        """Of the first models."""
        return self.lessons.report(self.steps)

    def _point(self) -> Point:
        given = dict(self.module.named_parameters())
        slopes = {
            k: p.grad.detach().cpu().numpy().copy() for k, p in given.items() if p.grad is not None
        }
        return Point(
            slopes, {k: v for k, v in module_arrays(self.module).items() if k not in given}
        )


def _suffix(stream: str) -> str:
    return f" {stream}" if stream else ""


def _place(stream: str) -> str:
    return f"{OPTIMIZER[:-1]}{_suffix(stream)}."
