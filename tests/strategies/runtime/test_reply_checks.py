from typing import Any

import numpy as np
import pytest

from fedsuite.federation import Task
from strategies.runtime.messages import RawReply
from strategies.runtime.reply_checks import CheckedReply, check_reply, usable_or_reason

W = np.ones((2, 3), np.float32)
TASK = Task(4, "train", {"w": W, "n": np.array(1)})


def reply(arrays: dict[str, Any] | None = None, **metrics: Any) -> RawReply:
    return RawReply(
        arrays={"n": np.array(2), "w": W} if arrays is None else arrays,
        metrics={"num-examples": 3, "loss": 1, **metrics},
    )


def test_a_good_reply_is_handed_on_in_the_order_of_the_task() -> None:
    checked = check_reply(TASK, reply(), 10)
    assert (checked.status, checked.reason, checked.bytes_up) == ("ok", "", 32)
    assert checked.reply is not None
    assert (checked.reply.partition, checked.reply.num_examples) == (4, 3)
    assert list(checked.reply.arrays) == ["w", "n"]
    assert checked.reply.metrics == {"loss": 1.0}


@pytest.mark.parametrize(
    ("raw", "status", "reason"),
    [
        (None, "missing", "no reply within 10 s"),
        (RawReply(error="ValueError: x"), "error", "ValueError: x"),
        (RawReply(error="gone", unreachable=True), "missing", "gone"),
        (reply({"w": W}), "rejected", "missing n, unknown none"),
        (reply({"w": W, "n": np.array(1), "x": W}), "rejected", "missing none, unknown x"),
        (reply({"w": W.T, "n": np.array(1)}), "rejected", "w has shape (3, 2), expected (2, 3)"),
        (reply({"w": W, "n": np.array([1])}), "rejected", "n has shape (1,), expected ()"),
        (reply({"w": W.astype(float), "n": np.array(1)}), "rejected", "float64, expected float32"),
        (reply({"w": W * np.nan, "n": np.array(1)}), "rejected", "w holds NaN or infinity"),
        (reply({"w": W / np.float32(0), "n": np.array(1)}), "rejected", "w holds NaN or infinity"),
        (reply(loss=float("nan")), "rejected", "metric loss must be a finite number, got nan"),
        (reply(status=1.0), "rejected", "metric status is called as a column of the history"),
        (reply(loss=[1.0]), "rejected", "metric loss must be a finite number, got [1.0]"),
        (reply(**{"num-examples": -1}), "rejected", "num-examples must be a whole number >= 0"),
        (reply(**{"num-examples": 1.5}), "rejected", "num-examples must be a whole number >= 0"),
        (RawReply(arrays=dict(TASK.arrays)), "rejected", "num-examples must be"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_everything_else_is_refused_with_a_reason(
    raw: RawReply | None, status: str, reason: str
) -> None:
    checked = check_reply(TASK, raw, 10)
    assert checked.status == status and checked.reply is None
    assert reason in checked.reason


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ([-1, 3, 0], ""), ([-2, 3, 0], "-2 to 3"), ([-1, 4, 0], "-1 to 4"), ([0, 0.5, 1], "0 to 1"),
    ],
)  # fmt: skip
def test_numbers_of_an_array_lie_within_what_was_asked_for(
    numbers: list[float], found: str
) -> None:
    asked = Task(0, "train", {}, {}, {"actions": (3,)}, ranges={"actions": (-1, 3)})
    raw = RawReply(arrays={"actions": np.array(numbers)}, metrics={"num-examples": 1, "loss": 1.0})
    checked = check_reply(asked, raw, 10)
    told = f"actions holds numbers from {found}, expected whole ones from -1 to 3" if found else ""
    assert checked.reason == told and (checked.reply is None) == bool(found)


def test_tasks_say_what_must_come_back() -> None:
    asked = Task(0, "train", {"w": W}, {}, {"delta": (5,)})
    assert check_reply(asked, reply({"delta": np.zeros(5)}), 1).status == "ok"
    assert check_reply(asked, reply({"w": W}), 1).status == "rejected"
    evaluation = Task(0, "evaluate", {"w": W})
    assert check_reply(evaluation, reply({}), 1).status == "ok"
    assert check_reply(evaluation, reply({"w": W}), 1).status == "rejected"


def test_text_arrays_are_refused() -> None:
    asked = Task(0, "train", {}, {}, {"t": (1,)})
    assert "expected numbers" in check_reply(asked, reply({"t": np.array(["a"])}), 1).reason


@pytest.mark.parametrize(
    ("statuses", "least", "fails"),
    [
        ("oo", 1.0, False),
        ("oe", 1.0, True),
        ("oe", 0.5, False),
        ("oee", 0.5, True),
        ("e", 0.01, True),
    ],
)
def test_share_of_usable_replies(statuses: str, least: float, fails: bool) -> None:
    failed = [
        (f"site-{i}", CheckedReply("error", "E: x")) for i, s in enumerate(statuses) if s == "e"
    ]
    reason = usable_or_reason(failed, len(statuses), least)
    assert bool(reason) == fails
    if fails:
        first = statuses.index("e")
        assert f"site-{first}: error: E: x" in reason
        assert ("and 1 more" in reason) == (statuses.count("e") == 2)


DIVERGED = ", as after training that diverged (1 such arrays)"


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.array([[1, 2, 3], [4, -2e6, 6]], np.float32), f"array w holds -2e+06, more than 1e+06 in size{DIVERGED}"),
        (np.full((2, 3), 1e6, np.float32), ""),
        (np.array([[1, 2, np.nan], [4, 5, 3e6]], np.float32), f"array w holds NaN or infinity{DIVERGED}"),
    ],
)  # fmt: skip
def test_numbers_too_large_to_be_weights_are_refused(array: np.ndarray, reason: str) -> None:
    assert check_reply(TASK, reply({"w": array, "n": np.array(1)}), 1).reason == reason


