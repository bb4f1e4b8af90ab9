"""Scores on different data are never ranked, nor are their baselines averaged; every table says what chance would reach."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedsuite.roster.members import Member
from simulations.results.report import make_report
from tests.report.page.conftest import table_named
from tests.written_runs import houses_run, parties_run, round_row, silos_run, write_run

FACTS = {"feature-size": 64}


def house(name: str, role: str, instructions: int = 9) -> Member:
    split = {"seen": "train", "unseen": "val_unseen"}[role]
    return Member(name, role, instructions, {"houses": [name], split: [instructions]})


def walked(folder: Path, score: float, walker: float, members: list[Member], **more: Any) -> Path:
    run = houses_run(folder, more.pop("seed", 0), score, members=members, facts=FACTS, **more)
    (run / "baselines.json").write_text(json.dumps({"random walk": {"val_unseen.sr": walker}}))
    return run


def tables_of(report, start: str) -> dict[str, list[str]]:
    """Title -> names of its rows."""
    found = [t for s in report.parts[0].sections for t in s.tables if t.title.startswith(start)]
    return {table.title: [row[0] for row in table.rows] for table in found}


def test_runs_on_other_houses_have_a_ranking_and_baselines_of_their_own(tmp_path: Path) -> None:
    few = [house("oak", "seen"), house("elm", "unseen")]
    many = [*(house(f"house{i}", "seen") for i in range(16)), house("elm", "unseen")]
    runs = [walked(tmp_path / "few", 0.4, 0.04, few), walked(tmp_path / "many", 0.2, 0.02, many)]
    report = make_report([str(run) for run in runs])
    baselines = ["before training (baseline)", "random walk (baseline)"]
    assert tables_of(report, "Final scores") == {
        "Final scores: 1 seen and 1 unseen houses": ["few", *baselines],
        "Final scores: 16 seen and 1 unseen houses": ["many", *baselines],
    }
    first, second = report.answer
    assert "in 40.00 %" in first and "random walk in 4.00 %." in first and "20.00" not in first
    assert "in 20.00 %" in second and "random walk in 2.00 %." in second
    names = next(iter(tables_of(report, "Table 2").values()))
    assert "few: 1 seen and 1 unseen houses" in names and "many: 16 seen and 1 unseen houses" in names  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False], ids=["same", "another"])
def test_houses_of_equal_number_are_told_apart_by_who_they_are(tmp_path: Path, same: bool) -> None:
    one = [house("oak", "seen"), house("elm", "unseen")]
    other = one if same else [house("oak", "seen"), house("elm", "unseen", instructions=8)]
    runs = [walked(tmp_path / "a", 0.4, 0.04, one), walked(tmp_path / "b", 0.2, 0.04, other)]
    titles = list(tables_of(make_report([str(run) for run in runs]), "Final scores"))
    assert len(titles) == (1 if same else 2)
    assert all(t == "Final scores" if same else t.startswith("Final scores: data ") for t in titles)


def test_who_holds_the_houses_does_not_matter(tmp_path: Path) -> None:
    """Centralised training has all houses in one client."""
    apart = [house("oak", "seen"), house("ash", "seen"), house("elm", "unseen")]
    pooled = Member("all-training-houses", "seen", 18, {"houses": ["oak", "ash"], "train": [9, 9]})
    runs = [
        walked(tmp_path / "apart", 0.4, 0.04, apart),
        walked(tmp_path / "pooled", 0.5, 0.04, [pooled, apart[-1]]),
    ]
    (answer,) = make_report([str(run) for run in runs]).answer
    assert (
        "of pooled reached its goal in 50.00 % of walks (1 run), apart in 40.00 % (1 run)" in answer
    )


def test_seeds_may_have_houses_of_their_own_and_that_is_said(tmp_path: Path) -> None:
    own = {"data.generated-seed": -1}
    for line, seeds in (("federated", (0, 1)), ("local", (0,))):
        for seed in seeds:
            members = [house(f"oak{seed}", "seen"), house(f"elm{seed}", "unseen")]
            place = tmp_path / "houses" / line / f"seed-{seed}"
            walked(place, 0.4, 0.04, members, seed=seed, settings=own)
    from tests.written_runs import write_experiment

    write_experiment(tmp_path / "houses", ["federated/seed-0", "federated/seed-1", "local/seed-0"])
    report = make_report([str(tmp_path / "houses")])
    (table,) = (t for s in report.parts[0].sections for t in s.tables if t.title == "Final scores")
    assert "data of their own here (2 data sets)" in table.note and "local 1." in table.note


def test_silos_are_counted_and_another_number_of_them_is_other_data(tmp_path: Path) -> None:
    three = silos_run(tmp_path / "three")
    names = [f"silo-{i}" for i in range(11)]
    eleven = Member(
        "all", "silo", 110, {"silos": list(range(11)), "names": names, "frames": [10] * 11}
    )
    rows = [round_row(0, rmse=0.4), round_row(1, rmse=0.1, mixings=1.0), round_row(1, "closing")]
    other = write_run(tmp_path / "other", "cdl", rows, members=[eleven], facts={"silos": 11})
    report = make_report([str(three), str(other)])
    assert list(tables_of(report, "Final scores")) == [
        "Final scores: 3 silos",
        "Final scores: 11 silos",
    ]
    assert len(report.answer) == 2 and report.answer[1].endswith("without learning: not known.")
    hows = {r[""]: r["how comparable"] for r in table_named(report, "Table 2: Gaia, 11 silos")}
    assert hows["three: 3 silos"] == "not comparable: 3 silos (published: 11)"
    assert hows["other: 11 silos"] == "not comparable: generated roads"


@pytest.mark.slow
def test_random_moves_are_the_chance_level_of_the_maps_that_they_were_made_on(
    tmp_path: Path,
) -> None:
    learnt = parties_run(tmp_path / "learnt", "dqn-alpha", 0, 0.52)
    chance = parties_run(tmp_path / "chance", "random", 0, 0.74)
    (answer,) = make_report([str(learnt), str(chance)]).answer
    assert answer.startswith(
        "In the test the agents of DQN-alpha + noise met in 62.0 % of episodes"
    )
    assert answer.endswith("without learning: random moves in 74.0 %.")
    rows = {row["run"]: row for row in table_named(make_report([str(learnt), str(chance)]), "Final scores")}  # fmt: skip
    assert rows["random (baseline)"]["runs"] == "1" and rows["random (baseline)"]["success (%)"] == "74.0"  # fmt: skip

    settings = json.loads((chance / "config.json").read_text()) | {"data.generated-seed": 5}
    (chance / "config.json").write_text(json.dumps(settings))
    first, second = make_report([str(learnt), str(chance)]).answer
    assert "of seed 0" in first and first.endswith("without learning: not known.")
    assert second == "of seed 5: In the test the agents met in 74.0 % of episodes."


def test_without_a_chance_level_the_table_says_how_to_get_one(tmp_path: Path) -> None:
    report = make_report([str(parties_run(tmp_path / "alone", "fedrl", 0, 0.52))])
    (table,) = (t for s in report.parts[0].sections for t in s.tables if t.title == "Final scores")
    assert "No chance level" in table.note and "federation.method=random" in table.note


def test_houses_of_real_nodes_are_not_called_generated(tmp_path: Path) -> None:
    members = [
        Member("oak", "seen", 9, {"houses": ["oak"]}, key="SHA256:" + "a" * 43),
        house("elm", "unseen"),
    ]
    report = make_report([str(walked(tmp_path / "real", 0.4, 0.04, members))])
    hows = {r[""]: r["how comparable"] for r in table_named(report, "Table 2")}
    assert hows["real"] == "not comparable: houses of real nodes, which the server has not seen"
    simulated = {"roster": str(tmp_path / "roster.json")}  # as a simulation's settings have it
    run = walked(tmp_path / "drawn", 0.4, 0.04, [house("elm", "unseen")], settings=simulated)
    hows = {r[""]: r["how comparable"] for r in table_named(make_report([str(run)]), "Table 2")}
    assert hows["drawn"] == "not comparable: generated houses"
