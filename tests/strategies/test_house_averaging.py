"""One round of federated training, with houses that only pretend to train."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuite.federation import ClientInfo, Reply, RoundResult, ServerState, Task
from fedsuite.vln.config import FedVLNConfig
from strategies.house_averaging import HouseAveraging
from strategies.participation import published_participants

CONFIG = FedVLNConfig(
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


class Federation:
    """Answers tasks: partition p adds p + 1 to every array, and notes what it was asked."""

    def __init__(self, clients, lost=()):
        self.clients, self.lost = {c.partition: c for c in clients}, set(lost)
        self.exchanges: list[list[Task]] = []

    def answer(self, task: Task) -> Reply:
        client = self.clients[task.partition]
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
        steps = float(task.config["steps"])
        return Reply(
            task.partition,
            arrays,
            client.num_examples,
            {"steps": steps, "loss": 1.0 + task.partition},
        )

    def drive(self, generator) -> RoundResult:
        try:
            tasks = next(generator)
            while True:
                self.exchanges.append(list(tasks))
                there = [t for t in tasks if t.partition not in self.lost]
                tasks = generator.send(sorted(map(self.answer, there), key=lambda r: r.partition))
        except StopIteration as end:
            return end.value

    @property
    def trained(self) -> list[Task]:
        return [t for tasks in self.exchanges for t in tasks if t.kind == "train"]


def run_round(config, clients, state=None, number=1, lost=()):
    federation, strategy = Federation(clients, lost), HouseAveraging(config, INITIAL)
    if state is None:
        state = federation.drive(strategy.start(clients)).state
        federation.exchanges.clear()
    return federation.drive(strategy.round(number, state, clients)), federation


# --- aggregation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "starts", "exchanges"),
    [("parallel", [0, 0, 0], 1), ("sequential", [0, 0.5, 1.5], 3)],
)
def test_both_modes_end_at_four_and_a_half(mode, starts, exchanges):
    """p = (1/4, 1/4, 1/2), eta 2, clients add 1, 2, 3; where they start is what differs."""
    result, federation = run_round(replace(CONFIG, aggregation=mode), houses(4, 4, 8))
    assert result.state.arrays["w"].tolist() == [4.5, 4.5] and result.state.arrays["b"] == 4.5
    assert [t.arrays["w"][0] for t in federation.trained] == starts
    assert len(federation.exchanges) == exchanges
    assert result.metrics["update-norm"] == pytest.approx(4.5 * 3**0.5)
    assert INITIAL["w"].tolist() == [0, 0]


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_a_lost_house(mode):
    """Parallel: the others' weights relative to one another; sequential: it moves nothing."""
    config = replace(CONFIG, aggregation=mode, server_learning_rate=1.0)
    result, _ = run_round(config, houses(4, 4, 8), lost=[2])
    want = 1.5 if mode == "parallel" else 0.25 * 1 + 0.25 * 2
    assert result.state.arrays["w"].tolist() == [want, want]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=7), st.floats(0.1, 3))
def test_parallel_is_the_weighted_mean_times_eta(examples, eta):
    config = replace(CONFIG, server_learning_rate=eta)
    result, _ = run_round(config, houses(*examples))
    mean = np.average(np.arange(len(examples)) + 1, weights=examples)
    assert result.state.arrays["w"] == pytest.approx(np.full(2, eta * mean), rel=1e-5)


# --- who trains, and how long -----------------------------------------------------------------


def test_steps_are_those_of_the_local_epochs():
    config = replace(CONFIG, local_epochs=3)
    result, federation = run_round(config, houses(4, 5, 1))
    assert [t.config["steps"] for t in federation.trained] == [3, 4, 1]
    assert result.state.scalars["local-steps"] == 8 and result.metrics["local-steps"] == 8.0


def test_training_metrics_are_means_over_steps():
    result, _ = run_round(replace(CONFIG, local_epochs=3), houses(4, 5, 1))
    assert result.metrics["train.loss"] == pytest.approx((3 * 1 + 4 * 2 + 1 * 3) / 8)
    assert "train.steps" not in result.metrics


def test_houses_without_training_samples_do_not_train():
    clients = [*houses(8, 8), ClientInfo(2, "unseen", 0, {"val_unseen.count": 5})]
    _, federation = run_round(CONFIG, clients)
    assert {t.partition for t in federation.trained} == {0, 1}


@pytest.mark.parametrize(("rate", "count"), [(0.2, 2), (0.05, 1), (1.0, 10)])
def test_number_of_participants(rate, count):
    config = replace(CONFIG, participation_rate=rate)
    seen = [
        tuple(t.partition for t in run_round(config, houses(*[8] * 10), number=n)[1].trained)
        for n in (1, 2, 3)
    ]
    assert {len(set(s)) for s in seen} == {count}
    assert len(set(seen)) > 1 or count == 10


