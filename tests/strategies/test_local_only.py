"""Every house for itself: agents never mix."""

import numpy as np
import pytest

from fedsuite.averaging.step import Step
from fedsuite.federation import ClientInfo, Reply, Task
from fedsuite.vln.config import FedVLNConfig
from strategies.local_only import own_prefix
from strategies.participation import Drawn
from tests.harness import changed
from tests.strategies.played import Federation, made

CONFIG = changed(
    FedVLNConfig(),
    method="local-only",
    num_rounds=3,
    participation_rate=0.5,
    batch_size=4,
    local_epochs=1,
)
INITIAL = {"w": np.zeros(2, np.float32)}
CLIENTS = [
    ClientInfo(0, "a", 4, {"val_seen.count": 2}),
    ClientInfo(1, "b", 8, {}),
    ClientInfo(2, "c", 8, {"val_seen.count": 4}),
    ClientInfo(3, "d", 8, {"val_seen.count": 2}),
    ClientInfo(4, "unseen e", 0, {"val_unseen.count": 1}),
    ClientInfo(5, "unseen f", 0, {"val_unseen.count": 3}),
]


class Houses(Federation):
    """Partition p adds p + 1 to its agent; a walk succeeds as often as the agent's weight says."""

    def answer(self, task: Task) -> Reply:
        client = self.clients[task.partition]
        if task.kind == "train":
            arrays = {k: v + np.float32(task.partition + 1) for k, v in task.arrays.items()}
            metrics = {"steps": float(task.config["steps"]), "loss": float(task.partition)}
            return Reply(task.partition, arrays, client.num_examples, metrics)
        score, metrics = float(task.arrays["w"][0]), {}
        for split in ("val_seen", "val_unseen"):
            if count := client.details.get(f"{split}.count", 0):
                metrics |= {f"{split}.sr": score + task.partition, f"{split}.count": float(count)}
        return Reply(task.partition, {}, 1, metrics)


@pytest.fixture
def trained():
    """State after three rounds, with the tasks of each."""
    strategy, federation, results = made(CONFIG, INITIAL), Houses(CLIENTS), []
    state = federation.start(strategy)
    federation.pop()
    for number in (1, 2, 3):
        results.append(federation.train(strategy, number, state))
        state = results[-1].state
    return strategy, state, federation.pop(), results


def test_all_training_houses_start_alike():
    federation = Houses(CLIENTS)
    state = federation.start(made(CONFIG, INITIAL))
    assert not any(federation.exchanges)
    assert set(state.arrays) == {f"{p}/w" for p in range(4)}
    assert all(np.array_equal(a, INITIAL["w"]) for a in state.arrays.values())


def test_participants_are_those_of_federated_training(trained):
    _, _, exchanges, _ = trained
    for number, tasks in enumerate(exchanges, 1):
        want = Drawn(0.5, CONFIG.seed)(Step(round=number), CLIENTS[:4])
        assert [t.partition for t in tasks] == [c.partition for c in want]
        assert [t.config["steps"] for t in tasks] == [c.num_examples // 4 for c in want]


def test_agents_stay_apart(trained):
    """After k visits the agent of house p is k (p + 1): nobody else's steps are in it."""
    _, state, exchanges, _ = trained
    visits = [t.partition for tasks in exchanges for t in tasks]
    assert len(set(visits)) > 2
    for p in range(4):
        assert state.arrays[f"{own_prefix(p)}w"].tolist() == [visits.count(p) * (p + 1)] * 2
    for tasks in exchanges:
        assert all(set(t.arrays) == {"w"} for t in tasks)


def test_prefixes_of_ten_and_more_houses_do_not_mix():
    many = Houses([ClientInfo(p, str(p), 4) for p in range(12)])
    strategy = made(changed(CONFIG, participation_rate=1.0), INITIAL)
    arrays = many.train(strategy, 1, many.start(strategy)).state.arrays
    assert all(set(t.arrays) == {"w"} for t in many.trained) and len(many.trained) == 12
    assert [arrays[f"{p}/w"][0] for p in range(12)] == list(range(1, 13))


def test_steps_are_counted_and_losses_averaged_over_steps(trained):
    _, state, exchanges, results = trained
    assert state.scalars["local-steps"] == sum(t.config["steps"] for ts in exchanges for t in ts)
    steps = {t.partition: t.config["steps"] for t in exchanges[0]}
    want = sum(p * n for p, n in steps.items()) / sum(steps.values())
    assert results[0].metrics["train.loss"] == pytest.approx(want)


def test_rounds_are_not_scored_and_have_no_server_rate(trained):
    """Own agents walk in the end only."""
    strategy, state, _, results = trained
    federation = Houses(CLIENTS)
    assert federation.evaluate(strategy, 3, state).metrics == {} and not any(federation.exchanges)
    assert "server-learning-rate" not in {**state.scalars, **results[-1].metrics}


def test_closing_evaluation(trained):
    """Own agents on own val-seen instructions; every agent in every unseen house, mean over agents."""
    strategy, state, _, _ = trained
    federation = Houses(CLIENTS)
    result = federation.finish(strategy, 3, state)
    exchanges = federation.exchanges
    own = [state.arrays[f"{p}/w"][0] for p in range(4)]
    assert [[t.partition for t in tasks] for tasks in exchanges] == [[0, 2, 3], *[[4, 5]] * 4]
    for p, tasks in enumerate(exchanges[1:]):
        assert all(t.arrays["w"][0] == own[p] for t in tasks)
    seen = (2 * own[0] + 4 * (own[2] + 2) + 2 * (own[3] + 3)) / 8
    unseen = np.mean(own) + (1 * 4 + 3 * 5) / 4
    assert result.metrics == pytest.approx({"val_seen.sr": seen, "val_unseen.sr": unseen})
    assert result.state.arrays is state.arrays
