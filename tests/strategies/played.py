"""Strategies played by hand: made as a run makes them, their generators driven without loop, messages or clients."""

from collections.abc import Sequence
from unittest import mock

import numpy as np

from fedsuite.arrays import Arrays
from fedsuite.federation import (
    ClientInfo,
    Exchanges,
    Reply,
    RoundResult,
    RoundStrategy,
    ServerState,
    Task,
)
from fedsuite.roster.members import Roster
from fedsuite.vln.config import FedVLNConfig
from simulations.fedvln import server
from strategies.runtime import bookkeeping
from tests.harness import changed


def made(config: FedVLNConfig, initial: Arrays, speaker: Arrays | None = None) -> RoundStrategy:
    """The strategy that a run with these settings has, for a model of a few numbers."""
    models = {"starting_model": lambda *_: initial, "starting_speaker": lambda *_: speaker or {}}
    with mock.patch.multiple(server, **models):
        return server.make_strategy(config, Roster(()))


class Federation:
    """Answers tasks as `answer` says (None: that client is lost), and notes them in `exchanges`."""

    def __init__(self, clients: Sequence[ClientInfo]) -> None:
        self.clients = {c.partition: c for c in clients}
        self.exchanges: list[list[Task]] = []
        self.replies: list[Reply] = []

    def answer(self, task: Task) -> Reply | None:
        raise NotImplementedError

    def drive(self, generator: Exchanges) -> RoundResult:
        """A step to its end; `replies` are then those to its training tasks."""
        self.replies = []
        try:
            tasks = next(generator)
            while True:
                self.exchanges.append(list(tasks))
                answers = [(t, r) for t in tasks if (r := self.answer(t)) is not None]
                self.replies += [r for t, r in answers if t.kind == "train"]
                tasks = generator.send(sorted((r for _, r in answers), key=lambda r: r.partition))
        except StopIteration as end:
            assert isinstance(end.value, RoundResult)
            return end.value

    def start(self, strategy: RoundStrategy) -> ServerState:
        """The state before round 1."""
        return bookkeeping.begin(
            strategy, self.drive(strategy.start(list(self.clients.values()))).state
        )

    def train(self, strategy: RoundStrategy, number: int, state: ServerState) -> RoundResult:
        """A round's training, with what the loop counts."""
        result = self.drive(strategy.train(number, state, list(self.clients.values())))
        after, counts = bookkeeping.after_training(
            strategy, result.state, self.replies, result.depth
        )
        return RoundResult(after, {**result.metrics, **counts}, result.admitted, result.depth)

    def evaluate(self, strategy: RoundStrategy, number: int, state: ServerState) -> RoundResult:
        """Scores after a round, and the state that remembers the best."""
        result = self.drive(strategy.evaluate(number, state, list(self.clients.values())))
        best, _ = bookkeeping.after_evaluation(
            strategy.selection, number, result.state, result.metrics
        )
        return RoundResult(best, result.metrics)

    def finish(self, strategy: RoundStrategy, number: int, state: ServerState) -> RoundResult:
        """The end of a run after round `number`."""
        return self.drive(strategy.finish(number, state, list(self.clients.values())))

    @property
    def trained(self) -> list[Task]:
        """All training tasks so far."""
        return [t for tasks in self.exchanges for t in tasks if t.kind == "train"]

    def pop(self) -> list[list[Task]]:
        """The exchanges since the last call."""
        out, self.exchanges = self.exchanges, []
        return out


# --- houses that add --------------------------------------------------------------------------

CONFIG = changed(
    FedVLNConfig(),
    num_rounds=10,
    evaluate_every=5,
    participation_rate=1.0,
    client_optimizer="fresh",
    batch_size=4,
    local_epochs=1,
)
INITIAL = {"w": np.zeros(2, np.float32), "b": np.zeros((), np.float32)}


def houses(*examples: int) -> list[ClientInfo]:
    return [ClientInfo(p, f"house {p}", n) for p, n in enumerate(examples)]


class Houses(Federation):
    """Partition p adds p + 1 to every array; those in `lost` never answer."""

    def __init__(self, clients, lost=()):
        super().__init__(clients)
        self.lost = set(lost)

    def answer(self, task: Task) -> Reply | None:
        client = self.clients[task.partition]
        if task.partition in self.lost:
            return None
        if task.kind == "evaluate":
            metrics = {}
            for split in ("val_seen", "val_unseen"):
                if count := client.details.get(f"{split}.count", 0):
                    metrics |= {f"{split}.sr": task.partition / 10, f"{split}.count": float(count)}
            return Reply(task.partition, {}, sum(map(int, client.details.values())), metrics)
        arrays = {
            k: v + np.float32(task.partition + 1) for k, v in task.arrays.items() if "." not in k
        }
        for name, shape in (task.returns or {}).items():
            if name.startswith("optimizer."):
                start = task.arrays.get(name, np.zeros(shape))
                arrays[name] = (start + task.config["steps"]).astype(np.float32)
        metrics = {"steps": float(task.config["steps"]), "loss": 1.0 + task.partition}
        return Reply(task.partition, arrays, client.num_examples, metrics)


def run_round(config, clients, state=None, number=1, lost=()):
    """A round's training, from the initial state unless one is given."""
    federation, strategy = Houses(clients, lost), made(config, INITIAL)
    if state is None:
        state = federation.start(strategy)
        federation.pop()
    return federation.train(strategy, number, state), federation
