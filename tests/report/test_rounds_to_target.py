"""Rounds to a target, from frames written here: the first evaluated round that reaches it, and the best."""

import math

import pandas as pd

from fedsuite.reports.rounds_to_target import course_of

NAN = math.nan
ROUNDS = pd.DataFrame(
    {
        "round": [0, 1, 2, 3, 4],
        "rmse": [0.9, NAN, 0.3, NAN, 0.3],
        "local-steps": [NAN, 10.0, 20.0, 30.0, 40.0],
    }
)
NO_FINAL = pd.DataFrame({"round": pd.Series(dtype="int64")})


def test_rounds_without_an_evaluation_are_left_out() -> None:
    course = course_of(ROUNDS, NO_FINAL, "rmse")
    assert course is not None
    assert course.rounds.tolist() == [0, 2, 4] and course.values.tolist() == [0.9, 0.3, 0.3]
    assert math.isnan(course.steps[0]) and course.steps[1:].tolist() == [20, 40]


def test_the_first_round_that_reaches_a_value_and_the_first_best() -> None:
    course = course_of(ROUNDS, NO_FINAL, "rmse")
    assert course is not None
    assert course.reached(0.3, lower=True) == 1 and course.reached(0.2, lower=True) is None
    assert course.reached(0.9) == 0 and course.reached(1.0) is None
    assert course.best(lower=True) == 1 and course.best() == 0


def test_final_scores_count_for_a_round_that_had_none() -> None:
    final = pd.DataFrame({"round": [3], "rmse": [0.1]})
    course = course_of(ROUNDS, final, "rmse")
    assert course is not None
    assert course.rounds.tolist() == [0, 2, 3, 4] and course.values[2] == 0.1
    assert course.steps[2] == 30


def test_final_scores_of_an_evaluated_or_of_another_rounds_model_do_not() -> None:
    evaluated = pd.DataFrame({"round": [4], "rmse": [0.1]})
    another = pd.DataFrame({"round": [3], "rmse": [0.1], "selected-round": [2.0]})
    for final in (evaluated, another):
        course = course_of(ROUNDS, final, "rmse")
        assert course is not None and course.rounds.tolist() == [0, 2, 4]
        assert 0.1 not in course.values


def test_a_metric_that_was_never_recorded_has_no_course() -> None:
    assert course_of(ROUNDS, NO_FINAL, "mae") is None
