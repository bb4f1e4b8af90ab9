"""What a client does in a visit, as one value: a LocalMethod trains, and says which model the client is scored with.

`local-method = "plain"` is FedAvg's: train what was received, send it back. Others train other models beside it, and keep
them: personal/ has those of the project, local_methods.py their names, docs/extending.md one of one's own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fedsuite.arrays import Arrays, Share

if TYPE_CHECKING:  # it brings torch, which a server's reports do without
    from fedsuite.averaging.penalties import Penalty


@dataclass(frozen=True)
class Learnt:
    """A trained model, and the means of what was measured; `steps` of the report: optimizer steps."""

    model: Arrays
    report: Mapping[str, float]


class Learn(Protocol):
    """Local training on the client's own data.

    steps: as many as the server asks for, if it is not given. only: the parameters that move. toward: what the loss gets
    in place of the configured penalty; anchor: the model that it pulls to, by default where this training starts. stream:
    a name for each further training of a visit, which has its own mini-batches, random numbers and optimizer; control
    variates (SCAFFOLD) correct the training without one.
    """

    def __call__(
        self,
        model: Arrays,
        steps: int | None = None,
        *,
        only: Share = Share(),
        toward: "Penalty | None" = None,
        anchor: Arrays | None = None,
        stream: str = "",
    ) -> Learnt: ...


@dataclass(frozen=True)
class Point:
    """gradient: of the loss, by parameter; buffers: the other arrays of the model, as the loss's computation left them."""

    gradient: Arrays
    buffers: Arrays


class BySteps(Protocol):
    """A training of which the method takes every step itself, where it wants more than one gradient of a mini-batch."""

    def gradients(self, *models: Arrays) -> list[Point]:
        """The loss's on the next mini-batch at each of these models, by the same random numbers (dropout, actions).

        With one model, and `stepped` along each, the bytes are those of `learn`.
        """
        ...

    def stepped(
        self, model: Arrays, point: Point, stream: str = "", *, factor: float = 1.0
    ) -> Arrays:
        """The model after a step of the client's optimizer along `factor` times the gradient.

        stream: a name for each further model, which has an optimizer of its own; the first one's steps have the
        configured penalty and control variates.
        """
        ...

    def report(self) -> Mapping[str, float]:
        """Means of what was measured at the first models, with the number of steps."""
        ...


@dataclass(frozen=True)
class Visit:
    """received: the whole model, what the server does not have of it put in from the client's own; kept: what the method
    kept of the last visit that counts, {} at first; steps: those that the server asks for; share: what of a model is
    sent; settings: of the run; by_steps: opens a training, by the name of its stream."""

    received: Arrays
    kept: Arrays
    steps: int
    learn: Learn
    share: Share
    settings: Any
    by_steps: Callable[..., BySteps]


@dataclass(frozen=True)
class Left:
    """sent: the whole model, of which the share goes to the server and the rest is personal; report: metrics of the reply,
    with the `steps` of what is sent; kept: named arrays that stay with the client."""

    sent: Arrays
    report: Mapping[str, float]
    kept: Arrays = field(default_factory=dict)


def as_received(received: Arrays, kept: Arrays) -> Arrays:
    """Clients are scored with the model that the server has, their personal part put in."""
    return received


@dataclass(frozen=True)
class LocalMethod:
    """scored: (the whole model as received, what the method kept) -> the model that the client is scored with.

    keeps: every visit keeps something; forgets: a visit whose answer is lost does not count, what it kept is dropped;
    by_steps: it calls the visit's `by_steps`, which speakers do not have; needs_head: something must stay out of the share.
    """

    train: Callable[[Visit], Left]
    scored: Callable[[Arrays, Arrays], Arrays] = as_received
    keeps: bool = True
    forgets: bool = False
    by_steps: bool = False
    needs_head: bool = False


def _plain(visit: Visit) -> Left:
    learnt = visit.learn(visit.received)
    return Left(learnt.model, learnt.report)


PLAIN = LocalMethod(_plain, keeps=False)
