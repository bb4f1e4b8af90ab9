"""Nodes with a file of their own, each beside its own data: what a simulation makes of all data, they make of theirs."""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message

import fedsuite.driving.report.run
from fedsuite.federation import Task
from fedsuite.roster.members import Member, Roster, write_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.files import sha256_of
from simulations.engines.inprocess import InProcessGrid, server_identity
from strategies.runtime.messages import TaskMessages, identity_message, read_reply
from tests import cdl_runs, fedrl_runs, fedvln_runs
from tests.harness import config_from, prepared, recorded
from tests.nodes import SECRET, deploy, grid_of, write_node, write_own_house

SERVERS = "/a/path/of/the/server"  # which no node has


def same(one: RunFolder, other: RunFolder) -> None:
    """Models and histories are equal."""
    for name in ("model.safetensors", "history.jsonl"):
        first, second = (sha256_of((folder.path / name).read_bytes()) for folder in (one, other))
        assert first == second, name


def rostered(config: dict[str, Any], tmp_path: Path) -> tuple[Roster, dict[str, Any]]:
    """The roster of a run, and the run as a server without data has it."""
    roster = prepared(config)
    write_roster(tmp_path / "roster.json", roster)
    paths = {k for k in config if k.endswith(("data.dir", "data.features", "data.cache-dir"))}
    there = {k: SERVERS if config[k] else "" for k in paths}
    own = {"roster": str(tmp_path / "roster.json"), "results-dir": str(tmp_path / "server")}
    return roster, {**config, **there, **own}


def test_houses(data_dir: Path, tmp_path: Path) -> None:
    paths = {"data-dir": str(data_dir), "features": str(data_dir / "features.tsv"), "name": "run"}
    paths |= {"cache-dir": str(tmp_path / "cache"), "results-dir": str(tmp_path / "all")}
    config = config_from({**fedvln_runs.TINY, **paths}, num_rounds=2)
    recorded(config)
    roster, config = rostered(config, tmp_path)
    assert roster.names == ["oak", "elm", "ash"]
    files = []
    for name in ("ash", "oak", "elm"):
        own = write_own_house(data_dir, tmp_path / name / "data", name)
        where = {"dir": str(own), "features": str(own / "features.tsv")}
        allowed = ["tests.fedvln_runs:SYSTEM"]
        files.append(
            write_node(
                tmp_path / name, name, tmp_path / "roster.json", data=where, allow_systems=allowed
            )
        )
    done = deploy(config, files)
    same(done, RunFolder(tmp_path / "all" / "run"))
    assert not done.clients.exists() and not Path(SERVERS).exists()
    assert list((tmp_path / "oak" / "state").rglob("round-000002.safetensors"))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """CDL's runs end without drawings, which take longer than such a run."""
    monkeypatch.setattr(fedsuite.driving.report.run, "draw_data", lambda config, folder: None)
    monkeypatch.setattr(fedsuite.driving.report.run, "write_results", lambda config, folder: None)


@pytest.mark.usefixtures("undrawn")
def test_vehicles(tmp_path: Path) -> None:
    cdl_runs.write_drives(tmp_path / "drives")
    changes = {"num_silos": 0, "data_dir": str(tmp_path / "drives")}
    config = cdl_runs.config_of(tmp_path / "cache", tmp_path / "all", "run", **changes)
    recorded(config)
    _, config = rostered(config, tmp_path)
    files = []
    for name in ("ada", "bob"):
        cdl_runs.write_drives(tmp_path / name / "drives", (name,))
        files.append(
            write_node(tmp_path / name, name, tmp_path / "roster.json", data={"dir": "drives"})
        )
    same(deploy(config, files), RunFolder(tmp_path / "all" / "run"))


def test_parties(tmp_path: Path) -> None:
    changes = {"parallel_episodes": 8}
    config = fedrl_runs.config_of(tmp_path / "cache", tmp_path / "all", **changes)
    recorded(config)
    _, config = rostered(config, tmp_path)
    allowed = {"allow_systems": ["tests.fedrl_runs:SYSTEM"]}

    def files(**keys: Any) -> list[Path]:
        return [
            write_node(tmp_path / role, role, tmp_path / "roster.json", **allowed, **keys)
            for role in ("alpha", "beta")
        ]

    done = deploy(config, files())
    same(done, RunFolder(tmp_path / "all" / "run"))
    assert (tmp_path / "beta" / "state" / "cache").is_dir()
    other = deploy({**config, "name": "secret"}, files(noise_seed=SECRET), run_id=78)
    assert other.model.read_bytes() != done.model.read_bytes()
    # The last round and the tests once more, from the checkpoint before them: the same noise, so the same bytes.
    whole = {
        name: (other.path / name).read_bytes() for name in ("model.safetensors", "history.jsonl")
    }
    (other.checkpoints / "round-000002.safetensors").unlink()
    resumed = deploy(
        {**config, "name": "secret", "resume": str(other.path)}, files(noise_seed=SECRET), 79
    )
    assert whole == {name: (resumed.path / name).read_bytes() for name in whole}


