"""What the three systems say of their runs, and a system that says nothing."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedsuite.driving.report.answers import PAPER as CDL_PAPER
from fedsuite.fedrl.report.answers import PAPER as FEDRL_PAPER
from fedsuite.reports.outcomes import Column
from fedsuite.reports.page.questions import Paper, reasons_of
from fedsuite.roster.members import Member
from fedsuite.vln.report.answers import PAPER as FEDVLN_PAPER
from simulations.results.report import make_report
from tests.harness import run_toy
from tests.report.page.conftest import table_named
from tests.written_runs import client_row, round_row, write_run

HOW = "how comparable"
CODEC = "tests.simulations.fedvln.test_fedvln_audit:NOISED"


def leaves(report) -> str:
    (section,) = (s for s in report.parts[0].sections if s.title == "What left the clients")
    return " ".join(section.items)


def test_houses_generated_by_the_project_are_not_the_papers(houses) -> None:
    rows = table_named(houses, "Table 2: Room-to-Room")
    ours = {row[""]: row[HOW] for row in rows if row["from"] == "ours"}
    assert ours == {
        "federated": "not comparable: generated houses", "local": "not comparable: generated houses",
        "before training (baseline)": "", "random walk (baseline)": "",
    }  # fmt: skip
    published = {row[""]: row for row in rows if row["from"] == "paper"}
    assert published["FedEnvdrop"]["SR val-unseen (%)"] == "46.5"
    assert "Envdrop_aug" not in published
    (table,) = (t for s in houses.parts[0].sections for t in s.tables if t.title.startswith("Table 2"))  # fmt: skip
    assert "Zhou & Wang 2022" in table.note and "best on val-unseen" in table.note


@pytest.mark.slow
def test_a_run_as_published_is_comparable_and_each_departure_is_named(tmp_path: Path) -> None:
    houses = [f"house{i}" for i in range(61)]
    members = [Member(name, "seen", 9, {"houses": [name]}) for name in houses]
    settings = {
        "data.dir": "r2r", "data.features": "views", "evaluation.selection": "best-val-unseen",
        "evaluation.trajectory": "published",
    }  # fmt: skip

    def how(name: str, width: int, steps: float, **more: object) -> str:
        rows = [
            client_row(1, 0, "house0", "train"),
            round_row(1, **{"val_unseen.sr": 0.4, "local-steps": steps}),
            round_row(1, "closing", **{"selected-round": 1.0}),
        ]
        own, facts = {**settings, **more}, {"feature-size": width}
        run = write_run(tmp_path / name, "fedvln", rows, own, members=members, facts=facts)
        return table_named(make_report([str(run)]), "Table 2")[0][HOW]

    assert how("same", 2048, 80_000) == "yes: same data, size and budget"
    assert how("views", 200, 80_000).startswith("not comparable: views of 200 numbers")
    assert how("short", 512, 700) == "in part: 700 local steps (published: about 80,000 or more)"
    small = how("small", 2048, 80_000, **{"agent.hidden-size": 64})
    assert small == "in part: hidden size 64 (published: 512)"


def test_other_data_outweighs_size_and_budget() -> None:
    paper = Paper("s", "t", [Column("a", "a")], {}, size=("small",), budget=("short",))
    assert paper.verdict == "in part: small"
    assert replace(paper, data=("other",)).verdict == "not comparable: other"
    other = replace(paper, data=("other",))
    assert other.reasons == ("other", "small", "short")
    assert reasons_of([other, paper]) == "other; small; short" and reasons_of([]) == ""


def test_runs_that_differ_by_a_number_have_it_from_the_least_to_the_largest() -> None:
    paper = Paper("P", "T", (), {}, size=("hidden size 128 (published: 512)",))
    ran = [
        replace(paper, budget=(f"{n} steps (published: 80,000)",))
        for n in ("1,236", "950", "1,300")
    ]
    said = "hidden size 128 (published: 512); 950 to 1,300 steps (published: 80,000)"
    assert reasons_of(ran) == said
    assert reasons_of(ran[:1]) == said.replace("950 to 1,300", "1,236")


@pytest.mark.slow
def test_what_leaves_a_house_follows_from_the_method(written) -> None:
    text = leaves(make_report([str(written.houses)]))
    assert "federated: A house sends, after each visit, the agent" in text
    assert "local: Every house trains for itself" in text and "Numbers are those of" not in text
    assert "agents go to the server after every visit" in text


def test_what_hides_messages_and_what_travels_beside_an_agent(tmp_path: Path) -> None:
    varied = {
        "alone": ("fedvln", {"stage": "pre-explore", "federation.method": "local-only"}),
        "together": ("fedvln", {"federation.method": "centralised"}),
        "summed": ("fedvln", {"federation.secure-sum": True, "federation.control-variates": True}),
        "shared": ("fedvln", {"federation.client-optimizer": "shared", "federation.codec": CODEC}),
        "silos": ("cdl", {"federation.scenario": "star", "federation.secure-sum": True}),
        "convolutions": ("cdl", {"federation.share": "*.conv*"}),
        "local": ("cdl", {"federation.scenario": "local"}),
        "sealed": ("fedrl", {"federation.sealed": True}),
    }  # fmt: skip
    said = {}
    for name, (system, settings) in varied.items():
        ended = {"best-round": 1.0, "released.0": 1.0, "released.1": 2.0}
        scores = {"val_unseen.sr": 0.4, "rmse": 0.2, "test.success-rate": 0.7, **ended}
        rows = [round_row(1, **scores), round_row(1, "closing", **scores)]
        said[name] = leaves(make_report([str(write_run(tmp_path / name, system, rows, settings))]))
    assert "No weights leave a house" in said["alone"] and "No noise" not in said["alone"]
    assert (
        "have left their houses" in said["together"]
        and "stay in their house" not in said["together"]
    )
    assert "and as much again for its control variates" in said["summed"]
    for name in ("summed", "silos"):
        assert "the sum of all changes of a round, and no single one" in said[name]
    assert "as much again for the state of its optimizer" in said["shared"]
    assert f"coded by {CODEC}" in said["shared"] and "masked" not in said["shared"]
    assert "the shared part of its network (*.conv*)" in said["convolutions"]
    assert "networks go to the server after every round" in said["local"]
    assert "whoever relays them sees how large they are" in said["sealed"]


def test_speakers_and_pre_exploration_have_their_tables(tmp_path: Path) -> None:
    scored = {"val_unseen.sr": 0.4, "modules-sent": 1.0, "houses-per-client": 1.0}
    rows = [client_row(1, 0, "oak", "train"), round_row(1, **scored), round_row(1, "closing")]
    own = {"stage": "pre-explore", "federation.share": "language-encoder"}
    report = make_report([str(write_run(tmp_path / "fed-lan", "fedvln", rows, own))])
    (ours, *published) = table_named(report, "Table 6")
    assert ours["privacy"] == "2" and ours["SR val-unseen (%)"] == "40.00"
    assert {"Fed-Lan, Envdrop", "Fed-Full, CLIP-ViT"} <= {row[""] for row in published}
    assert "Level of disclosure (Table 6 of the paper): 2, a part of the agent" in leaves(report)
    said = {"val_seen.bleu-2": 20.0, "val_unseen.bleu-2": 18.0}
    rows = [round_row(1, **said), round_row(1, "closing")]
    report = make_report([str(write_run(tmp_path / "s", "fedvln", rows, {"stage": "speaker"}))])
    assert table_named(report, "Table 4")[0]["BLEU-2 val-unseen"] == "18.00"


def test_silos_have_their_own_errors_and_the_worst_comes_first(written) -> None:
    report = make_report([str(written.silos)])
    assert report.answer[0] == (
        "On the test frames of all silos the average model was off by 0.200 radians (RMSE); without learning: always the "
        "mean angle by 0.310 radians, angles drawn at random by 0.400 radians."
    )
    assert [row["silo"] for row in table_named(report, "Worst off")] == ["leto", "rhea", "gaia"]
    assert table_named(report, "RMSE of own models at home, by silo")[0]["silos"] == "3"
    ours, constant, *published = table_named(report, "Table 2: Gaia, 11 silos, Udacity+")
    assert ours[HOW] == "not comparable: 3 silos (published: 11)"
    assert (constant[""], constant["RMSE"]) == ("constant (baseline)", "0.310")
    values = {row[""]: (row["RMSE"], row["MAE"], row["cycle ms"]) for row in published}
    assert values["CDL, DFL"] == ("0.141", "0.083", "72.7")
    assert "3 silos share a client" in leaves(report)
    assert "each mixing step, its network" in leaves(report)
    assert {"mixing steps", "simulated time of the overlay (s)"} <= {f.choice for f in report.figures()}  # fmt: skip


def test_what_travels_beside_a_silos_network(tmp_path: Path) -> None:
    varied = {
        "optimizer": {"training.optimizer": "gradient-tracking"},
        "variates": {"federation.scenario": "star", "federation.control-variates": True},
    }
    said = []
    for name, settings in varied.items():
        rows = [round_row(1, rmse=0.2), round_row(1, "closing")]
        said.append(leaves(make_report([str(write_run(tmp_path / name, "cdl", rows, settings))])))
    assert "its network, and as much again for its optimizer" in said[0]
    assert "its network, and as much again for its control variates" in said[1]


def test_folds_of_a_party_are_one_line_and_tests_have_the_papers_names(written) -> None:
    report = make_report([str(written.parties)])
    rows = {row["run"]: row for row in table_named(report, "Final scores")}
    assert rows["FedRL-1"]["success (%)"] == "70.0 ± 14.1" and rows["FedRL-1"]["runs"] == "2"
    assert rows["FedRL-2"]["success (%)"] == "80.0 ± 14.1"
    assert rows["DQN-alpha + noise"]["success (%)"] == "40.0"
    published = {row[""]: row for row in table_named(report, "Table 1") if row["from"] == "paper"}
    assert published["FedRL-2"]["success (%)"] == "95.06"
    text = leaves(report)
    assert "alpha 100, beta 200" in text and "No differential-privacy guarantee" in text
    assert "MLP, which all parties update in turn" in text and "gradients" not in text
    assert "DQN-alpha" not in text and "dqn-alpha: alpha learns alone" in text


@pytest.mark.parametrize("paper", [FEDVLN_PAPER, CDL_PAPER, FEDRL_PAPER])
def test_published_numbers_are_sourced_numbers(paper) -> None:
    assert paper["source"]

    def values(found):
        for key, value in found.items():
            if key == "rows":
                yield from (cell for row in value.values() for cell in row.values())
            elif isinstance(value, dict):
                yield from values(value)

    printed = list(values(paper))
    assert len(printed) > 30
    for cell in printed:
        assert cell == "-" or float(cell.replace(",", "")) is not None


def test_a_system_without_answers_is_reported_by_its_metrics(tmp_path: Path) -> None:
    run_toy(tmp_path)
    report = make_report([str(tmp_path / "run")])
    assert report.answer[0].startswith(
        "toy, loss (lower is better): run "
    )  # whether more is better, nobody said
    titles = [section.title for section in report.parts[0].sections]
    assert titles[0] == "What came out" and "Curves" in titles and "Beside the paper" not in titles
    assert len(table_named(report, "Every client")) == 3
