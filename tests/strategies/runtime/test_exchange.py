"""How long an exchange waits for replies; time is made up."""

import copy
from collections.abc import Iterable
from pathlib import Path

import pytest
from flwr.app import ConfigRecord, Error, Message
from flwr.serverapp import Grid

from fedsuite.errors import RunFailed
from fedsuite.history import read_rows
from fedsuite.runs.folder import RunFolder
from strategies.runtime import post
from tests.harness import Recorder, results_of, run_toy
from tests.strategies.runtime.loops import FakeTime


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    clock = FakeTime()
    monkeypatch.setattr(post, "time", clock)
    return clock


class Silent(Recorder):
    """Loses what is sent to the first node from the given message on."""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        kept = list(messages)
        self.sent += kept
        lost = kept[0].metadata.dst_node_id == min(self.get_node_ids()) and len(self.sent) > 4
        return ["lost"] if lost else self.inner.push_messages(kept)


def test_a_client_that_does_not_answer_fails_the_run_at_the_deadline(
    tmp_path: Path, clock: FakeTime
) -> None:
    """Not before, and no later than one pause after it."""
    with pytest.raises(RunFailed, match=r"site-2: missing: no reply within 60 s"):
        run_toy(tmp_path, Silent, reply_deadline_s=60.0)
    assert 60 <= sum(clock.slept) <= 60 + post.LONGEST_WAIT_S


class Slow(Recorder):
    """Every reply is `late` seconds on its way; how often it was asked for is counted."""

    late = 0.0
    clock: FakeTime
    pulls = 0

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        self.due = self.clock.now + self.late
        return super().push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        type(self).pulls += 1
        return super().pull_messages(message_ids) if self.clock.now >= self.due else []


def slow(clock: FakeTime, late: float) -> type[Slow]:
    return type("ThisSlow", (Slow,), {"clock": clock, "late": late})


@pytest.mark.slow
def test_replies_that_are_there_are_not_waited_for(tmp_path: Path, clock: FakeTime) -> None:
    """Four clients, forty rounds: one look at the grid per message, and no pause at all."""
    grid = slow(clock, 0.0)
    run_toy(tmp_path, grid, num_rounds=40, num_clients=4, checkpoint_every=40)
    assert clock.slept == [] and grid.pulls == 4 * (1 + 40 + 1)


@pytest.mark.parametrize("late", [0.01, 0.3, 5.0, 100.0])
def test_pauses_are_short_where_replies_are_quick_and_long_where_they_are_not(
    tmp_path: Path, clock: FakeTime, late: float
) -> None:
    """10 ms at first, then 2 % of the time waited, a quarter of a second at most."""
    run_toy(tmp_path, slow(clock, late), num_rounds=0, num_clients=1)
    asked, closing = clock.slept[: len(clock.slept) // 2], clock.slept[len(clock.slept) // 2 :]
    assert asked == pytest.approx(closing)
    waited = 0.0
    for pause in asked:
        assert pause == pytest.approx(min(0.25, max(0.01, 0.02 * waited)))
        waited += pause
    assert late <= waited <= late + max(0.01, min(0.25, 0.02 * late)) + 1e-6


class Doubled(Recorder):
    """Every reply comes twice, and before it one of a node that nobody knows."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = list(super().pull_messages(message_ids))
        strangers = [copy.deepcopy(reply) for reply in replies]
        for stranger in strangers:
            stranger.metadata.__dict__["_src_node_id"] = 4711
        return [both for s, r in zip(strangers, replies, strict=True) for both in (s, r, r)]


def test_second_replies_and_those_of_strangers_are_ignored_and_noted(tmp_path: Path) -> None:
    plain, doubled = run_toy(tmp_path / "a"), run_toy(tmp_path / "b", Doubled)
    assert results_of(doubled) == results_of(plain)
    assert not plain.errors.exists()
    lines = doubled.errors.read_text().splitlines()
    assert lines.count("--- node 4711") == 3 + 3 * 4 + 3 and lines.count(post.STRAY) == 2 * 18


class Rude(Recorder):
    """Error texts with escape sequences and a megabyte of letters."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = list(super().pull_messages(message_ids))
        for reply in replies:
            if reply.metadata.message_type == "train":
                reply.__dict__["_content"] = None
                reply.__dict__["_error"] = Error(
                    2, "\x1b[2Jx\r\nValueError: \x1b[31mno\x07" + "A" * 2**20
                )
        return replies


def test_error_texts_are_kept_short_and_printable(tmp_path: Path) -> None:
    with pytest.raises(
        RunFailed, match=r"site-0: error: ValueError: no A+ \(cut\) \(and 2 more\)"
    ) as caught:
        run_toy(tmp_path, Rude)
    folder = RunFolder(tmp_path / "run")
    texts = [str(caught.value), folder.errors.read_text(), str(folder.status()["error"])]
    reasons = [r["reason"] for r in read_rows(folder.path / "history.jsonl") if "reason" in r]
    for text in [*texts, *reasons]:
        assert text.replace("\n", "").isprintable() and len(text) < 3000


class NotANumber(Recorder):
    """Timings that are none."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = list(super().pull_messages(message_ids))
        for reply in replies:
            reply.content["timing"] = ConfigRecord({"seconds": float("nan")})
        return replies


def test_a_timing_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    folder = run_toy(tmp_path, NotANumber)
    rows = [r for r in read_rows(folder.path / "timings.jsonl") if r["kind"] == "client"]
    assert rows and all(r["compute-seconds"] is None for r in rows)


def test_who_has_most_samples_is_sent_its_task_first(tmp_path: Path) -> None:
    """Site k has 20 + k. Evaluation goes by partition; history and merging do in any case."""
    recorders: list[Recorder] = []

    def recorded(grid: Grid) -> Grid:
        recorders.append(Recorder(grid))
        return recorders[0]

    run = run_toy(tmp_path, recorded, num_rounds=1)
    nodes = sorted(recorders[0].get_node_ids(), reverse=True)  # as InProcessGrid numbers them
    sent = [
        (m.metadata.message_type, nodes.index(m.metadata.dst_node_id)) for m in recorders[0].sent
    ]
    assert [p for kind, p in sent if kind == "train"] == [2, 1, 0]
    assert [p for kind, p in sent if kind == "evaluate"] == [0, 1, 2]
    rows = [r for r in read_rows(run.path / "history.jsonl") if r.get("task") == "train"]
    assert [r["partition"] for r in rows] == [0, 1, 2]
