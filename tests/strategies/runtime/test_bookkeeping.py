"""What every run counts: local steps, the server's learning rate, the best state so far, patience."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsuite.arrays import Arrays
from fedsuite.federation import RateSchedule, Reply, RoundStrategy, Selection, ServerState
from strategies.runtime.bookkeeping import after_evaluation, after_training, begin, is_over

# --- the best state -----------------------------------------------------------------------------

TWO = Selection(("score", "second"))
Pair = tuple[float, float] | None  # None: the round was not evaluated


def model_of(number: int) -> Arrays:
    return {"w": np.full(2, number, np.float32)}


def played(selection: Selection, scores: list[Pair]) -> tuple[ServerState, list[bool]]:
    """State after rounds 0, 1, ..., and which of them were the best so far."""
    state, improved = ServerState(model_of(0)), []
    for number, pair in enumerate(scores):
        metrics = dict(zip(("score", "second"), pair, strict=True)) if pair else {"train.loss": 1.0}
        state = replace(state, arrays=model_of(number))
        state, better = after_evaluation(selection, number, state, metrics)
        improved.append(better)
    return state, improved


def first_argmax(scores: list[Pair]) -> int:
    """Slow twin: look at every round."""
    best, at = (-1.0, -1.0), -1
    for number, pair in enumerate(scores):
        if pair is not None and (pair[0] > best[0] or (pair[0] == best[0] and pair[1] > best[1])):
            best, at = pair, number
    return at


# Few values, so that ties are common.
PAIR = st.tuples(st.sampled_from([0.0, 0.25, 0.5]), st.sampled_from([0.0, 0.125, 0.25]))


@given(scores=st.lists(st.none() | PAIR, max_size=9), first=PAIR)
def test_the_earliest_of_the_best_is_kept(scores: list[Pair], first: tuple[float, float]) -> None:
    every = [first, *scores]
    state, improved = played(TWO, every)
    best = first_argmax(every)
    assert state.scalars["best-round"] == best
    assert (state.scalars["best-score.0"], state.scalars["best-score.1"]) == every[best]
    assert state.best["w"].tolist() == [best, best] and state.selected is state.best
    assert improved == [first_argmax(every[: n + 1]) == n for n in range(len(every))]


def test_the_first_score_decides_and_the_second_among_equals() -> None:
    state, _ = played(TWO, [(0.2, 0.1), (0.1, 0.9), (0.2, 0.15), (0.2, 0.15)])
    assert state.scalars["best-round"] == 2


def test_more_than_ten_scores_are_compared_in_their_order() -> None:
    names = tuple(f"m{i}" for i in range(12))
    first = dict.fromkeys(names, 1.0)
    state, _ = after_evaluation(Selection(names), 0, ServerState({}), first)
    worse, better = {**first, "m2": 0.5, "m11": 9.0}, {**first, "m11": 1.5}
    assert not after_evaluation(Selection(names), 1, state, worse)[1]
    assert after_evaluation(Selection(names), 1, state, better)[1]


def test_scores_of_nothing_still_choose_a_round() -> None:
    """A speaker's BLEU-2 may be 0 for long."""
    assert played(TWO, [(0.0, 0.0), (0.0, 0.0)])[0].scalars["best-round"] == 0


def test_a_run_that_takes_the_last_round_keeps_nothing() -> None:
    state, improved = played(Selection(), [(0.1, 0.1), (0.2, 0.2)])
    assert state.best == {} and state.scalars == {} and improved == [False, False]
    assert state.selected is state.arrays


@given(st.lists(st.none() | PAIR, max_size=12), st.integers(1, 4))
def test_patience_counts_evaluations_without_a_better_one(
    scores: list[Pair], patience: int
) -> None:
    state, improved = played(replace(TWO, patience=patience), scores)
    seen = [better for pair, better in zip(scores, improved, strict=True) if pair is not None]
    since = seen[::-1].index(True) if True in seen else 0
    assert is_over(replace(TWO, patience=patience), state) == (since >= patience)
    assert not is_over(TWO, state)


# --- steps and the server's rate ----------------------------------------------------------------


class Counting(RoundStrategy):
    def __init__(self, rate: RateSchedule | None) -> None:
        self.rate = rate


def rounds(rate: RateSchedule | None, *steps: list[int]) -> tuple[ServerState, list[dict]]:
    """The state after rounds whose clients made these steps, and what each round reports."""
    strategy = Counting(rate)
    state, reported = begin(strategy, ServerState({}, {"own": 3})), []
    for made in steps:
        replies = [Reply(p, {}, 1, {"steps": float(n)}) for p, n in enumerate(made)]
        state, metrics = after_training(strategy, state, replies, max(made, default=0))
        reported.append(metrics)
    return state, reported


def test_steps_add_up_over_clients_and_rounds() -> None:
    state, reported = rounds(None, [3, 4], [], [5])
    assert state.scalars == {"own": 3, "local-steps": 12, "serial-depth": 9}
    first, third = (
        {"local-steps": 7.0, "serial-depth": 4.0},
        {"local-steps": 12.0, "serial-depth": 9.0},
    )
    assert reported == [first, {}, third]


def test_clients_that_report_no_steps_are_not_counted() -> None:
    strategy = Counting(RateSchedule())
    state = begin(strategy, ServerState({}))
    assert after_training(strategy, state, [Reply(0, {}, 1, {"loss": 1.0})], 0) == (state, {})


def test_eta_decays_when_enough_steps_are_done() -> None:
    """4 steps a round, a decay every 10: after rounds 3 (12 steps), 5 (20), 8 (32), used from the next on."""
    state, reported = rounds(RateSchedule(2.0, 0.5, 10), *[[2, 2]] * 9)
    used = [m["server-learning-rate"] for m in reported]
    assert used == [2, 2, 2, 1, 1, 0.5, 0.5, 0.5, 0.25]
    assert state.scalars["server-learning-rate"] == 0.25


def test_eta_decays_once_a_round_at_most() -> None:
    state, _ = rounds(RateSchedule(2.0, 0.5, 1), [10, 10])
    assert state.scalars["server-learning-rate"] == 1.0
