"""Lines of rounds: one per message, or sums of many small ones."""

import numpy as np
import pytest

from fedsuite.federation import Reply, Task
from strategies.runtime import records
from strategies.runtime.messages import RawReply
from strategies.runtime.records import RoundRecords
from strategies.runtime.reply_checks import CheckedReply


def task(partition: int, summed: bool) -> Task:
    return Task(partition, "train", {"w": np.zeros(3, np.float32)}, summed=summed)


def ok(partition: int, size: int, **metrics: float) -> CheckedReply:
    return CheckedReply("ok", "", Reply(partition, {}, 7, metrics), bytes_up=size)


@pytest.fixture
def rows() -> RoundRecords:
    return RoundRecords(4, "", {0: "alpha", 1: "beta"})


def test_ordinary_messages_have_a_line_each(rows: RoundRecords) -> None:
    for size in (10, 20):
        rows.checked(task(0, False), ok(0, size, loss=1.0))
    assert [r["bytes-up"] for r in rows.history] == [10, 20]
    assert all("messages" not in r for r in rows.history) and rows.sums() == []


def test_small_messages_are_added_up_by_client(rows: RoundRecords) -> None:
    for size in (10, 20, 30):
        for partition in (0, 1):
            rows.checked(task(partition, True), ok(partition, size + partition, seen=size))
    alpha, beta = rows.history
    assert (alpha["name"], alpha["messages"], alpha["bytes-down"], alpha["bytes-up"]) == ("alpha", 3, 36, 60)  # fmt: skip
    assert (beta["name"], beta["messages"], beta["bytes-down"], beta["bytes-up"]) == ("beta", 3, 36, 63)  # fmt: skip
    assert alpha["round"] == 4 and alpha["num-examples"] == 7 and alpha["metrics"] == {"seen": 30}


def test_a_reply_that_cannot_be_used_keeps_its_line(rows: RoundRecords) -> None:
    rows.checked(task(0, True), ok(0, 10))
    rows.checked(task(0, True), CheckedReply("rejected", "array q holds NaN"))
    rows.checked(task(0, True), ok(0, 10))
    assert [(r["status"], r["reason"], r.get("messages")) for r in rows.history] == [
        ("ok", "", 2),
        ("rejected", "array q holds NaN", None),
    ]


def test_timings_are_added_up_and_errors_told_at_once(rows: RoundRecords) -> None:
    assert rows.timed(task(0, True), RawReply(compute_s=0.5), 1.0) is None
    assert rows.timed(task(0, True), RawReply(compute_s=None), 2.0) is None
    told = rows.timed(task(0, True), RawReply(error="gone"), 9.0)
    assert told is not None and told["status"] == "error" and told["seconds"] == 9.0
    assert rows.timed(task(1, False), RawReply(), 1.0) is not None
    (total,) = rows.sums()
    assert (total["seconds"], total["compute-seconds"], total["messages"]) == (3.0, 0.5, 2)


def test_progress_is_told_now_and_then(rows: RoundRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(records.time, "monotonic", lambda: now)
    events: list[dict] = []
    for now in (100.0, 100.2, 100.4, 100.6):  # noqa: B007
        rows.timed(task(0, True), RawReply(), 0.1)
        rows.emit_progress(events.append)
    assert [e["done"] for e in events] == [1, 4] and events[0]["kind"] == "messages"
