"""What a report opens with: shares with their interval, and no certainty that the pairs do not bear out."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scipy import stats

from fedsuite.history.paired import Difference
from fedsuite.reports.outcomes import Column
from fedsuite.reports.page.differences import Compared, Comparison, sentence
from fedsuite.reports.page.opening import MOST_NAMED, _listed, _wilson
from fedsuite.roster.members import Member
from simulations.results.report import make_report
from tests.written_runs import parties_run, round_row, write_run

SCORE = Column("SR (%)", "sr", 1, 100)


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (205, 651), (3, 4), (9, 9)])
def test_the_interval_of_a_share_is_wilsons(hits: int, n: int) -> None:
    twin = stats.binomtest(hits, n).proportion_ci(0.95, "wilson")
    assert _wilson(hits / n, n) == pytest.approx((twin.low, twin.high), abs=1e-6)


def test_one_run_is_told_with_the_interval_of_its_walks(tmp_path: Path) -> None:
    scored = {"val_unseen.sr": 0.315, "val_unseen.count": 651.0}
    run = write_run(tmp_path / "one", "fedvln", [round_row(1, **scored), round_row(1, "closing")])
    (answer,) = make_report([str(run)]).answer
    assert answer.startswith(
        "In unseen houses the agent reached its goal in 31.50 % of 651 walks (95 % interval by these walks alone, not by "
        "the seed: 28.05 to 35.17)"
    )


def test_a_test_that_plays_maps_again_has_no_interval(tmp_path: Path) -> None:
    from fedsuite.roster.members import Roster, write_roster

    for maps, told in ((800, "70.0 % of 800 episodes (95 % interval"), (10, "70.0 % of episodes;")):
        run = parties_run(tmp_path / str(maps), "dqn-alpha", 0, 0.6)
        members = tuple(Member(n, "party", 1) for n in ("alpha", "beta"))
        write_roster(run / "roster.json", Roster(members, {"test-episodes": maps}))
        rows = [line for line in (run / "history.jsonl").read_text().split("\n") if line]
        (run / "history.jsonl").write_text("\n".join(rows).replace("test-noisy", "left-out") + "\n")
        (answer,) = make_report([str(run)]).answer
        assert told.replace("70.0", "60.0") in answer


@pytest.mark.parametrize(
    ("difference", "start"),
    [
        (Difference(-0.2, -0.3, -0.1, 3), "best is better than next, and that is certain (next less best: -20.0, 95 % "),
        (Difference(-0.2, -0.5, 0.1, 3), "Whether best is better than next, these runs leave open"),
        (Difference(0.2, 0.1, 0.3, 3), "Whether best is better than next, these runs leave open"),  # fewer are pairs
        (Difference(-0.2, math.nan, math.nan, 1), "Whether best is better than next, one pair of runs cannot tell"),
        (Difference(math.nan, math.nan, math.nan, 0), ""),
    ],
)  # fmt: skip
def test_certain_is_what_pairs_bear_out(difference: Difference, start: str) -> None:
    found = Comparison("best", (Compared("next", difference),), "seed")
    said = sentence(found, SCORE, lower=False)
    assert said.startswith(start) and bool(said) == bool(start)


def test_of_many_lines_the_first_are_named() -> None:
    lines = {f"v{n}": [SimpleNamespace()] for n in range(MOST_NAMED + 2)}
    score: Any = SimpleNamespace(cell=lambda own: "1")
    told = _listed(lines, score)  # type: ignore[arg-type]
    assert (
        told.endswith(f"v{MOST_NAMED - 1} 1 (1 run) and 2 more") and f"v{MOST_NAMED} " not in told
    )
    few = dict(list(lines.items())[:MOST_NAMED])
    assert _listed(few, score).endswith(f"v{MOST_NAMED - 1} 1 (1 run)")  # type: ignore[arg-type]
