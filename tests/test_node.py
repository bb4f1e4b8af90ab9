"""A node's own file: what it may say, and one line for everything else."""

import json
from pathlib import Path

import pytest

from fedsuite.driving.config import CDLConfig
from fedsuite.errors import InputError
from fedsuite.roster.node import NodeSettings, drawn_noise_seed, own_paths, read_node
from fedsuite.vln.config import FedVLNConfig
from simulations.app.own_node import as_own


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder in which everything that a node's file may name is there."""
    for name in ("state", "data", "cache"):
        (tmp_path / name).mkdir()
    for name in ("roster.json", "views.tsv", "words.txt"):
        (tmp_path / name).write_text("")
    return tmp_path


GOOD = {"name": '"oak"', "roster": '"roster.json"', "state-dir": '"state"'}


def written(place: Path, **changes: str) -> Path:
    """node.toml of the good keys and others, as they stand in TOML; "" leaves a key out."""
    keys = GOOD | {k.replace("_", "-").replace("--", "."): v for k, v in changes.items()}
    file = place / "node.toml"
    file.write_text("".join(f"{k} = {v}\n" for k, v in keys.items() if v))
    return file


def test_paths_start_at_the_files_folder(place: Path) -> None:
    file = written(place, data__dir='"data"', data__features=json.dumps(str(place / "views.tsv")))
    node = read_node(file)
    assert (node.name, node.roster) == ("oak", str(place / "roster.json"))
    assert (node.data.dir, node.data.features) == (str(place / "data"), str(place / "views.tsv"))
    assert node.data.cache_dir == str(place / "state" / "cache")
    assert node.allowed == ("fedvln", "cdl", "fedrl") and node.most_shared == "agent"
    assert read_node(written(place, allow_systems='["cdl", "my.own:SYSTEM"]')).allowed == (
        "cdl",
        "my.own:SYSTEM",
    )
    assert read_node(written(place, allow_systems="[]")).allowed == ()


def test_device_and_threads_are_the_nodes_where_it_says_them(place: Path) -> None:
    run = CDLConfig(device="cuda", client_threads=3)
    same = as_own(run, NodeSettings(), place)
    assert (same.device, same.client_threads, same.results_dir) == ("cuda", 3, str(place))
    own = as_own(run, NodeSettings(device="cpu", threads=5), place)
    assert (own.device, own.client_threads) == ("cpu", 5)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"nmae": '"oak"'}, "unknown key 'nmae'; did you mean 'name'?"),
        ({"data__dri": '"data"'}, "unknown key 'data.dri'; did you mean 'data.dir'?"),
        ({"name": ""}, "name (who this node is on the roster) must be letters"),
        ({"name": '"../oak"'}, "name (who this node is on the roster) must be letters"),
        ({"name": "3"}, "name must be text, got 3"),
        ({"threads": "1.5"}, "threads must be a whole number, got 1.5"),
        ({"threads": "-1"}, "threads must be a value >= 0, got -1"),
        ({"device": '"tpu"'}, 'device must be one of "", "cpu", "cuda", "auto", got "tpu"'),
        ({"most_shared": '"all"'}, 'most-shared must be one of "data", "agent"'),
        ({"roster": ""}, "roster is empty, expected a file of this node; set it"),
        ({"roster": '"state"'}, "state is no file; make it, or correct the path"),
        ({"state_dir": ""}, "state-dir is empty, expected a folder of this node; set it"),
        ({"state_dir": '"gone"'}, "gone is no folder; make it, or correct the path"),
        ({"data__dir": '"gone"'}, "data.dir: "),
        ({"data__features": '"gone.tsv"'}, "gone.tsv is no file or folder; make it"),
        ({"data__cache_dir": '"views.tsv"'}, "views.tsv is no folder"),
        ({"data__word_vectors": '"data"'}, "data is no file"),
        ({"allow_systems": '"cdl"'}, 'allow-systems must be a list such as ["fedvln"], got "cdl"'),
        ({"allow_systems": "[3]"}, "allow-systems must be a list"),
        ({"allow_systems": '["cdl", 3]'}, "allow-systems must be a list"),
        ({"allow_systems": '["cdl", ""]'}, "allow-systems must be a list"),
        ({"allow_systems": '["cdl,fedrl"]'}, "allow-systems must be a list"),
        ({"least_noise_sigma": "0.5"}, "noise-seed: -1, so others can draw the same noise"),
        ({"noise_seed": "5"}, "noise-seed: fewer than 64 bits, so it could be found by trial"),
        ({"noise_seed": str(2**63 - 1)}, "noise-seed: fewer than 64 bits"),
        ({"noise_seed": str(2**128)}, "noise-seed"),
        ({"fewest_members": "2"}, "fewest-members must be a value >= 3, got 2"),
        ({"name": '"oak'}, "cannot be read as TOML"),
    ],
)
def test_everything_else_is_one_line(place: Path, changes: dict[str, str], complaint: str) -> None:
    file = written(place, **changes)
    with pytest.raises(InputError) as caught:
        read_node(file)
    line = str(caught.value)
    assert line.startswith(f"{file}: ") and complaint in line and "\n" not in line


def test_a_file_that_is_not_there(place: Path) -> None:
    with pytest.raises(InputError, match="no such file; name the node's own TOML in its node-conf"):
        read_node(place / "other.toml")


def test_a_drawn_seed_of_noise_is_one_that_a_node_may_have(place: Path) -> None:
    drawn = {drawn_noise_seed() for _ in range(20)}
    assert len(drawn) == 20 and all(2**127 <= seed < 2**128 for seed in drawn)
    for seed in (min(drawn), max(drawn)):
        assert read_node(written(place, noise_seed=str(seed))).noise_seed == seed


def test_no_path_of_a_run_is_left_to_the_server() -> None:
    """Every key of a run that is a path gets the node's value, or none."""
    node = NodeSettings(name="oak", roster="/n/roster.json", state_dir="/n/state")
    vln = own_paths(node, FedVLNConfig)
    assert vln == {
        "results-dir": "", "resume": "", "roster": "/n/roster.json", "start-from": "", "speaker-from": "",
        "data.dir": "", "data.features": "", "data.cache-dir": "", "data.vocabulary": "",
        "data.bert-vocabulary": "",
    }  # fmt: skip
    assert own_paths(node, CDLConfig).keys() == {
        "results-dir", "resume", "roster", "data.dir", "data.cache-dir", "federation.underlay-file",
    }  # fmt: skip
