"""Federated pre-exploration played by hand: the server's side alone, against houses that only pretend."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from fedsuite.averaging.step import Step
from fedsuite.federation import (
    ClientInfo,
    Reply,
    RoundResult,
    RoundStrategy,
    ServerState,
    Task,
)
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.stages import visit_steps
from strategies.participation import Drawn, Published
from tests.harness import changed
from tests.strategies.played import Federation, made

CONFIG = changed(FedVLNConfig(), 
    stage="pre-explore", share="language-encoder", num_rounds=6, evaluate_every=1, participation_rate=0.5,
    local_epochs=1, batch_size=64, client_optimizer="kept", server_learning_rate=2.0,
)  # fmt: skip
ENV_BASED = changed(CONFIG, method="local-only", share="agent")
FULL = changed(CONFIG, share="agent")
WITH_SEEN = changed(CONFIG, seen_participation_rate=0.4)
ENCODER = {
    "encoder.words": np.array([[0.25, -1.0]], np.float32),
    "encoder.bias": np.array([0.5], np.float32),
}
REST = {"decoder.cell": np.ones((2, 2), np.float32), "critic.value": np.zeros(3, np.float32)}
AGENT = {**REST, **ENCODER}
SPEAKER = {"encoder.lstm": np.ones(2, np.float32), "decoder.out": np.ones((), np.float32)}
# Sampled paths and val-unseen instructions of the eleven R2R houses: the order of the published lists.
PATHS = (2186, 542, 2540, 97, 2614, 352, 1214, 880, 593, 6472, 1320)
INSTRUCTIONS = (300, 180, 300, 45, 279, 18, 294, 300, 141, 300, 192)


def house(partition: int, examples: int, unseen: bool, instructions: int = 0) -> ClientInfo:
    details = {"unseen": int(unseen), "training-houses": int(examples > 0)}
    split = "val_unseen" if unseen else "val_seen"
    if instructions:
        details[f"{split}.count"] = instructions
    return ClientInfo(partition, f"house {partition}", examples, details)


R2R = [house(i, n, True, m) for i, (n, m) in enumerate(zip(PATHS, INSTRUCTIONS, strict=True))]
# Five seen houses, six unseen ones; the last has no sampled path and one house no instructions.
MIXED = [house(p, 20 + 7 * p, False, 3) for p in range(5)]
MIXED += [house(5 + p, 100 + 90 * p, True, 4 + p if p != 1 else 0) for p in range(5)]
MIXED += [house(10, 0, True, 9)]


def moved(task: Task) -> dict[str, np.ndarray]:
    """What a house makes of the arrays it got: a shift that depends on house and array."""
    shift = {name: 0.1 * (task.partition + 1) + 0.01 * len(name) for name in task.arrays}
    return {k: (v + np.float32(shift[k])).astype(np.float32) for k, v in task.arrays.items()}


class Houses(Federation):
    """`rates` gives the success rate of all houses in turn, one per evaluation."""

    def __init__(self, clients: Sequence[ClientInfo], rates: Sequence[float] = ()) -> None:
        super().__init__(clients)
        self.rates, self.evaluations = rates, -1

    def answer(self, task: Task) -> Reply:
        client = self.clients[task.partition]
        if task.kind == "train":
            metrics = {"steps": float(task.config["steps"]), "loss": 1.0}
            return Reply(task.partition, moved(task), client.num_examples, metrics)
        count = int(client.details.get("val_unseen.count", 0))
        if "keep" in task.config or not count:
            return Reply(task.partition, {}, 0, {"loss": 0.0})
        rate = self.rates[self.evaluations] if self.rates else task.partition / 100
        metrics = {
            "val_unseen.sr": rate,
            "val_unseen.spl": rate / 2,
            "val_unseen.count": float(count),
        }
        return Reply(task.partition, {}, count, metrics)

    def evaluate(self, strategy: RoundStrategy, number: int, state: ServerState) -> RoundResult:
        self.evaluations += 1
        return super().evaluate(strategy, number, state)

    def finish(self, strategy: RoundStrategy, number: int, state: ServerState) -> RoundResult:
        self.evaluations += 1
        return super().finish(strategy, number, state)


def started(
    config: FedVLNConfig, clients: Sequence[ClientInfo], rates: Sequence[float] = ()
) -> tuple[RoundStrategy, Houses, RoundResult]:
    """The state before round 1, and its scores."""
    federation, strategy = Houses(clients, rates), made(config, AGENT, SPEAKER)
    return strategy, federation, federation.evaluate(strategy, 0, federation.start(strategy))


def one_round(
    config: FedVLNConfig, clients: Sequence[ClientInfo], number: int = 1
) -> tuple[RoundResult, RoundResult, list[list[Task]]]:
    """Before, after training, and the exchanges of training and evaluation."""
    strategy, federation, first = started(config, clients)
    federation.pop()
    result = federation.train(strategy, number, first.state)
    federation.evaluate(strategy, number, result.state)
    return first, result, federation.pop()


# --- before round 1 ---------------------------------------------------------------------------


@pytest.mark.parametrize("config", [CONFIG, FULL, ENV_BASED, WITH_SEEN])
def test_every_house_gets_the_agent_once_and_unseen_ones_the_speaker(config: FedVLNConfig) -> None:
    _, federation, first = started(config, MIXED)
    received_once, scored = federation.exchanges
    assert [t.partition for t in received_once] == list(range(11))
    spoken = {f"speaker.{k}" for k in SPEAKER}
    for task in received_once:
        assert task.kind == "evaluate" and task.config == {"keep": True} and task.returns == {}
        assert set(task.arrays) == set(AGENT) | (spoken if task.partition >= 5 else set())
        assert all(np.array_equal(task.arrays[k], v) for k, v in AGENT.items())
    assert [t.partition for t in scored] == [5, 7, 8, 9, 10]
    assert all(t.arrays == {} and t.config == {} and t.returns == {} for t in scored)
    share = {0: {}, 1: ENCODER, 3: AGENT}[{ENV_BASED: 0, FULL: 3}.get(config, 1)]
    assert set(first.state.arrays) == set(share)


# --- what is sent, and what is merged ---------------------------------------------------------


def by_hand(start: np.ndarray, locals_: Sequence[tuple[int, np.ndarray]], eta: float) -> np.ndarray:
    """w + eta sum_k n_k / n (w_k - w), number by number in float64, then float32."""
    total = float(sum(n for n, _ in locals_))
    out = np.zeros_like(start)
    for at in np.ndindex(start.shape):
        w = float(start[at])
        delta = 0.0
        for n, local in locals_:
            delta += n / total * (float(local[at]) - w)
        out[at] = np.float32(w + eta * delta)
    return out


@pytest.mark.parametrize(
    ("config", "sent"), [(CONFIG, ENCODER), (FULL, AGENT), (ENV_BASED, {}), (WITH_SEEN, ENCODER)]
)
@pytest.mark.parametrize("eta", [1.0, 0.7])
def test_a_round_by_hand(config: FedVLNConfig, sent: dict[str, np.ndarray], eta: float) -> None:
    config = changed(config, server_learning_rate=eta)
    first, result, (trained, scored) = one_round(config, MIXED)
    counts = {c.partition: c.num_examples for c in MIXED}
    for task in trained:
        assert task.kind == "train" and set(task.config) == {"steps"}
        assert task.config["steps"] == -(-counts[task.partition] // 64)
        # No `returns`: exactly the names and shapes of what was sent may come back.
        assert task.returns is None and set(task.arrays) == set(sent)
        assert all(np.array_equal(task.arrays[k], first.state.arrays[k]) for k in sent)
    assert set(result.state.arrays) == set(sent)
    for name, start in sent.items():
        local = [(counts[t.partition], moved(t)[name]) for t in trained]
        assert np.array_equal(result.state.arrays[name], by_hand(start, local, eta))
    modules = {name.split(".")[0] for name in sent}
    assert result.metrics["modules-sent"] == len(modules) == {0: 0, 2: 1, 4: 3}[len(sent)]
    assert result.metrics["houses-per-client"] == 1
    assert result.metrics["local-steps"] == sum(int(t.config["steps"]) for t in trained)
    assert [t.partition for t in scored] == [5, 7, 8, 9, 10]


def test_sequential_houses_start_where_their_predecessor_moved_the_encoder() -> None:
    config = changed(CONFIG, aggregation="sequential", participation_rate=1.0)
    first, result, exchanges = one_round(config, MIXED)
    trained = [t for tasks in exchanges[:-1] for t in tasks]
    assert [len(tasks) for tasks in exchanges] == [1] * 5 + [5]
    counts = [MIXED[t.partition].num_examples for t in trained]
    for name in ENCODER:
        want = first.state.arrays[name]
        for task, n in zip(trained, counts, strict=True):
            assert set(task.arrays) == set(ENCODER) and np.allclose(
                task.arrays[name], want, atol=1e-6
            )
            want = want + 2.0 * n / sum(counts) * (moved(task)[name] - want)
        assert np.allclose(result.state.arrays[name], want, atol=1e-6)


# --- who takes part ---------------------------------------------------------------------------


def test_seen_and_unseen_houses_draw_apart() -> None:
    """At their own rates: int(.5 * 5) unseen houses with paths, int(.4 * 5) seen ones."""
    sets = []
    for number in range(1, 9):
        trained = one_round(WITH_SEEN, MIXED, number)[2][0]
        ids = [t.partition for t in trained]
        assert ids == sorted(ids)
        seen, unseen = [i for i in ids if i < 5], [i for i in ids if i >= 5]
        assert len(seen) == 2 and len(unseen) == 2 and 10 not in unseen
        want = Drawn(0.5, WITH_SEEN.seed, "unseen")(Step(round=number), MIXED[5:10])
        assert unseen == [c.partition for c in want]
        alone = one_round(CONFIG, MIXED[5:], number)[2][0]
        assert unseen == [t.partition for t in alone]
        sets.append((seen, [i - 5 for i in unseen]))
    assert any(seen != unseen for seen, unseen in sets)
    assert len({str(s) for s in sets}) > 4


def test_published_lists_and_steps_of_the_eleven_houses() -> None:
    """Lists of Python's generator with seed 10, six of eleven; steps as in the logs of the official release."""
    config = changed(CONFIG, participation="published", participation_rate=0.6)
    assert [visit_steps(config, n) for n in PATHS] == [35, 9, 40, 2, 41, 6, 19, 14, 10, 102, 21]
    draw = random.Random(10)
    for number in (1, 2, 3):
        want = draw.sample(range(11), 6)
        assert [c.partition for c in Published(0.6)(Step(round=number), R2R)] == want
        trained = one_round(config, R2R, number)[2][0]
        assert [t.partition for t in trained] == want
        assert [t.config["steps"] for t in trained] == [visit_steps(config, PATHS[i]) for i in want]