# --- refusals -------------------------------------------------------------------------------------

FEDVLN = {"system": "fedvln", "stage": "pre-explore", "start-from": "a", "speaker-from": "b"}
REFUSED = [
    ("cdl", {}, {"allow_systems": ["fedvln"]}, 'system: the run wants "cdl", this node allows fedvln (allow-systems)'),
    ("toy", {}, {}, 'system: the run wants "tests.toy:SYSTEM", this node allows fedvln, cdl, fedrl'),
    ("fedvln", {"method": "centralised"}, {}, "federation.method: in stage pre-explore the run wants of each house: data"),
    (
        "fedvln", {}, {"most_shared": "language-encoder"},
        "federation.share: in stage pre-explore the run wants of each house: agent; this node shares language-encoder",
    ),
    ("fedvln", {"share": "language-encoder"}, {"most_shared": "nothing"}, "each house: language-encoder; this node"),
    (
        "fedvln", {"share": "language-encoder", "control-variates": True}, {"most_shared": "language-encoder"},
        "the run wants of each house: agent",
    ),
    ("fedvln", {"share": "agent"}, {"secure_sums": True}, "federation.secure-sum: false, or a system that has none, but"),
    ("fedrl", {}, {"secure_sums": True}, "this node takes part in secure sums only (secure-sums)"),
    ("fedrl", {"noise-sigma": 0.4}, {"least_noise_sigma": 0.5}, "noise-sigma: the run wants 0.4, this node allows 0.5"),
    ("fedrl", {}, {"least_noise_sigma": 0.5}, 'privacy.test-noise: the run wants "both", this node allows "noisy" only'),
    (
        "fedrl", {"behaviour-noise": False, "test-noise": "noisy"}, {"least_noise_sigma": 0.5},
        "privacy.behaviour-noise: the run wants false, this node allows true only",
    ),
    (
        "fedrl", {"noise-probability": 0.5, "test-noise": "noisy"}, {"least_noise_sigma": 0.5},
        "published.noise-probability: the run wants 0.5",
    ),
    ("fedrl", {}, {"largest_q_clip": 2.0}, "q-clip: the run wants 0 (no clipping), this node allows more than 0, at most 2"),
    ("fedrl", {"q-clip": 3.0}, {"largest_q_clip": 2.0}, "privacy.q-clip: the run wants 3, this node"),
    ("fedrl", {"word-vectors": "/x"}, {}, 'data.word-vectors: the run wants "/x" read, this node\'s file names nothing'),
    ("fedrl", {"data-dir": "/x"}, {}, 'data.dir: the run wants "/x" read'),
    ("cdl", {"data-dir": "/x"}, {"data": {"dir": "."}}, "data.num-silos: the run wants 4, which deals the frames"),
    (
        "cdl", {"data-dir": "/x", "num-silos": 0, "kind": "os:sep"}, {"data": {"dir": "."}},
        'kind: the run wants "os:sep", which is not imported here; allowed: fedvln, cdl, fedrl',
    ),
]  # fmt: skip


def wanted(system: str, changes: dict[str, Any]) -> dict[str, Any]:
    """A run-config of a small run."""
    bases: dict[str, dict[str, Any]] = {
        "cdl": cdl_runs.TINY,
        "fedvln": {**fedvln_runs.TINY, **FEDVLN},
        "fedrl": {**fedrl_runs.TINY, "system": "fedrl"},
        "toy": {"system": "tests.toy:SYSTEM"},
    }
    return config_from({**bases[system], **changes})


@pytest.mark.parametrize(("system", "changes", "keys", "complaint"), REFUSED)
def test_what_a_node_refuses_reaches_the_server_as_one_line(
    tmp_path: Path, system: str, changes: dict[str, Any], keys: dict[str, Any], complaint: str
) -> None:
    secret = {"noise_seed": SECRET} if "least_noise_sigma" in keys else {}
    own = {"names": ["me"], "silos": [0], "frames": [1]}
    write_roster(tmp_path / "roster.json", Roster((Member("me", "silo", 1, own),), {"silos": 1}))
    file = write_node(tmp_path / "me", "me", tmp_path / "roster.json", **keys, **secret)
    line = answer(wanted(system, changes), file)
    assert line.startswith("InputError: node me: ") and complaint in line


