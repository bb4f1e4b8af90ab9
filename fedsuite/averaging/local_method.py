"""What a client does in a visit, as one value: a LocalMethod trains, and says which model the client is scored with.

`local-method = "plain"` is FedAvg's: train what was received, send it back. With "module:NAME" of one's own a client may
train other models beside it, and keep them: docs/extending.md has Ditto.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fedsuite.arrays import Arrays, Share
from fedsuite.errors import InputError
from fedsuite.settings.values import check_callable, chosen

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
class Visit:
    """received: the whole model, what the server does not have of it put in from the client's own; kept: what the method
    kept of the last visit that counts, {} at first; steps: those that the server asks for; settings: of the run."""

    received: Arrays
    kept: Arrays
    steps: int
    learn: Learn
    settings: Any


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

    keeps: every visit keeps something; forgets: a visit whose answer is lost does not count, what it kept is dropped.
    """

    train: Callable[[Visit], Left]
    scored: Callable[[Arrays, Arrays], Arrays] = as_received
    keeps: bool = True
    forgets: bool = False


def _plain(visit: Visit) -> Left:
    learnt = visit.learn(visit.received)
    return Left(learnt.model, learnt.report)


PLAIN = LocalMethod(_plain, keeps=False)
LOCAL_METHODS: Mapping[str, LocalMethod] = {"plain": PLAIN}


def chosen_method(key: str, name: str) -> LocalMethod:
    """The method that `key = name` stands for; InputError if there is none."""
    method = chosen(key, name, LOCAL_METHODS)
    if not isinstance(method, LocalMethod):
        raise InputError(
            f"{key}: {name} is a {type(method).__name__}, expected a LocalMethod of fedsuite.averaging.local_method"
        )
    check_callable(key, name, method.train, ("visit",))
    check_callable(key, name, method.scored, ("received", "kept"))
    return method
