"""Kinds of events: runs write those that are declared, and no others."""

from pathlib import Path

from fedsuite.history import TIMINGS, Kind, kind_of, line_about, read_rows
from tests.history.conftest import NAMES


def test_runs_write_every_declared_kind_and_no_other(three_runs: Path) -> None:
    """But for those about lost nodes, which simulations do not have, a strategy that ends its run, and the one that is
    never written."""
    rows = [row for name in NAMES for row in read_rows(three_runs / name / TIMINGS)]
    assert {kind_of(row) for row in rows} == {*Kind} - {
        Kind.LOST, Kind.SENT_AGAIN, Kind.ENDS, Kind.WAITING,
    }  # fmt: skip
    assert {line_about(row) for row in rows} == {""}


def test_a_line_about_a_loss_is_fit_to_be_shown() -> None:
    told = {"round": 2, "kind": "closing-lost", "client": "oak\x1b[31m\n", "reason": "x" * 300}
    line = line_about(told)
    assert line.startswith("round 2: oak is lost (xxx") and len(line) < 280 and "\x1b" not in line