def test_published_participants_train_in_their_order_when_sequential():
    clients = houses(*[64] * 61)
    config = replace(
        CONFIG, participation_rate=0.2, participation="published", aggregation="sequential"
    )
    _, federation = run_round(config, clients, number=1)
    order = [t.partition for t in federation.trained]
    assert order == [36, 2, 27, 30, 60, 0, 13, 29, 52, 31, 17, 41]
    assert order == [c.partition for c in published_participants(clients, 0.2, 1)]


def test_weights_follow_the_house_and_not_the_order_of_replies():
    """Replies come sorted by partition; the published order is not."""
    clients = [ClientInfo(p, "", 1 + p) for p in range(61)]
    config = replace(
        CONFIG, participation_rate=0.2, participation="published", server_learning_rate=1.0
    )
    result, federation = run_round(config, clients)
    chosen = np.array([t.partition for t in federation.trained])
    want = np.average(chosen + 1, weights=chosen + 1)
    assert result.state.arrays["w"][0] == pytest.approx(want, rel=1e-6)


def all_houses(houses: int, steps: int) -> list[ClientInfo]:
    """The single client of a centralised run; `steps` is what its houses would make with everybody taking part."""
    return [ClientInfo(0, "all", 40, {"training-houses": houses, "local-steps": steps})]


@pytest.mark.parametrize(
    ("houses", "local_steps", "rate", "steps"),
    [(61, 1130, 0.2, 222), (10, 100, 0.25, 20), (3, 3, 0.2, 1), (3, 1, 0.2, 1), (5, 35, 1.0, 35)],
)
def test_centralised_steps_are_those_of_the_average_round(houses, local_steps, rate, steps):
    """int(r N) of N houses, 12 of 61 for example, and never none."""
    config = replace(CONFIG, method="centralised", participation_rate=rate)
    result, federation = run_round(config, all_houses(houses, local_steps))
    (task,) = federation.trained
    assert task.partition == 0 and task.config["steps"] == steps
    assert result.state.scalars["local-steps"] == steps


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_the_centralised_agent_goes_on_from_where_its_client_left_it(mode):
    """A server rate is for averages: it neither scales the only client's steps nor decays."""
    config = replace(
        CONFIG, method="centralised", aggregation=mode, server_learning_rate=6.0,
        server_decay_steps=1, server_learning_rate_decay=0.5,
    )  # fmt: skip
    first, _ = run_round(config, all_houses(3, 9))
    assert first.state.arrays["w"].tolist() == [1, 1]
    second, _ = run_round(config, all_houses(3, 9), first.state, number=2)
    assert second.state.arrays["w"].tolist() == [2, 2]


# --- optimizer state --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fresh", "kept"])
def test_private_optimizers_are_never_sent(kind):
    _, federation = run_round(replace(CONFIG, client_optimizer=kind), houses(4, 4))
    assert all(set(t.arrays) == {"w", "b"} and t.returns is None for t in federation.trained)


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_a_shared_optimizer_is_handed_from_house_to_house_and_round_to_round(mode):
    config = replace(CONFIG, client_optimizer="shared", aggregation=mode)
    clients = houses(4, 8, 12)  # 1, 2 and 3 steps
    first, federation = run_round(config, clients)
    names = {"optimizer.w", "optimizer.b", "optimizer.step"}
    chain = [t.arrays.get("optimizer.step") for t in federation.trained]
    assert chain == [None, 1, 3] and len(federation.exchanges) == 3
    assert federation.trained[0].returns == {
        "w": (2,),
        "b": (),
        "optimizer.w": (2,),
        "optimizer.b": (),
        "optimizer.step": (),
    }
    assert set(first.state.arrays) == {"w", "b", *names}
    assert first.state.arrays["optimizer.step"] == 6
    second, federation = run_round(config, clients, first.state, number=2)
    assert [t.arrays["optimizer.step"] for t in federation.trained] == [6, 7, 9]
    assert second.state.arrays["optimizer.w"].tolist() == [12, 12]
    unshared, _ = run_round(replace(config, client_optimizer="fresh"), clients)
    assert np.array_equal(first.state.arrays["w"], unshared.state.arrays["w"])


def test_a_lost_house_passes_the_shared_optimizer_by():
    config = replace(CONFIG, client_optimizer="shared")
    result, federation = run_round(config, houses(4, 8, 12), lost=[1])
    assert [t.arrays.get("optimizer.step") for t in federation.trained] == [None, 1, 1]
    assert result.state.arrays["optimizer.step"] == 4