def test_counts_may_grow_with_a_run_but_not_without_end() -> None:
    for count, good in ((10**9, True), (2**62, False), (-(2**63), False)):
        checked = check_reply(TASK, reply({"w": W, "n": np.array(count)}), 1)
        assert (checked.status == "ok") == good
    assert "array n holds -9.22337e+18, more than 1e+12 in size (1 such arrays)" in checked.reason


def test_what_must_not_be_negative_is_not() -> None:
    asked = Task(0, "train", {"w": -W}, not_negative=("w", "absent"))
    for array, reason in (
        (W * 0, ""),
        (W * -0.5, "array w holds -0.5, expected no number below 0"),
    ):
        checked = check_reply(asked, reply({"w": array.astype(np.float32)}), 1)
        assert checked.reason == reason


def test_arrays_that_were_not_sent_have_the_type_that_the_task_names() -> None:
    asked = Task(0, "train", {}, {}, {"q": (2,), "x": (1,)}, types={"q": "float32"})
    for kind in ("float32", "float64", "int64"):
        sent = reply({"q": np.zeros(2, kind), "x": np.zeros(1)})
        reason = "" if kind == "float32" else f"array q has type {kind}, expected float32"
        assert check_reply(asked, sent, 1).reason == reason


NOISE = "\x1b[31m\x1b]0;title\x07\x07\u202e" + "A" * 2**20


@pytest.mark.parametrize(
    "raw",
    [
        reply({"w": W, "n": np.array(1), NOISE: W}),
        reply(**{NOISE: 1.0}),
        reply(**{NOISE: float("nan")}),
        reply(loss=[1.0] * 10**5),
        reply(**{"a\nb": 1.0}),
    ],
)
def test_reasons_are_short_and_printable_whatever_a_client_sends(raw: RawReply) -> None:
    checked = check_reply(TASK, raw, 1)
    assert checked.status == "rejected"
    assert checked.reason.isprintable() and len(checked.reason) < 600
