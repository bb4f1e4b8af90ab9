"""What the round loop, the strategies and the clients say to each other, free of Flower.

Every step of a strategy is a generator: it yields a batch of tasks, is sent the checked replies of that batch, sorted by
partition, and may yield again (one client after another, relays between parties) before it returns a RoundResult.
Parallel averaging yields once; training clients in turn yields once a client. docs/extending.md has a whole one. A step that
goes on before everybody has answered yields `UnderWay`.

The loop decides when to evaluate, remembers the best state, counts local steps and lets the server's learning rate decay;
a strategy says by values how (`selection`, `rate`).
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar

from fedsuite.arrays import LARGEST_COUNT, Arrays, Form, Named, forms_of
from fedsuite.errors import RunFailed

Scalar = int | float | str | bool
Kind = Literal["train", "evaluate"]


@dataclass(frozen=True)
class ClientInfo:
    """Who sits behind a partition, as the client itself answered once before round 1.

    partition: 0..N-1, stable across runs; name: scan, party or silo; num_examples: training samples held (0 if none);
    details: anything else that the system's strategy needs (splits, counts), scalars only.
    """

    partition: int
    name: str
    num_examples: int
    details: Mapping[str, Scalar] = field(default_factory=dict)

    def count(self, key: str) -> int:
        """A whole number among the details; RunFailed if the client did not say one."""
        value = self.details.get(key)
        if not isinstance(value, int) or not 0 <= value <= LARGEST_COUNT:
            raise RunFailed(f"{self.name}: must say {key}, a whole number >= 0, got {value!r}")
        return value


@dataclass(frozen=True)
class Task:
    """One message to one client. `returns`: names and shapes the reply must carry; None = those of `arrays`.

    types: of what `returns` names, such as "float32"; an array among `arrays` keeps its own, others may have any type.
    summed: one of very many small messages of its round; the history has one line for all that a client got.
    in_turn: how many clients are asked one after another, this one among them; min-reply-fraction is of all these.
    aside: what an exchange around a round's training is for, in the history's lines ("secure-sum"): whoever answers it has
    not trained, and how many must is for the step to say.
    needs: metrics without which a reply is of no use; ranges: the least and the largest of an array's or a metric's numbers,
    all whole; not_negative: arrays that must hold no number below 0. together: the tasks of several clients of a simulation
    that this one message is for, its own client's first. What comes back is one sum, of which the first task alone has the
    arrays and the forms (fedsuite/averaging/partial_sums.py), or, apart, a reply of each under "<partition>."
    (fedsuite/averaging/several_clients.py).
    """

    partition: int
    kind: Kind
    arrays: Arrays
    config: Mapping[str, Scalar] = field(default_factory=dict)
    returns: Mapping[str, tuple[int, ...]] | None = None
    summed: bool = False
    types: Mapping[str, str] = field(default_factory=dict)
    in_turn: int = 0
    needs: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    not_negative: tuple[str, ...] = ()
    together: tuple["Task", ...] = ()
    apart: bool = False
    aside: str = ""

    @cached_property
    def expected(self) -> dict[str, Form]:
        """The arrays of the reply by name; all that one may hold."""
        if self.apart:
            forms = [(own.partition, own.expected) for own in self.together]
            return {f"{p}.{name}": form for p, own in forms for name, form in own.items()}
        if self.together:
            return self.together[0].expected
        if self.returns is None:
            return {} if self.kind == "evaluate" else forms_of(self.arrays)
        own = {k: kind for k, (_, kind) in forms_of(self.arrays).items()}
        types = {**self.types, **own}
        return {k: (tuple(map(int, s)), types.get(k, "")) for k, s in self.returns.items()}


class UnderWay(list[Task]):
    """What a step may yield in place of a list: tasks of which it waits for `awaited` only, 1 at least.

    Real nodes are sent all of them, and the step gets the replies that come first. A simulation knows no time: there the
    tasks arrive in the order in which they are listed, so that who is late depends neither on workers nor on the machine,
    and what arrives too late is not computed. Each late task has a line in the history; what it would bring is never merged.
    """

    def __init__(self, tasks: Iterable[Task], awaited: int) -> None:
        super().__init__(tasks)
        if not 1 <= awaited <= max(1, len(self)):
            raise ValueError(
                f"{awaited} awaited of {len(self)} tasks; expected at least 1, at most all"
            )
        self.awaited = awaited


@dataclass(frozen=True)
class Reply:
    """A checked answer: arrays named and shaped as asked, finite, their numbers at most 1e6 in size (whole ones 1e12);
    num_examples >= 0; metrics finite, at most 1e12 in size, `steps` and those that end in "count" whole and >= 0.

    The metric `steps` of training replies is how many optimizer steps a client made; the loop adds them up.
    arrays: a mapping that reads each one from disk where a round's replies are more than `spill-above` (`Stored` of
    fedsuite/arrays.py), until the round is over; else a dict.
    """

    partition: int
    arrays: Named
    num_examples: int
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class ServerState:
    """All that a run carries from round to round; goes into every checkpoint.

    arrays: what is merged; scalars: counts and rates; optimizer: state of the server's optimizer, or of the one that clients
    hand on; best: `arrays` of the best round so far, {} if the last round counts; rules: what rules keep, and the last
    replies that they are told (strategies/steps.py).
    """

    arrays: Arrays
    scalars: Mapping[str, Scalar] = field(default_factory=dict)
    optimizer: Arrays = field(default_factory=dict)
    best: Arrays = field(default_factory=dict)
    rules: Arrays = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(
            self.arrays, dict
        ):  # those of a reply on disk, which goes when the round is over
            object.__setattr__(self, "arrays", dict(self.arrays))

    @property
    def selected(self) -> Arrays:
        """The result so far: the best round's arrays, or the newest."""
        return self.best or self.arrays