def test_the_result_of_a_run_is_the_agent_alone():
    config = replace(CONFIG, client_optimizer="shared")
    result, federation = run_round(config, houses(4))
    final = federation.drive(HouseAveraging(config, INITIAL).finish(result.state, houses(4)))
    assert set(final.state.arrays) == {"w", "b"}


# --- server learning rate ---------------------------------------------------------------------


def test_eta_decays_when_enough_steps_are_done():
    """4 steps a round, a decay every 10: after rounds 3 (12 steps), 5 (20), 8 (32), used from the next on."""
    config = replace(
        CONFIG, server_learning_rate=2.0, server_learning_rate_decay=0.5, server_decay_steps=10
    )
    clients, state, used = houses(8, 8), None, []
    for number in range(1, 10):
        result, _ = run_round(config, clients, state, number)
        used.append(result.metrics["server-learning-rate"])
        state = result.state
    assert used == [2, 2, 2, 1, 1, 0.5, 0.5, 0.5, 0.25]


def test_eta_decays_once_a_round_at_most():
    config = replace(CONFIG, server_learning_rate_decay=0.5, server_decay_steps=1)
    result, _ = run_round(config, houses(40, 40))
    assert result.state.scalars["server-learning-rate"] == 1.0


# --- evaluation -------------------------------------------------------------------------------

MIXED = [
    ClientInfo(0, "a", 8, {"val_seen.count": 3}),
    ClientInfo(1, "b", 8, {}),
    ClientInfo(2, "c", 8, {"val_seen.count": 1, "val_unseen.count": 2}),
    ClientInfo(3, "d", 0, {"val_unseen.count": 6}),
]


def test_scores_are_means_over_instructions():
    federation = Federation(MIXED)
    result = federation.drive(HouseAveraging(CONFIG, INITIAL).start(MIXED))
    handed_out, tasks = federation.exchanges
    assert handed_out == [] and [t.partition for t in tasks] == [0, 2, 3]
    assert all(t.kind == "evaluate" and t.returns == {} for t in tasks)
    assert result.metrics == pytest.approx(
        {
            "val_seen.sr": (3 * 0.0 + 1 * 0.2) / 4,
            "val_seen.count": 4,
            "val_unseen.sr": (2 * 0.2 + 6 * 0.3) / 8,
            "val_unseen.count": 8,
        }
    )


@pytest.mark.parametrize(("every", "evaluated"), [(5, [5, 10]), (4, [4, 8, 10]), (0, [10])])
def test_which_rounds_are_evaluated(every, evaluated):
    config, state, found = replace(CONFIG, evaluate_every=every), None, []
    for number in range(1, 11):
        result, federation = run_round(config, MIXED, state, number)
        state = result.state
        asked = any(t.kind == "evaluate" for tasks in federation.exchanges for t in tasks)
        assert asked == ("val_seen.sr" in result.metrics)
        found += [number] * asked
    assert found == evaluated


def test_the_merged_agent_is_evaluated_without_optimizer_state():
    config = replace(CONFIG, evaluate_every=1, client_optimizer="shared")
    result, federation = run_round(config, MIXED)
    for task in federation.exchanges[-1]:
        assert set(task.arrays) == {"w", "b"}
        assert np.array_equal(task.arrays["w"], result.state.arrays["w"])


@pytest.mark.parametrize("wanted", [False, True])
def test_submissions_are_asked_for_at_the_end_only(wanted):
    config = replace(CONFIG, submission=wanted, evaluate_every=1)
    result, federation = run_round(config, MIXED)
    asked = [t for t in federation.exchanges[-1] if t.kind == "evaluate"]
    assert [t.config for t in asked] == [{}] * 3
    federation.exchanges.clear()
    federation.drive(HouseAveraging(config, INITIAL).finish(result.state, MIXED))
    asked = [t for tasks in federation.exchanges for t in tasks]
    assert [t.config for t in asked] == [{"write": True}] * 3 * wanted


def test_a_resumed_round_is_the_same_round():
    config = replace(CONFIG, participation_rate=0.5)
    clients = houses(*range(4, 14))
    state, results = None, []
    for number in (1, 2, 3):
        results.append(run_round(config, clients, state, number)[0])
        state = results[-1].state
    stored = ServerState(dict(results[1].state.arrays), dict(results[1].state.scalars))
    again = run_round(config, clients, stored, 3)[0]
    assert again.metrics == results[2].metrics
    assert np.array_equal(again.state.arrays["w"], results[2].state.arrays["w"])