# --- evaluation and the end -------------------------------------------------------------------


def test_scores_are_means_over_the_unseen_houses_instructions() -> None:
    _, _, first = started(CONFIG, MIXED)
    counts = {5: 4, 7: 6, 8: 7, 9: 8, 10: 9}
    want = sum(n * p / 100 for p, n in counts.items()) / sum(counts.values())
    assert first.metrics["val_unseen.sr"] == pytest.approx(want)
    assert first.metrics["val_unseen.count"] == sum(counts.values())
    assert not any(k.startswith("val_seen") for k in first.metrics)


@pytest.mark.parametrize(("config", "names"), [(CONFIG, set(ENCODER)), (FULL, set(AGENT))])
def test_the_newest_encoder_is_sent_for_evaluation_if_asked_for(
    config: FedVLNConfig, names: set[str]
) -> None:
    config = changed(config, personal_encoder="newest", selection="best-val-unseen")
    _, result, (_, scored) = one_round(config, MIXED)
    for task in scored:
        assert set(task.arrays) == names and task.returns == {} and task.config == {}
        assert all(np.array_equal(task.arrays[k], result.state.arrays[k]) for k in names)


RATES = (0.10, 0.30, 0.20, 0.40, 0.40, 0.39, 0.1, 0.0)  # rounds 0 to 6 and the closing


