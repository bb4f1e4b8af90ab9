"""How long an exchange waits for replies; time is made up."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from flwr.app import Message

from fedsuite.errors import RunFailed
from strategies.runtime import exchange
from tests.harness import Recorder, run_toy
from tests.strategies.runtime.loops import FakeTime


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    clock = FakeTime()
    monkeypatch.setattr(exchange, "time", clock)
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
    assert 60 <= sum(clock.slept) <= 60 + exchange.LONGEST_WAIT_S


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
