"""What the round loop, the strategies and the clients say to each other, free of Flower.

A strategy is a generator over one round: it yields a batch of tasks, is sent the checked replies of that batch,
sorted by partition, and may yield again (sequential aggregation, relays between parties) before it returns the
new server state. Parallel averaging yields once; training clients one after another yields once a client.

    def round(self, number, state, clients):
        replies = yield [Task(partition=p, kind="train", arrays=state.arrays, config={...}) for p in chosen]
        return RoundResult(ServerState(merged, scalars), metrics)
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from fedsuite.arrays import Arrays

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


@dataclass(frozen=True)
class Task:
    """One message to one client. `returns`: names and shapes the reply must carry; None = those of `arrays`.

    summed: one of very many small messages of its round; the history has one line for all that a client got.
    """

    partition: int
    kind: Kind
    arrays: Arrays
    config: Mapping[str, Scalar] = field(default_factory=dict)
    returns: Mapping[str, tuple[int, ...]] | None = None
    summed: bool = False


@dataclass(frozen=True)
class Reply:
    """A checked answer: arrays finite, named and shaped as asked; num_examples >= 0; metrics finite numbers."""

    partition: int
    arrays: Arrays
    num_examples: int
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class ServerState:
    """All that the strategy carries from round to round; goes into every checkpoint."""

    arrays: Arrays
    scalars: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class RoundResult:
    """The state after a round and its metrics (finite numbers; they go into the history)."""

    state: ServerState
    metrics: Mapping[str, float] = field(default_factory=dict)


Exchanges = Generator[Sequence[Task], Sequence[Reply], RoundResult]


class RoundStrategy(Protocol):
    """What the round loop asks of a system's strategy."""

    def start(self, clients: Sequence[ClientInfo]) -> Exchanges:
        """Round 0: build the initial state, and evaluate it if wanted."""

    def round(self, number: int, state: ServerState, clients: Sequence[ClientInfo]) -> Exchanges:
        """Round `number` (1-based)."""

    def finish(self, state: ServerState, clients: Sequence[ClientInfo]) -> Exchanges:
        """After the last round: closing evaluations; the returned state is the run's result."""
