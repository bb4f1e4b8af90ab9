"""The leaderboard's split: houses of their own that only walk, in the end, for a submission; never scored, never silent."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fedsuite.errors import InputError
from fedsuite.storage.files import sha256_of
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.graph import load_graph
from fedsuite.vln.data.roster import make_roster
from fedsuite.vln.data.sources import open_sources, prepare_sources
from fedsuite.vln.report.run import write_results
from simulations.engines.inprocess import run_inprocess
from simulations.systems import settings_of
from tests.conftest import features_of, random_items, tsv_line, write_grid
from tests.harness import config_from

TINY: dict[str, Any] = {
    "system": "fedvln", "name": "run", "hidden-size": 16, "word-embedding-size": 8, "action-embedding-size": 4,
    "angle-feature-size": 4, "max-actions": 4, "train-max-actions": 3, "batch-size": 8, "objective": "imitation",
    "participation-rate": 1.0, "local-epochs": 1, "num-rounds": 1, "min-word-count": 1, "submission": True,
}  # fmt: skip
TEST_HOUSES = {"fir": 3, "yew": 2}  # paths, of three instructions each


@pytest.fixture
def leaderboard_dir(data_dir: Path) -> Path:
    """Three houses as R2R has them, and two of the test split, whose paths hold their start alone."""
    connectivity, items, lines = data_dir / "connectivity", [], []
    for number, (scan, paths) in enumerate(TEST_HOUSES.items(), 7):
        write_grid(connectivity, scan, rows=2, columns=4, seed=number)
        graph = load_graph(connectivity, scan)
        for item in random_items(graph, paths, 1000 * number, seed=number):
            kept = {k: v for k, v in item.items() if k != "distance"}
            items.append({**kept, "path": item["path"][:1]})
        lines += [tsv_line(scan, v, features_of(scan, v)) for v in graph.viewpoint_ids]
    (data_dir / "annotations" / "R2R_test.json").write_text(json.dumps(items))
    with (data_dir / "features.tsv").open("a") as features:
        features.writelines(lines)
    return data_dir


def config_of(data_dir: Path, **changes: Any) -> dict[str, Any]:
    base = data_dir.parent
    paths = {"data-dir": str(data_dir), "features": str(data_dir / "features.tsv")}
    places = {"cache-dir": str(base / "cache"), "results-dir": str(base / "runs")}
    open_sources.cache_clear()
    return config_from({**TINY, **paths, **places}, **changes)


def settings(data_dir: Path, **changes: Any) -> FedVLNConfig:
    found = settings_of(config_of(data_dir, **changes))[1]
    assert isinstance(found, FedVLNConfig)
    return found


@pytest.mark.parametrize("method", ["federated", "centralised"])
def test_the_test_split_is_walked_for_the_leaderboard_and_never_scored(
    leaderboard_dir: Path, method: str
) -> None:
    run_inprocess(config_of(leaderboard_dir, method=method))
    run = leaderboard_dir.parent / "runs" / "run"
    wanted = json.loads((leaderboard_dir / "annotations" / "R2R_test.json").read_text())
    starts = {f"{i['path_id']}_{k}": (i["scan"], i["path"][0]) for i in wanted for k in range(3)}
    entries = json.loads((run / "submit_test.json").read_text())
    assert [set(e) for e in entries] == [{"instr_id", "trajectory"}] * len(starts)
    assert {e["instr_id"] for e in entries} == set(starts)
    moves = 0
    for entry in entries:
        scan, start = starts[entry["instr_id"]]
        graph = load_graph(leaderboard_dir / "connectivity", scan)
        places = [graph.index[place] for place, heading, elevation in entry["trajectory"]]
        assert graph.viewpoint_ids[places[0]] == start
        assert all(graph.edge[a, b] for a, b in pairwise(places))
        moves += len(places) - 1
    assert moves > 0
    history = (run / "history.jsonl").read_text()
    assert '"test.' not in history, "no score of the test split may be there"
    assert {"submission_val_seen.json", "submission_val_unseen.json"} <= {
        f.name for f in run.iterdir()
    }


def test_houses_that_only_walk_change_nothing_in_training(leaderboard_dir: Path) -> None:
    models = []
    for name, submission in (("with", True), ("without", False)):
        run_inprocess(config_of(leaderboard_dir, name=name, submission=submission, num_rounds=2))
        run = leaderboard_dir.parent / "runs" / name
        models.append(sha256_of((run / "model.safetensors").read_bytes()))
    assert models[0] == models[1]
    rows = [json.loads(row) for row in (run.parent / "with" / "history.jsonl").open()]
    asked = [r for r in rows if r.get("name") in TEST_HOUSES and r["task"] != "query"]
    assert [(r["name"], r["task"], r["num-examples"]) for r in asked] == [
        ("fir", "evaluate", 9),
        ("yew", "evaluate", 6),
    ]
    assert all(r["bytes-up"] == 0 and r["metrics"].keys() <= {"loss"} for r in asked)


def test_a_house_that_was_lost_in_the_end_is_named(leaderboard_dir: Path) -> None:
    run_inprocess(config_of(leaderboard_dir))
    run = leaderboard_dir.parent / "runs" / "run"
    assert "incomplete" not in (run / "results.md").read_text()
    (run / "clients" / "yew" / "submission_test_yew.json").unlink()
    write_results(settings(leaderboard_dir), run)
    last = (run / "results.md").read_text().splitlines()[-1]
    assert last == "submit_test.json is incomplete: yew did not walk."


def test_who_is_on_the_roster(leaderboard_dir: Path) -> None:
    for submission, expected in ((True, ["oak", "elm", "ash", "fir", "yew"]), (False, ["oak", "elm", "ash"])):  # fmt: skip
        config = settings(leaderboard_dir, submission=submission)
        roster = make_roster(config, prepare_sources(config))
        assert roster.names == expected
        roles = {m.name: m.role for m in roster.members}
        assert all(roles[name] == "test" for name in TEST_HOUSES if name in roles)
    assert roles["ash"] == "unseen"


def test_a_training_house_may_be_in_the_test_split_too(leaderboard_dir: Path) -> None:
    """It is one client, which walks for the leaderboard beside what it does anyway."""
    file = leaderboard_dir / "annotations" / "R2R_test.json"
    items = [{**i, "path_id": i["path_id"] + 5} for i in json.loads(file.read_text())]
    train = json.loads((file.parent / "R2R_train.json").read_text())[0]
    file.write_text(json.dumps([{**train, "path": train["path"][:1], "path_id": 77}, *items]))
    config = settings(leaderboard_dir)
    assert make_roster(config, prepare_sources(config)).names == ["oak", "elm", "ash", "fir", "yew"]
    run_inprocess(config_of(leaderboard_dir))
    entries = json.loads((leaderboard_dir.parent / "runs" / "run" / "submit_test.json").read_text())
    assert {"77_0", "77_1", "77_2"} < {e["instr_id"] for e in entries}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "R2R_test.json is not there; the submission is for the validation splits only"),
        ({"dir": "", "features": ""}, "generated houses have no test split"),
        ({"submission": False}, ""),
    ],
)
def test_a_submission_without_the_test_split_says_so(
    data_dir: Path, changes: dict[str, Any], said: str
) -> None:
    small = {
        "generated-seen-houses": 1,
        "generated-unseen-houses": 1,
        "generated-paths-per-house": 4,
    }
    paths = {"data.dir" if k == "dir" else k: v for k, v in changes.items()}
    config = settings(data_dir, **small, **paths)
    lines: list[str] = []
    prepare_sources(config, lambda what, done=0, total=0: lines.append(what))
    about = [line for line in lines if "evaluation.submission" in line]
    assert len(about) == bool(said) and all(said in line and "\n" not in line for line in about)


def test_pre_exploration_says_that_it_leaves_the_test_split_out(leaderboard_dir: Path) -> None:
    config = settings(leaderboard_dir, stage="pre-explore", start_from="x", speaker_from="y")
    lines: list[str] = []
    sources = prepare_sources(config, lambda what, done=0, total=0: lines.append(what))
    assert sources.test_scans == []
    assert [line for line in lines if "houses of R2R_test.json do not practise" in line]


@pytest.mark.parametrize("lacks", ["connectivity", "features"])
def test_a_test_house_without_graph_or_features_is_named_with_two_cures(
    leaderboard_dir: Path, lacks: str
) -> None:
    if lacks == "connectivity":
        (leaderboard_dir / "connectivity" / "yew_connectivity.json").unlink()
    else:
        file = leaderboard_dir / "features.tsv"
        kept = [line for line in file.open() if not line.startswith("yew\t")]
        file.write_text("".join(kept))
    with pytest.raises(InputError) as refused:
        prepare_sources(settings(leaderboard_dir))
    line = str(refused.value)
    assert "\n" not in line and "yew" in line
    assert "or move R2R_test.json out of annotations/ to submit without it" in line
    (leaderboard_dir / "annotations" / "R2R_test.json").rename(leaderboard_dir / "R2R_test.json")
    open_sources.cache_clear()
    assert prepare_sources(settings(leaderboard_dir)).test_scans == []
