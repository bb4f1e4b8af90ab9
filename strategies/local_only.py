"""The baseline without a federation: every house trains its own agent, nothing is merged.

Houses take part by the same draws and make the same numbers of steps as in federated training. For the comparison on
unseen houses the server keeps every house's agent (names `<partition>/<array>`) and in the end has each of them walk in all
unseen houses; the score is the mean over the agents.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.averaging.merging import weighted_means
from fedsuite.federation import (
    ClientInfo,
    Clients,
    Exchanges,
    Reply,
    RoundResult,
    RoundStrategy,
    ServerState,
    Task,
)
from strategies.averaging import training_means
from strategies.chains import trainers, training_task
from strategies.participation import Participation, everybody
from strategies.scoring import by_split, under_split
from strategies.steps import PARTICIPATION, Steps


def own_prefix(partition: int) -> str:
    """Where a house's agent stands in the server state."""
    return f"{partition}/"


@dataclass(frozen=True)
class LocalOnly(RoundStrategy):
    """One agent per training house, all from the same initial arrays; steps: a client's optimizer steps per round;
    seed, remembers: as of an Averaging."""

    initial: Arrays
    steps: Callable[[ClientInfo], int]
    participation: Participation = everybody
    seed: int = 0
    remembers: bool = False

    def start(self, clients: Clients) -> Exchanges:
        """Every training house gets the same initial agent."""
        yield []  # nothing to ask the clients
        arrays: Arrays = {}
        for client in trainers(clients):
            arrays |= with_prefix(self.initial, own_prefix(client.partition))
        return RoundResult(ServerState(arrays))

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        steps = Steps(self.seed, number, state, self.remembers)
        chosen = self.participation(steps.of(PARTICIPATION), trainers(clients))
        replies = yield [training_task(c, _own(state, c.partition), self.steps(c)) for c in chosen]
        arrays = dict(state.arrays)
        for reply in replies:
            arrays |= with_prefix(reply.arrays, own_prefix(reply.partition))
        after = replace(state, arrays=arrays, rules=steps.kept(replies))
        return RoundResult(after, training_means(replies) | steps.metrics)

    def kinds(self, clients: Clients) -> Sequence[Clients]:
        return by_split(clients)

    def finish(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """Own agent on own val-seen instructions; every agent on all unseen houses."""
        own = [(c, c.partition) for c in trainers(clients)]
        metrics = _split_means((yield _walks(state, own, "val_seen")), "val_seen")
        per_agent: list[dict[str, float]] = []
        for trainer in trainers(clients):
            everywhere = [(c, trainer.partition) for c in clients]
            replies = yield _walks(state, everywhere, "val_unseen")
            per_agent.append(_split_means(replies, "val_unseen"))
        return RoundResult(state, metrics | weighted_means(per_agent, [1.0] * len(per_agent)))


def _own(state: ServerState, partition: int) -> Arrays:
    return under_prefix(state.arrays, own_prefix(partition))


def _walks(state: ServerState, who: Sequence[tuple[ClientInfo, int]], split: str) -> list[Task]:
    """Each client with the agent of a partition, where it has instructions of the split."""
    return [
        Task(client.partition, "evaluate", _own(state, owner), {}, {})
        for client, owner in who
        if client.details.get(f"{split}.count", 0)
    ]


def _split_means(replies: Sequence[Reply], split: str) -> dict[str, float]:
    """Means over instructions, named `<split>.<metric>`."""
    own = [under_split(r.metrics, split) for r in replies]
    counts = [m.pop("count", 0.0) for m in own]
    return {f"{split}.{k}": v for k, v in weighted_means(own, counts).items()}
