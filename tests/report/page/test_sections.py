"""What a report says of runs whose numbers are known."""

import math
from pathlib import Path

import pandas as pd
import pytest

from fedsuite.reports.page.curves import MOST_POINTS, mean_course
from fedsuite.reports.page.questions import Curve
from simulations.results.report import make_report
from tests.report.page.conftest import table_named
from tests.written_runs import houses_run


def test_one_sentence_says_the_scores_the_baselines_and_what_is_missing(houses) -> None:
    assert houses.answer == (
        "In unseen houses the agent of federated reached its goal in 45.00 ± 7.07 % of walks (2 runs), local in 20.00 % "
        "(1 run); without learning: the same before training in 3.67 ± 1.53 %, a random walk in 5.00 %. Whether federated "
        "is better than local, one pair of runs cannot tell (local less federated: -20.00). Not completed, and not counted: "
        "1 of 4 runs (1 interrupted).",
    )


def test_scores_are_grouped_over_seeds_and_unfinished_runs_are_never_among_them(houses) -> None:
    rows = {row["run"]: row for row in table_named(houses, "Final scores")}
    assert list(rows) == ["federated", "local", "before training (baseline)", "random walk (baseline)"]  # fmt: skip
    assert rows["federated"]["runs"] == "2" and rows["local"]["runs"] == "1 of 2"
    assert rows["federated"]["SPL val-unseen (%)"] == "22.50 ± 3.54"
    (late,) = table_named(houses, "Not completed")
    assert late["run"] == "local/seed-1" and late["state"] == "interrupted"
    assert late["rounds"] == "2/2" and late["latest"].endswith(" 20")
    states = [row["state"] for row in table_named(houses, "Runs")]
    assert states == ["completed", "completed", "completed", "interrupted"]


def test_a_run_that_is_being_written_is_running(written, tmp_path: Path) -> None:
    from fedsuite.runs.folder import RunFolder

    run = houses_run(tmp_path / "live", 0, 0.3, status="running")
    with RunFolder(run).locked():
        report = make_report([str(run)])
    assert report.answer == (
        "fedvln: no completed run. Not completed, and not counted: 1 of 1 runs (1 running).",
    )


def test_the_sentence_says_the_first_score_that_there_is(tmp_path: Path) -> None:
    from tests.written_runs import round_row, write_run

    rows = [round_row(1, **{"val_seen.sr": 0.5}), round_row(1, "closing")]
    report = make_report([str(write_run(tmp_path / "seen", "fedvln", rows))])
    assert report.answer == (
        "In houses of the training, along new paths, the agent reached its goal in 50.00 % of walks; without learning: not "
        "known.",
    )


def test_an_error_of_a_failed_run_is_shown(hostile) -> None:
    (late,) = table_named(hostile, "Not completed")
    assert late["state"] == "failed" and "lost <script>" in late["error"]


def test_the_worst_house_has_a_name_and_how_many_instructions(houses) -> None:
    worst = table_named(houses, "Worst off")[0]
    assert worst == {"line": "federated", "client": "elm", "score": "22.5", "scored on": "20"}
    spread = table_named(houses, "success rate, val-unseen (%), by client")[0]
    assert (spread["worst"], spread["best"]) == ("22.5", "45.0")


@pytest.mark.slow
def test_where_nobody_says_on_how_much_there_is_no_column_for_it(written) -> None:
    report = make_report([str(written.silos)])
    assert set(table_named(report, "Worst off")[0]) == {"line", "silo", "score"}


def test_who_took_part_how_often(written, houses) -> None:
    line = table_named(houses, "Rounds by client")[0]  # of two seeds
    assert (line["fewest"], line["median"], line["most"]) == ("1", "1.5", "2")
    report = make_report([str(written.houses / "federated" / "seed-0")])
    rows = {row["client"]: row for row in table_named(report, "Every client")}
    assert rows["oak"]["rounds trained"] == "2" and rows["elm"]["rounds trained"] == "1"
    assert rows["elm"]["rounds evaluated"] == "2"
    tasks = {row["task"]: row for row in table_named(report, "By task")}
    assert tasks["train"]["sent by clients (MB)"] == "0.003"
    assert tasks["evaluate"]["sent by clients (MB)"] == "0.000"


