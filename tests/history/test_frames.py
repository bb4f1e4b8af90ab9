"""Frames of real runs of the three systems, and what becomes of damaged, torn and missing files."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from fedsuite.errors import InputError
from fedsuite.history import HISTORY, TIMINGS, load_run, load_runs, read_rows, reading, run_folders
from fedsuite.history.frames import RunFrames
from tests.growing import GrowingRun
from tests.history.conftest import NAMES

pytestmark = pytest.mark.slow

WIDE = ("rounds", "clients", "closing", "closing_clients")
ROW = '{"round": 1, "kind": "round", "metrics": {"loss": 0.5}}\n'


def written(folder: Path, text: str, name: str = HISTORY) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder


def experiment(folder: Path, *labels: str) -> Path:
    for number, label in enumerate(labels):
        written(folder / label, ROW.replace("0.5", str(number)))
    runs = [{"name": label, "settings": {}} for label in labels]
    (folder / "experiment.json").write_text(json.dumps({"format": 1, "runs": runs}))
    return folder


def test_the_quick_reader_gives_the_frames_of_the_plain_one(
    three_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = load_runs(three_runs)
    frames = {name: getattr(quick, name) for name in (*WIDE, "evaluations", "messages", "timing")}

    def refuse(*_: object) -> None:
        raise reading.Unreadable

    monkeypatch.setattr(reading, "_arrow", refuse)
    plain = load_runs(three_runs)
    for name, frame in frames.items():
        assert_frame_equal(frame, getattr(plain, name), obj=name)
    assert [len(frames[name]) > 0 for name in WIDE] == [True] * 4
    assert list(frames["rounds"]["run"].unique()) == list(NAMES)


def test_rounds_are_the_rows_of_the_file(three_runs: Path) -> None:
    for name in NAMES:
        rows = [r for r in read_rows(three_runs / name / HISTORY) if r["kind"] == "round"]
        frame = load_run(three_runs / name).rounds
        told = [{k: v for k, v in line.items() if pd.notna(v)} for line in frame.to_dict("records")]
        assert told == [{"run": name, "round": r["round"], **r["metrics"]} for r in rows]


def test_evaluations_have_splits_units_and_clients(three_runs: Path) -> None:
    runs = load_runs(three_runs)
    found = runs.evaluations
    of = {name: found[found["run"] == name] for name in NAMES}
    vln = of["vln-train-parallel"]
    success = vln[(vln["metric"] == "sr") & (vln["split"] == "val_unseen")]
    assert set(success["unit"]) == {"share"} and "" in set(success["client"])
    together = success[success["client"] == ""].set_index("round")["value"]
    wide = runs.rounds[runs.rounds["run"] == "vln-train-parallel"].set_index("round")
    assert together.to_dict() == wide["val_unseen.sr"].dropna().to_dict()
    assert success["client"].nunique() == 3  # two unseen houses, and all
    assert {"silo-00", "silo-03", ""} <= set(of["cdl-ring"]["client"])
    own = of["cdl-ring"][of["cdl-ring"]["metric"] == "own.count"]
    assert set(own["value"]) == {6.0} and set(own["unit"]) == {"count"}
    tests = of["rl-joint"][of["rl-joint"]["closing"]]
    assert {"test", "test-noisy"} <= set(tests["split"])
    training = {"local-steps", "update-norm", "epsilon", "mixings", "loss", "released.0"}
    assert not training & set(found["metric"]) and "train" not in set(found["split"])


def test_messages_count_every_byte_and_message(three_runs: Path) -> None:
    found = load_runs(three_runs).messages
    for name in NAMES:
        rows = [r for r in read_rows(three_runs / name / HISTORY) if "client" in r["kind"]]
        own = found[found["run"] == name]
        for key in ("bytes-down", "bytes-up"):
            assert own[key].sum() == sum(r[key] for r in rows) > 0
        assert own["messages"].sum() == sum(r.get("messages", 1) for r in rows)
        assert set(own["client"]) == {r["name"] for r in rows}


def test_local_work_is_that_of_all_clients_of_a_round(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "run")
    for number in (1, 2):
        run.ask(number, answered=number)
        run.round(number)
    found = load_run(run.path).timing.set_index("round")
    assert found["local-work-s"].to_dict() == pytest.approx({1: 0.9, 2: 1.8})
    assert found["waiting-s"].to_dict() == {1: 0.5, 2: 0.5}


def test_timing_says_where_a_round_went(three_runs: Path) -> None:
    runs = load_runs(three_runs)
    found = runs.timing
    assert found["total-s"].gt(0).all()
    parts = found[["waiting-s", "merging-s", "evaluation-s"]]
    assert parts.notna().all(axis=None) and parts.ge(0).all(axis=None)
    assert (parts.sum(axis=1) <= found["total-s"]).all()
    trained = found[(found["round"] > 0) & ~found["closing"]]
    assert trained["local-work-s"].gt(0).all() and trained["waiting-s"].gt(0).all()
    assert (trained["local-work-s"] <= trained["waiting-s"]).all()  # one after another, in process
    start = found[found["startup-s"] > 0]
    assert list(start["round"]) == [0] * 3
    for name in NAMES:
        of_rounds = runs.rounds[runs.rounds["run"] == name]["serial-depth"].max()
        assert found[found["run"] == name]["serial-depth"].sum() == of_rounds > 0


def test_what_parties_compute_while_they_are_scored_is_no_work_of_training(
    three_runs: Path,
) -> None:
    def messages(file: str) -> dict[tuple[int, int, str], int]:
        rows = [r for r in read_rows(three_runs / "rl-joint" / file) if r["kind"] == "client"]
        return {(r["round"], r["partition"], r["task"]): r["messages"] for r in rows}

    told, timed = messages(HISTORY), messages(TIMINGS)
    assert told == timed
    for number in {number for number, _, _ in told}:  # it evaluates every second round
        tasks = {task for own, _, task in told if own == number}
        assert tasks == ({"train"} if number == 1 else {"train", "evaluate"})
    runs = load_runs(three_runs)
    (scored,) = [r for name, r in runs.evaluations.groupby("run", observed=True) if "joint" in name]
    assert set(scored["client"]) == {""} and set(scored["split"]) == {"valid", "test", "test-noisy"}
    after = runs.closing_clients[runs.closing_clients["run"] == "rl-joint"]
    assert set(after["task"]) == {"evaluate"} and after["messages"].gt(1).all()


def test_a_run_knows_what_it_was(three_runs: Path, tmp_path: Path) -> None:
    run = load_run(three_runs / "vln-train-parallel")
    assert (run.system, run.seed, run.status, run.experiment) == (
        "tests.golden.runs:FEDVLN", 0, "completed", "",
    )  # fmt: skip
    assert run.config["num-rounds"] == 4 and "torch" in run.versions
    about = load_runs(three_runs).about
    assert list(about["run"]) == list(NAMES) and about["data"].str.fullmatch("[0-9a-f]{16}").all()
    assert about["data"].nunique() == 3
    moved = shutil.copytree(run.folder, tmp_path / "moved")
    assert load_run(moved).data == run.data
    settings = json.loads((moved / "config.json").read_text())
    elsewhere = {**settings, "data.cache-dir": "/elsewhere/cache"}
    (moved / "config.json").write_text(json.dumps(elsewhere))
    assert load_run(moved).data == run.data  # where houses are kept says nothing of what they are
    other = {**settings, "data.generated-seen-houses": 1 + settings["data.generated-seen-houses"]}
    (moved / "config.json").write_text(json.dumps(other))
    assert load_run(moved).data != run.data
    (moved / "config.json").write_text(json.dumps(settings))
    roster = json.loads((moved / "roster.json").read_text())
    roster["members"][0]["examples"] += 1
    (moved / "roster.json").write_text(json.dumps(roster))
    assert load_run(moved).data != run.data


def test_a_run_says_its_last_scores(three_runs: Path) -> None:
    """By themselves, a line per run, and as a notebook shows them."""
    run, runs = load_run(three_runs / "vln-train-parallel"), load_runs(three_runs)
    rows = read_rows(run.folder / HISTORY)
    last: dict[str, float] = {}
    for row in sorted(rows, key=lambda row: row["kind"] == "closing"):
        last |= row["metrics"] if row["kind"] in ("round", "closing") else {}
    assert run.final == last and last
    (line,) = runs.final[runs.final["run"] == run.name].to_dict("records")
    assert {name: line[name] for name in last} == last and line["seed"] == 0
    page = run._repr_html_()
    assert "<td>completed</td>" in page and f"<td>{100 * last['val_unseen.sr']:.4g}</td>" in page
    assert "val_unseen.sr (%)" in page and "local-steps" not in page
    assert all(name in runs._repr_html_() for name in NAMES)


def test_what_a_notebook_shows_of_a_run_has_no_markup_of_its_own(tmp_path: Path) -> None:
    written(tmp_path / "<b>run", '{"round": 0, "kind": "round", "metrics": {"<i>loss": 1.0}}\n')
    page = load_run(tmp_path / "<b>run")._repr_html_()
    assert "<b>" not in page and "<i>" not in page and "&lt;b&gt;run" in page


def test_a_run_is_found_by_its_name(
    three_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(three_runs / NAMES[0], tmp_path / "runs" / "methods" / "one")
    monkeypatch.chdir(tmp_path)
    inside = load_run("methods/one")
    assert inside.folder == tmp_path / "runs/methods/one"
    assert [run.folder for run in load_runs(["methods", "methods/one"]).runs] == [inside.folder]
    with pytest.raises(InputError, match="no such run folder"):
        load_run("methods/two")


def test_a_running_run_loads_without_its_torn_line(three_runs: Path, tmp_path: Path) -> None:
    for name in NAMES:
        whole = (three_runs / name / HISTORY).read_bytes()
        cut = whole[: whole.index(b"\n", len(whole) // 2) + 40]
        run = written(tmp_path / name, "")
        (run / HISTORY).write_bytes(cut)
        frames = load_run(run)
        assert len(frames.rounds) + len(frames.clients) == cut.count(b"\n")
        assert frames.timing.empty and "total-s" in frames.timing


@pytest.mark.parametrize("text", ["", '{"round": 0, "ki'])
def test_a_run_without_rows_has_empty_frames(tmp_path: Path, text: str) -> None:
    run = load_run(written(tmp_path / "run", text))
    for name in (*WIDE, "evaluations", "messages", "timing"):
        assert len(getattr(run, name)) == 0


@pytest.mark.parametrize(
    "line",
    [
        "garbage", "[1]", "", '{"kind": "round"}', '{"round": 1}', '{"round": 1.5, "kind": "round"}',
        '{"round": 1, "kind": "round", "metrics": {"loss": NaN}}',
        '{"round": 1, "kind": "round", "metrics": {"loss": 1e999}}',
        '{"round": 1, "kind": "round", "metrics": {"loss": null}}',
        '{"round": 1, "kind": "round", "metrics": {"loss": "low"}}',
        '{"round": 1, "kind": "round", "metrics": 3}',
        '{"round": 1, "kind": "round"}{"round": 2, "kind": "round"}', "null", '{"round": 1, "kind": "\xff"}',
        '{"round": 1, "kind": "client", "partition": 0, "name": "oak", "status": "ok"}',
        '{"round": 1, "kind": "client", "partition": 0, "name": ["oak"], "task": "train", "status": "ok"}',
    ],
)  # fmt: skip
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    run = written(tmp_path / "run", "")
    (run / HISTORY).write_bytes((ROW + line + "\n" + ROW).encode("latin-1"))
    with pytest.raises(InputError, match=r"history\.jsonl: line 2 is damaged"):
        _ = load_run(run).rounds


@pytest.mark.parametrize(("line", "found"), [('"metrcs": {}', "metrcs"), ('"metrics": {"run": 1.0}', "run")])  # fmt: skip
def test_what_no_history_has_is_named(tmp_path: Path, line: str, found: str) -> None:
    """Not shown as a metric, and not in the place of a column."""
    run = written(tmp_path / "run", ROW + f'{{"round": 2, "kind": "round", {line}}}\n')
    with pytest.raises(InputError, match=f"a row has {found} where no history has it"):
        _ = load_run(run).rounds


def test_a_line_that_is_null_does_not_end_the_process(tmp_path: Path) -> None:
    """As it does inside Arrow, where it is the first of a file of times."""
    run = written(tmp_path / "run", ROW)
    written(run, "null\n" + ROW, TIMINGS)
    with pytest.raises(InputError, match=r"timings\.jsonl: line 1 is damaged"):
        _ = load_run(run).timing


def test_an_unknown_kind_is_told(tmp_path: Path) -> None:
    run = written(tmp_path / "run", ROW + '{"round": 1, "kind": "lap"}\n')
    with pytest.raises(InputError, match="a row of kind lap, expected round, client"):
        _ = load_run(run).rounds


def test_what_arrow_cannot_hold_is_read_plainly(tmp_path: Path) -> None:
    large = ROW.replace("0.5", str(2 * 10**29))
    frame = load_runs([written(tmp_path / "a", ROW), written(tmp_path / "b", large)]).rounds
    assert list(frame["run"]) == ["a", "b"] and int(frame["loss"][1]) > 10**29


def test_columns_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    client = {
        "round": 1,
        "kind": "client",
        "partition": 0,
        "name": "a",
        "task": "train",
        "status": "ok",
    }
    lines = [
        {**client, "metrics": {"z": 1.0, "b": 2}},
        {**client, "name": "b", "metrics": {"c": 1.0, "z": 2.0}, "messages": 3},
        {"round": 1, "kind": "round", "metrics": {"b": 1.0, "c": 1.0, "z": 4.0}},
    ]
    run = load_run(written(tmp_path / "run", "".join(json.dumps(line) + "\n" for line in lines)))
    heads = [name for name in client if name != "kind"]
    assert list(run.clients.columns) == ["run", *heads, "z", "b", "messages", "c"]
    assert list(run.rounds.columns) == ["run", "round", "b", "c", "z"]


@pytest.mark.parametrize("label", ["../a", "/a", "a//b", "", "a" * 300, "a\0"])
def test_an_experiment_has_its_runs_below_it(tmp_path: Path, label: str) -> None:
    folder = experiment(tmp_path / "one", "a")
    record = {"format": 1, "runs": [{"name": label, "settings": {}}]}
    (folder / "experiment.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"experiment\.json: lists no runs with name and settings"):
        load_runs(folder)


def test_runs_are_found_and_named_apart(tmp_path: Path) -> None:
    one = experiment(tmp_path / "one", "a/seed-0", "a/seed-1", "b/seed-0")
    two = experiment(tmp_path / "two", "seed-0", "seed-1")
    written(tmp_path / "alone", ROW)
    runs = load_runs(tmp_path)
    names = ["alone", "one/a/seed-0", "one/a/seed-1", "one/b/seed-0", "two/seed-0", "two/seed-1"]
    assert list(runs.rounds["run"]) == names == [run.name for run in runs.runs]
    assert list(runs.about["variant"]) == ["", "a", "a", "b", "", ""]
    assert list(load_runs([one / "b" / "seed-0", two, one]).rounds["run"]) == [
        "one/b/seed-0", "two/seed-0", "two/seed-1", "one/a/seed-0", "one/a/seed-1",
    ]  # fmt: skip
    again = shutil.copytree(one, tmp_path / "copy" / "one")
    both = load_runs([one / "a" / "seed-0", again / "a" / "seed-0"])
    assert [run.name for run in both.runs] == [f"{tmp_path.name}/one/a/seed-0", "copy/one/a/seed-0"]
    assert run_folders(one) == [one / "a/seed-0", one / "a/seed-1", one / "b/seed-0"]
    with pytest.raises(InputError, match="3 runs in this folder, expected one"):
        load_run(one)


def test_frames_can_be_replaced(three_runs: Path) -> None:
    run: RunFrames = load_run(three_runs / NAMES[0])
    other: Any = run.rounds.assign(new=np.arange(len(run.rounds)))
    assert "new" in run.replaced(rounds=other).rounds and "new" not in run.rounds
    assert len(run.clients) == len(run.replaced(rounds=other).clients)


def test_damaged_timings_are_told(tmp_path: Path) -> None:
    run = written(tmp_path / "run", ROW)
    written(run, "garbage\n", TIMINGS)
    with pytest.raises(
        InputError, match=r"timings\.jsonl: line 1 is damaged.*times alone are lost"
    ):
        _ = load_run(run).timing
