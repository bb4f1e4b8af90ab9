"""What a client answers: a message that does not fit its table is refused by the field's name."""

from typing import Any

import pytest

from fedsuite.errors import InputError
from fedsuite.messages.instructions import MOST_ROUNDS, OneOf, Rounds, Text, Whole, query, task
from fedsuite.roster.software import facts

TRAIN = task(10, {"steps": Whole(1, 5)}, {"keep": OneOf((True, False))})
HONEST: dict[str, Any] = {"round": 3, "checkpoint-rounds": "0,2", "steps": 5, "last-trained": 2}
GONE = object()


def test_what_a_run_asks_is_answered() -> None:
    TRAIN.check(HONEST, "train message")
    TRAIN.check({**HONEST, "keep": False, "best-round": 0}, "train message")
    query(10).check({"resume-round": 10, "run-key": "a" * 32, **facts("b" * 64)}, "query message")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("round", -1, "round = -1, expected a whole number from 0 to 10"),
        ("round", 10**18, "round = 1000000000000000000, expected"),
        ("round", True, "round = True, expected a whole number"),
        ("round", 3.0, "round = 3.0, expected"),
        ("round", "3", "round = '3', expected"),
        ("round", GONE, "round = missing, expected a whole number from 0 to 10"),
        ("steps", 6, "steps = 6, expected a whole number from 1 to 5"),
        ("steps", 0, "steps = 0"),
        ("keep", 1, "keep = 1, expected True or False"),
        ("checkpoint-rounds", "", "checkpoint-rounds = ''"),
        ("checkpoint-rounds", "0,11", "expected at most 64 ascending rounds from 0 to 10"),
        ("checkpoint-rounds", "2,0", "checkpoint-rounds = '2,0'"),
        ("checkpoint-rounds", "2,2", "checkpoint-rounds = '2,2'"),
        ("checkpoint-rounds", "-1", "checkpoint-rounds = '-1'"),
        ("checkpoint-rounds", "٣", "checkpoint-rounds"),
        ("checkpoint-rounds", "9" * 5000, "(cut)"),
        ("noisy", False, "noisy = unknown, expected no field but best-round"),
        ("a\x1b[31mb", 1, "unknown"),
    ],
)
def test_anything_else_is_refused_in_one_line(name: str, value: Any, expected: str) -> None:
    lie = {k: v for k, v in {**HONEST, name: value}.items() if v is not GONE}
    with pytest.raises(InputError) as refused:
        TRAIN.check(lie, "train message")
    line = str(refused.value)
    assert line.startswith("train message: the server's message has ") and expected in line
    assert line.isprintable() and len(line) < 400


def test_a_rollback_to_a_round_that_cannot_be_is_refused() -> None:
    for number in (-1, 11, 10**18):
        with pytest.raises(InputError, match="resume-round"):
            query(10).check({"resume-round": number}, "query message")
    with pytest.raises(InputError, match="resume-round = missing"):
        query(10).check({}, "query message")


def test_lists_of_rounds_and_texts_are_bounded() -> None:
    most = 10**6
    assert Rounds(most).holds(",".join(map(str, range(MOST_ROUNDS))))
    assert not Rounds(most).holds(",".join(map(str, range(MOST_ROUNDS + 1))))
    assert Text(3).holds("abc") and not Text(3).holds("abcd") and not Text().holds(b"a")
