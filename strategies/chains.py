"""A round in which chains of clients train side by side, the members of one after one another (FedSeq, 2201.10899).

A chain of one client is what parallel averaging has. Beside the model, arrays under `control.` may travel (SCAFFOLD); they
are no part of what the next member starts from.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsuite.arrays import Arrays, Named
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.averaging.merging import Merged, capped, shares
from fedsuite.averaging.stored import picked
from fedsuite.federation import Asking, ClientInfo, Clients, Reply, Task


@dataclass(frozen=True)
class ChainEnd:
    """The model that a chain has come to, and the replies of its members so far."""

    arrays: Named
    replies: tuple[Reply, ...] = ()

    def after(self, reply: Reply) -> "ChainEnd":
        return ChainEnd(without(reply.arrays, CONTROL), (*self.replies, reply))

    @property
    def lowest(self) -> int:
        """Partition that the chain's place in sums goes by."""
        return min(reply.partition for reply in self.replies)

    @property
    def depth(self) -> int:
        """Optimizer steps of all members, of which each had to wait for the one before; 0 if clients count none."""
        return sum(int(reply.metrics.get("steps", 0)) for reply in self.replies)


def train_chains(
    start: Arrays, chains: Sequence[Clients], ask: Callable[[ClientInfo, Arrays], Task]
) -> Asking[tuple[list[ChainEnd], list[Reply]]]:
    """Where every chain ended, without those of which nobody replied; all replies by partition.

    ask: the task of a client that is to start from a model. Who is lost is left out of its chain.
    """
    ends = [ChainEnd(start) for _ in chains]
    longest = max(map(len, chains))
    in_turn = sum(map(len, chains)) if longest > 1 else 0
    for place in range(longest):
        who = [(n, chain[place]) for n, chain in enumerate(chains) if place < len(chain)]
        models = [ends[n].arrays for n, _ in who]
        starts = [model if isinstance(model, dict) else dict(model) for model in models]
        tasks = [replace(ask(c, w), in_turn=in_turn) for (_, c), w in zip(who, starts, strict=True)]
        number = {client.partition: n for n, client in who}
        for reply in (yield tasks):
            ends[number[reply.partition]] = ends[number[reply.partition]].after(reply)
    reached = sorted((end for end in ends if end.replies), key=lambda end: end.lowest)
    replies = [reply for end in reached for reply in end.replies]
    return reached, sorted(replies, key=lambda reply: reply.partition)


def training_task(client: ClientInfo, arrays: Arrays, steps: int) -> Task:
    """Asks for `steps` optimizer steps from these arrays. A reply has to say how many were made, one at least and no more
    than asked for: counts, means and the decay of the server's rate go by it."""
    most = {"steps": (min(1, steps), steps)}
    return Task(client.partition, "train", arrays, {"steps": steps}, needs=("steps",), ranges=most)


def without(arrays: Named, prefix: str) -> Named:
    """The arrays whose names do not start with the prefix."""
    return picked(arrays, [name for name in arrays if not name.startswith(prefix)])


def trainers(clients: Clients) -> list[ClientInfo]:
    """Clients that have something to train on."""
    return [c for c in clients if c.num_examples > 0]


def weights_of_chains(chosen: Clients, ends: Sequence[ChainEnd], most: float = 1.0) -> np.ndarray:
    """Sums of p_k over the members who replied, adding up to 1, none above `most`."""
    order = weights_of(chosen)
    got = np.array([sum(order[r.partition] for r in end.replies) for end in ends])
    return capped(got / got.sum(), most)


def weights_of(chosen: Clients, most: float = 1.0) -> dict[int, float]:
    """p_k by partition, none above `most`."""
    weights = capped(shares([c.num_examples for c in chosen]), most)
    return {c.partition: float(w) for c, w in zip(chosen, weights, strict=True)}


def admitted_of(merged: Merged, ends: Sequence[ChainEnd]) -> dict[int, float]:
    """By partition how much say a client had, where it was not all that its weight gives it."""
    if not len(merged.admitted):
        return {}
    pairs = zip(ends, merged.admitted, strict=True)
    return {r.partition: float(x) for end, x in pairs if x < 1 for r in end.replies}