def answer(config: dict[str, Any], file: Path, **beside: Any) -> str:
    """The last line of what a server gets that asks this node who it is."""
    grid = grid_of(config, [file])
    (context,) = grid.contexts.values()
    context.node_config.update(beside)
    facts = {"run-key": "0" * 32}
    with server_identity():
        return error_of(grid, identity_message(context.node_id, 0, 10.0, facts))


def error_of(grid: InProcessGrid, message: Message) -> str:
    """The last line of an error reply."""
    (reply,) = grid.send_and_receive([message])
    return read_reply(reply).error


def test_a_node_config_says_one_thing(tmp_path: Path) -> None:
    (tmp_path / "roster.json").write_text("{}")
    file = write_node(tmp_path / "me", "me", tmp_path / "roster.json")
    config = wanted("cdl", {})
    line = answer(config, file, silo="me")
    assert line.startswith("InputError: node-config silo: stands beside node")
    file.write_text("nmae = 3\n")
    assert "unknown key 'nmae'" in answer(config, file)
    file.unlink()
    assert "node.toml: no such file" in answer(config, file)


# --- private state --------------------------------------------------------------------------------


def two_silos(cache: Path, tmp_path: Path, **changes: Any) -> tuple[dict[str, Any], list[Path]]:
    """A run of a server without data, and its nodes."""
    small = {"num_silos": 2, "num_rounds": 2, "checkpoint_every": 1, "loss": "kl", **changes}
    config = cdl_runs.config_of(cache, tmp_path / "all", "run", **small)
    roster, config = rostered(config, tmp_path)
    files = [
        write_node(tmp_path / name, name, tmp_path / "roster.json", data={"cache_dir": str(cache)})
        for name in roster.names
    ]
    return config, files


def states(tmp_path: Path) -> dict[Path, bytes]:
    """All private states of all nodes."""
    return {p: p.read_bytes() for p in sorted(tmp_path.glob("*/state/*/**/*.safetensors"))}


@pytest.mark.usefixtures("undrawn")
def test_another_run_of_the_same_name_touches_nothing_and_a_resumed_one_finds_its_state(
    cache: Path, tmp_path: Path
) -> None:
    config, files = two_silos(cache, tmp_path)
    first = deploy(config, files, run_id=1)
    before = states(tmp_path)
    key = (first.path / "run-key").read_text()
    assert before and {p.relative_to(tmp_path).parts[2] for p in before} == {key}
    elsewhere = {**config, "results-dir": str(tmp_path / "another-server"), "seed": 9}
    other = deploy(elsewhere, files, run_id=2)
    assert (other.path / "run-key").read_text() != key
    assert len(states(tmp_path)) == 2 * len(before)
    assert before.items() <= states(tmp_path).items()
    longer = {**config, "num-rounds": 4}
    resumed = deploy({**longer, "resume": str(first.path)}, files, run_id=3)
    assert (resumed.path / "run-key").read_text() == key
    same(resumed, deploy({**longer, "name": "whole"}, files, run_id=4))


@pytest.mark.usefixtures("undrawn")
def test_a_node_must_be_asked_who_it_is_before_anything_else(cache: Path, tmp_path: Path) -> None:
    """Where its state lies is said with that question, and a run that did not ask is not begun anew by mistake."""
    config, files = two_silos(cache, tmp_path)
    first = deploy(config, files, run_id=1)
    for file in tmp_path.glob("*/state/flower-runs/1"):
        file.unlink()
    grid = grid_of({**config, "resume": str(first.path)}, files, run_id=1)
    with server_identity():
        message = identity_message(next(iter(grid.contexts)), 0, 10.0, {"run-key": "../else"})
        without = identity_message(next(iter(grid.contexts)), 0, 10.0)
    assert "the server says no run-key" in error_of(grid, without)
    assert "expected a run's key, 32 digits" in error_of(grid, message)
    with server_identity():
        task = Task(0, "evaluate", {})
        message = TaskMessages(10.0).message(task, message.metadata.dst_node_id, {"round": 1})
    assert "so this node does not know where its state of the run lies" in error_of(grid, message)
