"""The baseline without a federation: every house trains its own agent, nothing is merged.

Houses take part by the same draws and make the same numbers of steps as in federated training. For the comparison on
unseen houses the server keeps every house's agent (names `<partition>/<array>`) and in the end has each of them walk in all
unseen houses; the score is the mean over the agents.
"""

from collections.abc import Sequence

from fedsuite.aggregation import weighted_means
from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.federation import ClientInfo, Exchanges, Reply, RoundResult, ServerState, Task
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.stages import visit_steps
from strategies.participation import participants
from strategies.scoring import under_split


def own_prefix(partition: int) -> str:
    """Where a house's agent stands in the server state."""
    return f"{partition}/"


class LocalOnly:
    """One agent per training house, all from the same initial arrays."""

    def __init__(self, config: FedVLNConfig, initial: Arrays) -> None:
        self.config, self.initial = config, initial

    def start(self, clients: Sequence[ClientInfo]) -> Exchanges:
        """Every training house gets the same initial agent."""
        yield []  # nothing to ask the clients
        arrays: Arrays = {}
        for client in _trainers(clients):
            arrays |= with_prefix(self.initial, own_prefix(client.partition))
        return RoundResult(ServerState(arrays, {"local-steps": 0}))

    def round(self, number: int, state: ServerState, clients: Sequence[ClientInfo]) -> Exchanges:
        """Participants go on with their own agents."""
        c = self.config
        chosen = participants(_trainers(clients), c.participation_rate, c.seed, number)
        replies = yield [
            Task(
                client.partition,
                "train",
                under_prefix(state.arrays, own_prefix(client.partition)),
                {"steps": visit_steps(c, client.num_examples)},
            )
            for client in chosen
        ]
        arrays = dict(state.arrays)
        for reply in replies:
            arrays |= with_prefix(reply.arrays, own_prefix(reply.partition))
        steps = [r.metrics["steps"] for r in replies]
        total = int(state.scalars["local-steps"]) + int(sum(steps))
        means = weighted_means([r.metrics for r in replies], steps)
        metrics = {f"train.{k}": v for k, v in means.items() if k != "steps"}
        return RoundResult(
            ServerState(arrays, {"local-steps": total}), {**metrics, "local-steps": float(total)}
        )

    def finish(self, state: ServerState, clients: Sequence[ClientInfo]) -> Exchanges:
        """Own agent on own val-seen instructions; every agent on all unseen houses."""
        metrics: dict[str, float] = {}
        seen = yield self._tasks(state, [(c, c.partition) for c in _trainers(clients)], "val_seen")
        metrics |= _split_means(seen, "val_seen")
        unseen = [c for c in clients if c.details.get("val_unseen.count", 0)]
        per_agent: list[dict[str, float]] = []
        for trainer in _trainers(clients):
            tasks = self._tasks(state, [(c, trainer.partition) for c in unseen], "val_unseen")
            per_agent.append(_split_means((yield tasks), "val_unseen"))
        metrics |= weighted_means(per_agent, [1.0] * len(per_agent))
        return RoundResult(state, metrics)

    def _tasks(
        self, state: ServerState, who: Sequence[tuple[ClientInfo, int]], split: str
    ) -> list[Task]:
        return [
            Task(
                client.partition,
                "evaluate",
                under_prefix(state.arrays, own_prefix(owner)),
                {},
                {},
            )
            for client, owner in who
            if client.details.get(f"{split}.count", 0)
        ]


def _trainers(clients: Sequence[ClientInfo]) -> list[ClientInfo]:
    return [c for c in clients if c.num_examples > 0]


def _split_means(replies: Sequence[Reply], split: str) -> dict[str, float]:
    """Means over instructions, named `<split>.<metric>`."""
    own = [under_split(r.metrics, split) for r in replies]
    counts = [m.pop("count", 0.0) for m in own]
    return {f"{split}.{k}": v for k, v in weighted_means(own, counts).items()}