def test_who_sent_most_and_where_the_time_went_are_means_over_the_runs_of_a_line(
    tmp_path: Path,
) -> None:
    """Two seeds send as much as one, and take as long; the second sends more than the first."""
    from tests.written_runs import write_experiment

    folder = tmp_path / "houses"
    for seed in (0, 1):
        run = houses_run(folder / "federated" / f"seed-{seed}", seed, 0.5)
        rows = (
            (run / "history.jsonl").read_text().replace('"bytes-up": 1000', '"bytes-up": 9000000')
        )
        (run / "history.jsonl").write_text(rows if seed else rows.replace("9000000", "3000000"))
    write_experiment(folder, ["federated/seed-0", "federated/seed-1"])
    report = make_report([str(folder)])
    (sent,) = table_named(report, "By client, in all rounds")
    assert sent["sent by"] == "oak" and sent["clients"] == "2"
    assert (sent["median (MB)"], sent["most (MB)"]) == ("9.000", "12.000")  # 6 of elm, 12 of oak
    (seconds,) = table_named(report, "Seconds of all rounds")
    assert [*seconds.values()][:2] == ["federated", "3.0"]


def test_failures_are_counted_and_named(tmp_path: Path) -> None:
    from tests.written_runs import client_row, round_row, write_run

    lost = [client_row(1, 0, "oak", "train", status="error", reason="out of time")] * 30
    scored = round_row(1, **{"val_unseen.sr": 0.5})
    run = write_run(tmp_path / "lossy", "fedvln", [*lost, scored, round_row(1, "closing")])
    rows = table_named(make_report([str(run)]), "Replies that could not be used: 30, the first 20")
    assert len(rows) == 20
    assert rows[0]["name"] == "oak" and rows[0]["reason"] == "out of time"


def test_clients_that_no_step_waited_for_are_no_failures(tmp_path: Path) -> None:
    from tests.written_runs import client_row, round_row, write_run

    late = [
        client_row(n, 0, "oak", "train", status="late", reason="not waited for") for n in (1, 2)
    ]
    used = [client_row(n, 1, "elm", "train") for n in (1, 2)]
    scored = round_row(2, **{"val_unseen.sr": 0.5})
    rows = [*late, *used, round_row(1), scored, round_row(2, "closing")]
    report = make_report([str(write_run(tmp_path / "first", "fedvln", rows))])
    (failures,) = (s for s in report.parts[0].sections if s.title == "Failures")
    assert not failures.tables and failures.text == (
        "Every reply that came could be used.",
        "Late replies, which no step waited for, as the settings say: 2.",
    )
    clients = {row["client"]: row for row in table_named(report, "Every client")}
    assert (clients["oak"]["late"], clients["oak"]["failed"], clients["elm"]["late"]) == (
        "2",
        "0",
        "0",
    )


def test_axes_are_those_that_were_recorded_and_words_stand_for_figures(houses) -> None:
    figures = [f for f in houses.figures() if f.choice]
    assert {f.choice for f in figures} == {
        "rounds", "local steps", "serial depth (steps)", "MB sent and received by clients", "time in rounds (s)",
    }  # fmt: skip
    first = figures[0]
    assert first.title == "success rate, val-unseen (%) over rounds"
    assert "federated: from 4.5 at 0 to 45 at 2, between 4.5 and 45" in first.alternative
    by_bytes = next(f for f in figures if f.choice == "MB sent and received by clients")
    assert "federated: from 4.5 at 0.002 to 45 at 0.01, between" in by_bytes.alternative
    assert len({f.name for f in houses.figures()}) == len(houses.figures())


def test_means_are_by_round_and_long_courses_are_thinned() -> None:
    courses = [
        pd.DataFrame({"round": range(1000), "local-steps": [10 * n + k for n in range(1000)], "sr": [k / 10] * 1000})
        for k in (1, 3)
    ]  # fmt: skip
    found = mean_course(courses, "local-steps", Curve("sr", "SR", 100))
    assert len(found) <= MOST_POINTS + 1
    assert (found["x"].iloc[0], found["x"].iloc[-1]) == (2, 9992)
    assert found["mean"].to_numpy() == pytest.approx(20)
    assert found["deviation"].iloc[0] == pytest.approx(100 * math.sqrt(0.02))
    assert mean_course(courses[:1], "round", Curve("sr", "SR"))["deviation"].isna().all()


@pytest.mark.slow
def test_runs_of_several_systems_are_a_part_each(written) -> None:
    report = make_report([str(written.silos), str(written.houses), str(written.parties)])
    assert [part.title for part in report.parts] == ["cdl", "fedvln", "fedrl"]
    assert len(report.answer) == 3
    names = [figure.name for figure in report.figures()]
    assert len(set(names)) == len(names)
    assert {"cdl-scores-by-client", "fedvln-scores-by-client"} <= set(names)
    names = [row["run"] for row in table_named(report, "Final scores", 1)]
    assert "houses/federated" in names  # of several experiments, each name says which


def test_the_same_run_counts_once(written) -> None:
    one = str(written.houses / "federated" / "seed-0")
    report = make_report([one, str(written.houses / "federated"), one])
    assert len(table_named(report, "Runs")) == 2
