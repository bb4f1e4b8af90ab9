"""A roster made of what nodes say, on the command line: the one that a simulation of all data has."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsuite.roster.members import CONTENT, Member, Roster, read_roster
from fedsuite.roster.node_report import Part, write_part
from tests import cdl_runs, fedrl_runs, fedvln_runs
from tests.driving.data.test_fleet import labels
from tests.harness import config_from, prepared, toml_from
from tests.nodes import write_node, write_own_house

Call = Callable[..., tuple[int, str, str]]


def said(call: Call, base: Path, toml: str, nodes: list[Path], *options: str) -> list[str]:
    """The files of what nodes say."""
    (base / "run.toml").write_text(toml)
    parts = [f"part-{number}.json" for number in range(len(nodes))]
    for part, node in zip(parts, nodes, strict=True):
        command = ["data", "prepare-node", str(node), "run.toml", "--out", part, *options]
        done = call(*command, engine=False)
        assert done[0] == 0, done
    return parts


def joined(call: Call, base: Path, parts: list[str], *options: str) -> Roster:
    """The roster that is made of them."""
    done = call("data", "make-roster", *parts, "--out", "made.json", *options, engine=False)
    assert done[0] == 0, done
    return read_roster((base / "made.json").rename(base / "roster.json"))


def node_of(base: Path, name: str, **keys: Any) -> Path:
    """Its roster is not there yet."""
    return write_node(base / name, name, Path("roster.json"), **keys)


def test_houses(data_dir: Path, tmp_path: Path, call: Call) -> None:
    where = {"data-dir": str(data_dir), "features": str(data_dir / "features.tsv")}
    own = {**fedvln_runs.TINY, "system": "fedvln", **where}
    config = config_from({**own, "cache-dir": str(tmp_path / "cache")})
    simulated = prepared(config)
    nodes = []
    for name in simulated.names:
        write_own_house(data_dir, tmp_path / name / "data", name)
        places = {"dir": "data", "features": "data/features.tsv"}
        nodes.append(node_of(tmp_path, name, data=places))
    toml = toml_from(own)
    parts = said(call, tmp_path, toml, nodes, "--count-words")
    counted = joined(call, tmp_path, parts, "--min-word-count", "1")
    assert set(counted.words) == set(simulated.words)
    words = tmp_path / "vocabulary.json"
    words.write_text(json.dumps(simulated.words))
    given = joined(call, tmp_path, parts, "--vocabulary", str(words))
    assert given.members == simulated.members and given.digest == simulated.digest


def test_files_that_are_there_are_left_alone(tmp_path: Path, call: Call) -> None:
    part = Part("fedvln", Member("oak", "seen", 3))
    write_part(tmp_path / "part.json", part)
    make = ["data", "make-roster", "part.json", "--out", "made.json"]
    code, _, err = call(*make, engine=False)
    assert code == 2 and "says no words; give a vocabulary with --vocabulary" in err
    (tmp_path / "words.txt").write_text("<PAD>\n<UNK>\n<EOS>\nleft\n")
    both = ("--vocabulary", "words.txt", "--min-word-count", "5")
    code, _, err = call(*make, *both, engine=False)
    assert code == 2 and "--min-word-count: the words of --vocabulary are not counted" in err
    (tmp_path / "made.json").write_text("mine")
    code, _, err = call(*make, "--vocabulary", "words.txt", engine=False)
    assert code == 2 and "made.json: is there already, nothing in it was touched" in err
    assert (tmp_path / "made.json").read_text() == "mine"
    write_part(tmp_path / "bad.json", replace(part, member=Member("oak", "seen", -1)))
    make = ["data", "make-roster", "bad.json", "--out", "new.json", "--vocabulary", "words.txt"]
    code, _, err = call(*make, engine=False)
    assert code == 2 and "oak: examples must be a whole number >= 0" in err
    assert not (tmp_path / "new.json").exists()


def test_what_a_node_said_is_written_anew_where_that_is_asked_for(
    tmp_path: Path, call: Call
) -> None:
    """And a file that is there is noticed before any data are read."""
    own = {**cdl_runs.TINY, "num-silos": 0, "data-dir": "/all/drives"}
    (tmp_path / "run.toml").write_text(toml_from(own))
    node = node_of(tmp_path, "ada", data={"dir": "drives"})
    (tmp_path / "ada.json").write_text("mine")
    command = ["data", "prepare-node", str(node), "run.toml", "--out", "ada.json"]
    code, out, err = call(*command, engine=False)
    assert code == 2 and "ada.json: is there already, nothing in it was touched" in err
    assert err.count("\n") == 1 and "drives" not in err + out and "--overwrite" in err
    code, _, err = call(*command, "--overwrite", engine=False)
    assert code == 2 and "drives" in err and (tmp_path / "ada.json").read_text() == "mine"
    cdl_runs.write_drives(tmp_path / "ada" / "drives", ("ada",))
    assert call(*command, "--overwrite", engine=False)[0] == 0
    assert json.loads((tmp_path / "ada.json").read_text())["member"]["name"] == "ada"


def test_vehicles(tmp_path: Path, call: Call) -> None:
    cdl_runs.write_drives(tmp_path / "drives")
    own = {**cdl_runs.TINY, "num-silos": 0, "data-dir": str(tmp_path / "drives")}
    simulated = prepared(config_from({**own, "cache-dir": str(tmp_path / "cache")}))
    nodes = []
    for name in ("ada", "bob"):
        cdl_runs.write_drives(tmp_path / name / "drives", (name,))
        nodes.append(node_of(tmp_path, name, data={"dir": "drives"}))
    roster = joined(call, tmp_path, said(call, tmp_path, toml_from(own), nodes))
    assert roster.members == simulated.members
    assert roster.facts == {
        k: v for k, v in simulated.facts.items() if k not in ("folder", CONTENT)
    }


@pytest.mark.parametrize(
    ("bobs", "complaint"),
    [
        ("angle-scale = 0.4363", 'unit is "radians", in part-0.json it is "fraction of full lock"'),
        ('angle-unit = "normalised"', 'full lock is "of a car of csv", in part-0.json it is "of a car of udacity_sim"'),
    ],
)  # fmt: skip
def test_vehicles_of_two_units(tmp_path: Path, call: Call, bobs: str, complaint: str) -> None:
    """Each is right by itself; who joins them is told what both can do."""
    cdl_runs.write_drives(tmp_path / "ada" / "drives", ("ada",))
    own = tmp_path / "bob" / "drives" / "bob"
    if "unit" in bobs:
        labels(own, *(30 * [0.5, -0.5]))
    else:
        cdl_runs.write_drives(own.parent, ("bob",))
    (own.parent / "drives.toml").write_text(f"[bob]\n{bobs}\n")
    nodes = [node_of(tmp_path, name, data={"dir": "drives"}) for name in ("ada", "bob")]
    run = toml_from({**cdl_runs.TINY, "num-silos": 0, "data-dir": "/all/drives"})
    parts = said(call, tmp_path, run, nodes)
    code, _, err = call("data", "make-roster", *parts, "--out", "made.json", engine=False)
    assert code == 2 and complaint in err and not (tmp_path / "made.json").exists()
    assert "angle-unit and angle-scale (radians at full lock) in the drives.toml" in err


def test_parties(tmp_path: Path, call: Call) -> None:
    own = {**fedrl_runs.TINY, "system": "fedrl"}
    simulated = prepared(config_from({**own, "cache-dir": str(tmp_path / "cache")}))
    nodes = [node_of(tmp_path, role) for role in ("alpha", "beta")]
    roster = joined(call, tmp_path, said(call, tmp_path, toml_from(own), nodes))
    assert roster.digest == simulated.digest


@pytest.mark.parametrize(
    ("name", "keys", "complaint"),
    [
        (
            "cat",
            {"data": {"dir": "drives"}},
            "which holds ada; expected a folder with the drive cat",
        ),
        ("ada", {}, "node's file names nothing; set data.dir there"),
        ("ada", {"allow_systems": ["fedrl"]}, 'the run wants "cdl", this node allows fedrl'),
    ],
)
def test_nodes_that_do_not_fit(
    tmp_path: Path, call: Call, name: str, keys: dict[str, Any], complaint: str
) -> None:
    cdl_runs.write_drives(tmp_path / name / "drives", ("ada",))
    own = {**cdl_runs.TINY, "num-silos": 0, "data-dir": "/all/drives"}
    (tmp_path / "run.toml").write_text(toml_from(own))
    node = node_of(tmp_path, name, **keys)
    code, out, err = call("data", "prepare-node", str(node), "run.toml", engine=False)
    assert code == 2 and out == "" and complaint in err