@dataclass(frozen=True)
class RoundResult:
    """The state after a step and its metrics (finite numbers; they go into the history).

    admitted: by partition how much of the say that its weight gives it a client had in a merge, where that is not all:
    0 = its change was rejected. It goes into the line of its training. depth: the longest chain of optimizer steps of which
    each needed the one before; 0 = exchanges were such a chain, each as long as its longest visit.
    """

    state: ServerState
    metrics: Mapping[str, float] = field(default_factory=dict)
    admitted: Mapping[int, float] = field(default_factory=dict)
    depth: int = 0


@dataclass(frozen=True)
class Selection:
    """Which round's state is the result. metrics: of evaluations, higher is better, the later ones decide between equals;
    the earliest of equals wins; () = the last round counts. patience: evaluations without a better one after which the
    run ends; 0 = never."""

    metrics: tuple[str, ...] = ()
    patience: int = 0


@dataclass(frozen=True)
class RateSchedule:
    """The server's learning rate eta: times `decay`, once a round at most, when another `every_steps` steps are full."""

    rate: float = 1.0
    decay: float = 1.0
    every_steps: int = 1


T = TypeVar("T")
Asking = Generator[Sequence[Task], Sequence[Reply], T]
Exchanges = Asking[RoundResult]
Clients = Sequence[ClientInfo]


class RoundStrategy:
    """What the round loop asks of a system's strategy; `start` and `train` have to be written.

    Every method is a generator. `state.scalars` holds, beside the strategy's own: local-steps, serial-depth,
    server-learning-rate (if there is a `rate`), best-round and best-score.<n> (if there is a `selection` and an evaluation
    had its metrics).
    """

    selection: Selection = Selection()
    rate: RateSchedule | None = None

    def start(self, clients: Clients) -> Exchanges:
        """Before round 1: hand out what clients need, build the initial state."""
        raise NotImplementedError

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """Round `number` (1-based): train and merge."""
        raise NotImplementedError

    def over(self, number: int) -> str:
        """Why the run is to end before round `number`, in one line; "" where it may go on."""
        return ""

    def kinds(self, clients: Clients) -> Sequence[Clients]:
        """Clients by kind, of which an evaluation may ask some only (`evaluation-clients` of each)."""
        return [clients]

    def evaluate(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """Score the state after round `number`; 0: the initial one. clients: those that may be asked."""
        yield []
        return RoundResult(state)

    def close(self, number: int, state: ServerState, clients: Clients, improved: bool) -> Exchanges:
        """End round `number`, evaluated or not. improved: it is the best so far."""
        yield []
        return RoundResult(state)

    def finish(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """After round `number`, the last: final evaluations; the returned state's arrays are the run's result.

        clients: those that an evaluation of this round may ask.
        """
        yield []
        return RoundResult(ServerState(state.selected, state.scalars))
