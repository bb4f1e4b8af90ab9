"""What rules are told in a round, and what is kept of them."""

from pathlib import Path

import pytest

from fedsuite.averaging.merging import MergeRule
from fedsuite.averaging.robust import MEAN, Merge
from fedsuite.averaging.step import Step
from fedsuite.errors import RunFailed
from fedsuite.runs.versions import Checkpoints, RunState
from strategies.house_averaging import HouseAveraging
from strategies.local_only import LocalOnly
from strategies.participation import Own
from strategies.sequential_averaging import SequentialAveraging
from tests.strategies.played import INITIAL, Houses, houses

SEED = 5


class Noting:
    """A rule of both kinds that counts its rounds, draws a number, and notes its steps."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.drawn: list[float] = []

    def note(self, step: Step) -> None:
        self.steps.append(step)
        self.drawn.append(float(step.rng.random()))
        step.state["rounds"] = step.state.get("rounds", 0) + 1
        step.metrics["rounds"] = float(step.state["rounds"])

    def choose(self, step, clients, count):
        self.note(step)
        return clients[:count]

    def merge(self, server, clients, weights, tolerated, step):
        self.note(step)
        return MEAN.combine(server, clients, weights, tolerated)


def strategy_of(kind, choosing, **more):
    rate = Own(choosing.choose, 0.5, "mine:choose")
    return kind(INITIAL, lambda c: 1, participation=rate, seed=SEED, remembers=True, **more)


@pytest.mark.parametrize("kind", [HouseAveraging, LocalOnly, SequentialAveraging])
def test_what_a_rule_keeps_and_is_told_outlives_a_checkpoint(kind, tmp_path: Path):
    """Round 2 from a checkpoint's state is round 2; replies are those of whoever trained, with their samples and round."""
    rule = Noting()
    federation = Houses(houses(4, 6, 8, 2))
    strategy = strategy_of(kind, rule)
    state = federation.start(strategy)
    first = federation.train(strategy, 1, state)
    assert first.metrics["participation.rounds"] == 1.0 and rule.steps[0].replies == {}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save_state(RunState(1, first.state, "x"))
    stored = checkpoints.latest()
    assert stored is not None
    ends = [federation.train(strategy, 2, s) for s in (first.state, stored.state)]
    assert rule.drawn[1] == rule.drawn[2] != rule.drawn[0]
    assert [e.metrics["participation.rounds"] for e in ends] == [2.0, 2.0]
    for step in rule.steps[1:]:
        assert step.round == 2 and step.replies.keys() == {0, 1}
        assert step.replies[1]["num-examples"] == 6.0 and step.replies[1]["round"] == 1.0
        assert "loss" in step.replies[0]
    for a, b in zip(*(e.state.rules.items() for e in ends), strict=True):
        assert a[0] == b[0] and a[1].tobytes() == b[1].tobytes() and a[1].dtype == b[1].dtype


def test_every_rule_has_a_stream_and_a_state_of_its_own():
    choosing, merging = Noting(), Noting()
    federation = Houses(houses(4, 6))
    strategy = strategy_of(HouseAveraging, choosing, merge=Merge(MergeRule(merging.merge)))
    state = federation.start(strategy)
    for number in (1, 2, 3):
        result = federation.train(strategy, number, state)
        state = result.state
    assert len({*choosing.drawn, *merging.drawn}) == 6
    assert int(state.rules["merge.rounds"]) == int(state.rules["participation.rounds"]) == 3
    assert result.metrics["merge.rounds"] == 3.0


def test_rules_of_the_project_keep_nothing():
    federation = Houses(houses(4, 6))
    strategy = HouseAveraging(INITIAL, lambda c: 1)
    assert federation.train(strategy, 1, federation.start(strategy)).state.rules == {}


def test_a_rule_that_takes_four_arguments_gets_no_step():
    """Those with a fifth do, whether it has a default or not."""
    seen = []

    def four(server, clients, weights, tolerated):
        seen.append(4)
        return MEAN.combine(server, clients, weights, tolerated)

    def five(server, clients, weights, tolerated, step=None):
        seen.append(step.round)
        return MEAN.combine(server, clients, weights, tolerated)

    federation = Houses(houses(4, 6))
    for combine in (four, five):
        strategy = HouseAveraging(INITIAL, lambda c: 1, merge=Merge(MergeRule(combine)))
        federation.train(strategy, 3, federation.start(strategy))
    assert seen == [4, 3]


@pytest.mark.parametrize("value", [float("nan"), "text", None])
def test_a_state_that_cannot_be_kept_ends_the_run(value):
    def merge(server, clients, weights, tolerated, step):
        step.state["mine"] = value
        return MEAN.combine(server, clients, weights, tolerated)

    federation = Houses(houses(4, 6))
    strategy = HouseAveraging(INITIAL, lambda c: 1, merge=Merge(MergeRule(merge)))
    with pytest.raises(RunFailed, match=r"round 1: federation\.merge: 'mine'.*correct the rule"):
        federation.train(strategy, 1, federation.start(strategy))


def test_a_step_without_a_seed_has_no_stream():
    with pytest.raises(ValueError, match="seed"):
        Step(round=1).rng  # noqa: B018


@pytest.mark.parametrize(
    "chosen", [[], [0, 0], [7], ["north"]], ids=["nobody", "twice", "unknown", "a name"]
)
def test_who_cannot_be_chosen(chosen):
    rule = Own(lambda step, clients, count: chosen, 1.0, "mine:choose")
    with pytest.raises(
        RunFailed, match=r"federation\.participation: mine:choose chose .* each once"
    ):
        rule(Step(round=2), houses(4, 6))
    assert [c.partition for c in Own(lambda s, c, n: [1, 0], 1.0, "")(Step(), houses(4, 6))] == [
        1,
        0,
    ]
