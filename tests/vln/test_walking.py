"""Finished runs walk by hand: what they do then is what their evaluation did, and refusals are one line."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedsuite.arrays import module_arrays
from fedsuite.errors import InputError
from fedsuite.history import read_rows
from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.vln.walking import LONGEST_INSTRUCTION, Walker
from tests.fedvln_runs import METHODS, Chain, chain_in

pytestmark = pytest.mark.slow

FED_LAN = {**METHODS["fed-lan"], "submission": True}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return chain_in(tmp_path_factory.getbasetemp(), __name__)


@pytest.fixture(scope="module")
def explored(chain: Chain) -> Path:
    """A round of Fed-Lan, with submissions."""
    chain.play("walked", **FED_LAN)
    return chain.run("walked")


def scans(run: Path, role: str) -> list[str]:
    return [m.name for m in read_roster(run / ROSTER).members if m.role == role]


@pytest.fixture(scope="module")
def walker(chain: Chain) -> Walker:
    """The trained agent in an unseen house."""
    run = chain.run("train")
    return Walker.of_run(run, scans(run, "unseen")[0])


def test_walks_score_as_the_runs_evaluation_did(chain, walker):
    scan = walker.house.graph.scan
    walks = [walker.walk(path=s.instr_id) for s in walker.house.samples["val_unseen"]]
    rows = read_rows(chain.run("train") / "history.jsonl")
    (row,) = [
        r for r in rows if r.get("task") == "evaluate" and (r["name"], r["round"]) == (scan, 1)
    ]
    assert len(walks) == row["metrics"]["val_unseen.count"]
    for name in walks[0].scores:
        mean = np.mean([w.scores[name] for w in walks])
        assert mean == pytest.approx(row["metrics"][f"val_unseen.{name}"], rel=1e-9), name


def test_a_houses_own_agent_walks_as_it_did_there(explored):
    scan = scans(explored, "unseen")[1]
    file = explored / "clients" / scan / f"submission_val_unseen_{scan}.json"
    walker = Walker.of_run(explored, scan, personal=True)
    entries = json.loads(file.read_text())
    assert len(entries) > 30
    for entry in entries:
        walk = walker.walk(path=entry["instr_id"])
        poses = list(zip(walk.viewpoints, walk.heading_rad.tolist(), strict=True))
        assert poses == [(v, h) for v, h, _ in entry["trajectory"]]


def test_a_house_that_trained_alone_walks_with_its_own_agent(chain):
    chain.play("alone", "train", **METHODS["env-based"])
    run = chain.run("alone")
    first, second = scans(run, "seen")
    stored = load_file(run / "model.safetensors")
    own = module_arrays(Walker.of_run(run, second, personal=True).agent)
    assert own and all(np.array_equal(v, stored[f"1/{k}"]) for k, v in own.items())
    assert any(not np.array_equal(v, stored[f"0/{k}"]) for k, v in own.items())
    with pytest.raises(
        InputError, match="alone leaves no whole agent with the server; give --pers"
    ):
        Walker.of_run(run, first)
    with pytest.raises(InputError, match="personal: alone keeps no agent of"):
        Walker.of_run(run, scans(run, "unseen")[0], personal=True)


def test_an_instruction_of_ones_own(walker):
    sample = walker.house.samples["val_unseen"][0]
    ids = walker.house.graph.viewpoint_ids
    text = "Xyzzy, walk to the kitchen and stop."
    plain = walker.walk(text)
    assert plain.viewpoints[0] == ids[sample.path[0]] and plain.unknown == ("xyzzy",)
    assert plain.scores == {} and plain.words[1] == "xyzzy"
    scored = walker.walk(text, path=str(sample.path_id))
    assert scored.viewpoints == plain.viewpoints
    assert scored.reference == tuple(ids[v] for v in sample.path) and scored.scores["ne"] >= 0
    north = walker.walk(text, start=ids[sample.path[0]][:12])
    assert north.heading_rad[0] == 0 and north.viewpoints[0] == plain.viewpoints[0]
    east = walker.walk(text, start=ids[sample.path[0]], heading_rad=math.pi / 2)
    assert east.heading_rad[0] == pytest.approx(math.pi / 2)
    again = walker.walk(text)
    assert again.viewpoints == plain.viewpoints and np.array_equal(again.attention, plain.attention)


def test_an_instruction_that_is_too_long_is_cut_as_in_training(walker):
    limit = walker.config.data.max_instruction_length
    walk = walker.walk("walk " * (limit + 18))
    assert len(walk.words) == limit == walk.attention.shape[1] and walk.left_out == 20
    assert walk.words[-2:] == ("walk", "<EOS>")


def test_lost_houses_are_made_again(chain, walker):
    cache = chain.root / "cache"
    kept = shutil.move(cache, chain.root / "kept")
    try:
        scan = walker.house.graph.scan
        again = Walker.of_run(chain.run("train"), scan).walk("Go to the kitchen.")
        assert again.viewpoints == walker.walk("Go to the kitchen.").viewpoints
    finally:
        shutil.rmtree(cache)
        shutil.move(kept, cache)


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ({}, "instruction: none was given"),
        ({"instruction": " \n "}, "instruction: it holds no word"),
        ({"instruction": "a" * (LONGEST_INSTRUCTION + 1)}, "20,001 characters long; give at most"),
        ({"instruction": "go", "path": "-3"}, 'no annotated path "-3"; it has '),
        ({"path": "no\nsuch"}, 'no annotated path "no'),
        ({"instruction": "go", "start": "xyz"}, 'begins with "xyz"; give an id such as '),
        ({"instruction": "go", "start": "a", "path": "1"}, "start: a path has its own start"),
        ({"instruction": "go", "heading_rad": math.inf}, "heading: expected a finite angle"),
    ],
)
def test_refused_tasks(walker, told, complaint):
    with pytest.raises(InputError) as error:
        walker.walk(**told)
    assert complaint in str(error.value) and "\n" not in str(error.value)


def test_refused_runs(chain, explored, tmp_path):
    train, house = chain.run("train"), scans(chain.run("train"), "unseen")[0]
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    shutil.copy(train / "config.json", unfinished)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "config.json").write_text('{"system": "cdl"}')
    refused = {
        f"house: give one of train; seen: {', '.join(scans(train, 'seen'))}; unseen: {house}": (train, ""),
        "house: train has no 'nope'; valid: ": (train, "nope"),
        "a speaker does not walk": (chain.run("speaker"), house),
        'a run of system "cdl"; give a run of FedVLN': (foreign, house),
        "has not ended: it holds no model.safetensors": (unfinished, house),
        "leaves no whole agent with the server; give --personal": (explored, house),
    }  # fmt: skip
    for complaint, (run, scan) in refused.items():
        with pytest.raises(InputError) as error:
            Walker.of_run(run, scan)
        assert complaint in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(InputError, match=f"personal: train keeps no agent of {house} alone"):
        Walker.of_run(train, house, personal=True)
    seen = scans(train, "seen")[0]
    with pytest.raises(InputError, match=f"{seen} keeps no agent of its own here"):
        Walker.of_run(explored, seen, personal=True)