@pytest.mark.parametrize("config", [CONFIG, FULL, ENV_BASED])
def test_houses_export_the_best_round(config: FedVLNConfig) -> None:
    config = changed(config, selection="best-val-unseen")
    strategy, federation, result = started(config, MIXED, RATES)
    kept = []
    for number in range(1, 7):
        federation.pop()
        result = federation.train(strategy, number, result.state)
        assert all(set(t.arrays) == set(result.state.arrays) for t in federation.trained)
        result = federation.evaluate(strategy, number, result.state)
        assert result.state.scalars["best-round"] == (1, 1, 3, 3, 3, 3)[number - 1]
        kept.append(dict(result.state.arrays))
    federation.pop()
    closing = federation.finish(strategy, 6, result.state)
    (asked,) = federation.pop()
    assert [t.partition for t in asked] == list(range(11))
    assert all(
        {**t.config, "score": 0} == {"export-round": 3, "write": False, "score": 0} and not t.arrays
        for t in asked
    )
    assert set(closing.state.arrays) == set(kept[2])
    assert all(np.array_equal(closing.state.arrays[k], v) for k, v in kept[2].items())


def test_without_a_choice_the_last_round_is_exported() -> None:
    """The last that there was: a run may end early."""
    strategy, federation, result = started(changed(CONFIG, submission=True), MIXED)
    for number in (6, 4):
        federation.pop()
        federation.finish(strategy, number, result.state)
        (asked,) = federation.pop()
        assert all(
            {**t.config, "score": 0} == {"export-round": number, "write": True, "score": 0}
            for t in asked
        )
