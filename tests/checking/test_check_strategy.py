"""check_strategy accepts our strategies, and names what is wrong with others."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fedsuite.arrays import Share
from fedsuite.averaging.exchange import Exchange
from fedsuite.averaging.robust import MERGE_RULES, Merge
from fedsuite.checking import ContractError, check_strategy, echo
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.message_keys import TERMS
from fedsuite.errors import RunFailed
from fedsuite.federation import (
    ClientInfo,
    RateSchedule,
    Reply,
    RoundResult,
    RoundStrategy,
    Selection,
    ServerState,
    Task,
)
from strategies.house_averaging import HouseAveraging
from strategies.language_encoder_fedavg import LanguageEncoderFedAvg
from strategies.local_only import LocalOnly
from strategies.neighbour_averaging import Costs, NeighbourAveraging
from strategies.participation import Drawn, SeenAndUnseen
from strategies.sequential_averaging import SequentialAveraging
from tests.schedules import make_schedule

INITIAL = {"encoder.w": np.ones((2, 3), np.float32), "critic.b": np.zeros((), np.float32)}
SCORED = {"val_seen.count": 2, "val_unseen.count": 3, "training-houses": 1}
HOUSES = [ClientInfo(p, f"house {p}", 5 + p, {**SCORED, "unseen": p % 2}) for p in range(4)]
BEST = Selection(("val_unseen.sr", "val_unseen.spl"), patience=3)


def house(task: Task) -> Reply:
    """As a house scores an agent."""
    if task.kind == "train":
        return replace(echo(task), metrics={"steps": float(task.config["steps"]), "loss": 1.0})
    scores = {f"{s}.{m}": 0.5 for s in ("val_seen", "val_unseen") for m in ("sr", "spl", "ne")}
    return replace(echo(task), metrics={**scores, "val_seen.count": 2, "val_unseen.count": 3})


def silo(task: Task) -> Reply:
    """As a vehicle tells of its one silo."""
    names = [f"{label}.{k}-error" for label in ("own", "average") for k in ("squared", "absolute")]
    names += (
        [*TERMS, "sub-network-distance"] if task.kind == "train" else ["own.count", "average.count"]
    )
    return replace(echo(task), metrics={f"silo.{task.partition}.{n}": 2.0 for n in names})


HOUSE: dict[str, Any] = {
    "initial": INITIAL,
    "steps": lambda client: 2,
    "rate": RateSchedule(1.5, 0.5, 3),
}
OURS: dict[str, Callable[[], RoundStrategy]] = {
    "averaging": lambda: HouseAveraging(**HOUSE, selection=BEST),
    "every value": lambda: HouseAveraging(
        **HOUSE, participation=Drawn(0.6, 1), merge=Merge(MERGE_RULES["median"]), max_share=0.5,
        speaker={"s": np.ones(2, np.float32)},
        exchange=Exchange(Share(("encoder.",))), writes=True, discloses=True,
    ),
    "in turn": lambda: SequentialAveraging(**HOUSE, participation=Drawn(0.6, 1)),
    "hands on": lambda: SequentialAveraging(**HOUSE, in_turn=False, hands_on=True),
    "both": lambda: SequentialAveraging(**HOUSE, hands_on=True, selection=BEST),
    "language encoder": lambda: LanguageEncoderFedAvg(
        **HOUSE, exchange=Exchange(Share(("encoder.",))), selection=BEST, newest=True, writes=True,
        participation=SeenAndUnseen(Drawn(0.5, 1), Drawn(0.5, 1, "seen")),
    ),
    "local only": lambda: LocalOnly(INITIAL, HOUSE["steps"], Drawn(0.6, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", OURS)
def test_house_strategies(name: str) -> None:
    check_strategy(OURS[name](), HOUSES, rounds=3, answer=house, make=OURS[name])


@pytest.mark.parametrize("kind", ["ring", "star", "local"])
def test_neighbour_averaging(kind: str) -> None:
    initial = {
        **INITIAL,
        "n.running_mean": np.zeros(2, np.float32),
        "n.running_var": np.ones(2, np.float32),
    }
    silos_of, costs = [[0], [1], [2], [3]], Costs(50.0, 4.0, 800)

    def make() -> RoundStrategy:
        return NeighbourAveraging(CDLConfig(), initial, silos_of, make_schedule(4, kind), costs)

    check_strategy(make(), HOUSES, answer=silo, make=make)


# --- wrong ones ---------------------------------------------------------------------------------


@dataclass
class Mean(RoundStrategy):
    """Right in all; those below break one clause each."""

    selection: Selection = Selection()
    rate: RateSchedule | None = None

    def start(self, clients):
        yield []
        return RoundResult(ServerState({"w": np.zeros(3, np.float32)}, {"seen": 0}))

    def train(self, number, state, clients):
        replies = yield self.tasks(number, state, clients)
        return self.merged(state, replies)

    def tasks(self, number, state, clients):
        return [Task(c.partition, "train", state.arrays) for c in clients]

    def merged(self, state, replies):
        w = np.mean([r.arrays["w"] for r in replies], axis=0).astype(np.float32)
        return RoundResult(replace(state, arrays={"w": w}), {"loss": 0.5})


def wrong(**methods: Any) -> RoundStrategy:
    return type("Wrong", (Mean,), methods)()


def tasks_of(**changes: Any) -> Callable[..., Any]:
    return lambda self, number, state, clients: [
        replace(task, **changes) for task in Mean.tasks(self, number, state, clients)
    ]


def two_kinds(self, number, state, clients):
    first, *rest = Mean.tasks(self, number, state, clients)
    return [replace(first, kind="evaluate"), *rest]


def no_generator(self, clients):
    return RoundResult(ServerState({}))


def counting(self, number, state, clients):
    self.count = getattr(self, "count", 0) + 1
    return [Task(c.partition, "train", state.arrays, {"count": self.count}) for c in clients]


def in_place(self, state, replies):
    state.arrays["w"] += 1
    return Mean.merged(self, state, replies)


def scalars_in_place(self, state, replies):
    state.scalars["seen"] += 1
    return Mean.merged(self, replace(state, scalars={**state.scalars}), replies)


def reply_in_place(self, state, replies):
    replies[0].arrays["w"] *= 2
    return Mean.merged(self, state, replies)


def keyed(self, state, replies):
    by_partition = {r.partition: r for r in replies}
    return Mean.merged(self, state, [by_partition[p] for p in range(4)])


def result(**changes: Any) -> Callable[..., Any]:
    return lambda self, state, replies: RoundResult(replace(state, **changes))


CORPUS: dict[str, tuple[RoundStrategy, str]] = {
    "no generator": (wrong(start=no_generator), "start(0): expected a generator, got RoundResult"),
    "single task": (wrong(tasks=lambda self, n, s, c: Task(0, "train", s.arrays)), "expected a list of Task"),
    "unknown partition": (wrong(tasks=tasks_of(partition=9)), "partitions among [0, 1, 2, 3], got [9"),
    "twice": (wrong(tasks=tasks_of(partition=1)), "one task for each partition, got [1, 1"),
    "kind": (wrong(tasks=tasks_of(kind="fit")), "train or evaluate, got ['fit']"),
    "two kinds": (wrong(tasks=two_kinds), "one kind an exchange, train or evaluate, got ['evaluate', 'train']"),
    "evaluation": (wrong(tasks=tasks_of(kind="evaluate", returns={"w": (3,)})), "asking for no arrays"),
    "config": (wrong(tasks=tasks_of(config={"a": [1]})), "config, a: expected an int, float, str or bool"),
    "reserved": (wrong(tasks=tasks_of(config={"round": 1})), "got ['round']; likely cause: the loop fills"),
    "arrays": (wrong(tasks=tasks_of(arrays={"w": 1.0})), "array w: expected a plain numpy array"),
    "a list": (wrong(tasks=tasks_of(arrays=[np.ones(3)])), "a dict of arrays by name, got list"),
    "names": (wrong(tasks=tasks_of(arrays={"a\nb": np.ones(1)})), "names of one line"),
    "state changed": (wrong(merged=in_place), "train(1): expected "),
    "scalars changed": (wrong(merged=scalars_in_place), "the state that was given as it was"),
    "reply changed": (wrong(merged=reply_in_place), "arrays of tasks and replies as they were"),
    "hidden count": (wrong(tasks=counting), "the same tasks as the first time"),
    "lost reply": (wrong(merged=keyed), "when a reply is lost (or may_lose=False): train(1): expected no exc"),
    "no result": (wrong(merged=lambda self, s, r: s), "expected a RoundResult with a ServerState"),
    "shape": (wrong(merged=result(arrays={"w": np.ones(4, np.float32)})), "array w: expected ((3,), 'float32')"),
    "type": (wrong(merged=result(arrays={"w": np.ones(3)})), "float64 arithmetic without .astype"),
    "names of state": (wrong(merged=result(arrays={})), "expected arrays ['w'], got []"),
    "nan": (wrong(merged=result(arrays={"w": np.full(3, np.nan, np.float32)})), "expected finite arrays"),
    "loop's scalars": (wrong(merged=result(scalars={})), "use dataclasses.replace(state, ...)"),
    "scalars": (wrong(start=lambda self, c: scalars()), "state.scalars, n: expected an int, float"),
    "metric": (wrong(merged=lambda self, s, r: RoundResult(s, {"x": np.nan})), "metric x: expected a finite"),
    "selection": (Mean(Selection(("score",))), "evaluate(1): expected the selection's ('score',), got []"),
    "text": (Mean(Selection("score")), "a text where a tuple is meant"),  # type: ignore[arg-type]
    "rate": (Mean(rate=RateSchedule(decay=2.0)), "rate: expected rate > 0"),
}  # fmt: skip


def scalars():
    yield []
    return RoundResult(ServerState({}, {"n": np.int64(1)}))


def test_a_right_one_is_accepted_and_may_fail_for_a_lost_reply() -> None:
    check_strategy(Mean(), HOUSES, make=Mean)

    def refusing(self, state, replies):
        if len(replies) < 4:
            raise RunFailed("all are needed")
        return Mean.merged(self, state, replies)

    check_strategy(wrong(merged=refusing), HOUSES)
    check_strategy(wrong(merged=keyed), HOUSES, may_lose=False)


@pytest.mark.parametrize("name", CORPUS)
def test_wrong_ones_are_told_what_is_wrong(name: str) -> None:
    strategy, complaint = CORPUS[name]
    with pytest.raises(ContractError) as caught:
        check_strategy(strategy, HOUSES)
    assert complaint in str(caught.value) and "likely cause: " in str(caught.value)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"arrays": {}}, "expected arrays ['w'], got []"),
        ({"num_examples": -1}, "a whole number of examples >= 0, got -1"),
        ({"metrics": {"steps": 0.5}}, "a whole number of steps >= 0"),
    ],
)
def test_made_up_replies_are_held_to_the_contract_too(
    given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ContractError) as caught:
        check_strategy(Mean(), HOUSES, answer=lambda task: replace(echo(task), **given))
    assert str(caught.value).startswith("train(1), reply of partition 0") and complaint in str(
        caught.value
    )


def test_a_strategy_is_led_as_the_round_loop_leads_it() -> None:
    """Steps of training add up, the rate begins at its start, and the best round is told to those who train."""
    seen: list[tuple[int, int, float, object]] = []

    def answer(task: Task) -> Reply:
        config = task.config
        if task.kind == "train" and task.partition == 3:
            seen.append(
                (config["round"], config["steps"], config["rate"], config.get("best-round"))
            )
        return replace(echo(task), metrics={"steps": 2} if task.kind == "train" else {"steps": 5})

    class Scoring(Mean):
        def train(self, number, state, clients):
            told = {
                "steps": state.scalars["local-steps"],
                "rate": state.scalars["server-learning-rate"],
            }
            replies = yield [Task(c.partition, "train", state.arrays, told) for c in clients]
            return self.merged(state, replies)

        def evaluate(self, number, state, clients):
            yield [Task(c.partition, "evaluate", state.arrays) for c in clients]
            return RoundResult(state, {"score": 1.0} if number else {})  # none before round 1

    scoring = Scoring(Selection(("score",)), RateSchedule(1.5))
    check_strategy(scoring, HOUSES, rounds=3, answer=answer)
    assert seen[:3] == [(1, 0, 1.5, None), (2, 8, 1.5, 1), (3, 16, 1.5, 2)]


def test_state_that_only_the_object_has_is_found_by_a_new_object() -> None:
    class Remembering(Mean):
        def train(self, number, state, clients):
            self.last = getattr(self, "last", 0) if number > 1 else 0
            yield [Task(c.partition, "train", state.arrays, {"last": self.last}) for c in clients]
            self.last = number
            return RoundResult(state)

    check_strategy(Remembering(), HOUSES)  # from its first round on it is the same each time
    with pytest.raises(ContractError, match=r"train\(2\): expected the same tasks"):
        check_strategy(Remembering(), HOUSES, make=Remembering)
