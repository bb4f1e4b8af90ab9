"""FedVLN through the app: every method runs, equal runs write equal bytes, and a resumed run equals an uninterrupted one."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from safetensors.numpy import load_file

from clients.house import HouseClient
from fedsuite.errors import InputError
from fedsuite.history import load_runs
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.roster import make_roster
from fedsuite.vln.data.sources import prepare_sources
from simulations.engines.inprocess import run_inprocess
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request
from simulations.experiments.variants import runs_of
from simulations.fedvln.client import make_client
from simulations.fedvln.system import SYSTEM
from simulations.systems import Node, settings_of
from tests.harness import (
    config_from,
    kill_and_resume,
)

TOMLS = Path(__file__).parents[3] / "simulations" / "fedvln"
TINY: dict[str, Any] = {
    "system": "tests.fedvln_runs:SYSTEM", "generated-seen-houses": 3, "generated-unseen-houses": 2,
    "generated-paths-per-house": 8, "generated-feature-size": 16, "hidden-size": 16, "word-embedding-size": 8,
    "action-embedding-size": 4, "angle-feature-size": 4, "max-actions": 6, "train-max-actions": 4, "batch-size": 8,
    "learning-rate": 1e-3, "participation-rate": 0.7, "local-epochs": 1, "objective": "imitation", "num-rounds": 3,
    "server-learning-rate": 1.0,
}  # fmt: skip


Played = Callable[[str], Path]


def config_of(cache: Path, results: Path, name: str, **changes: Any) -> dict[str, Any]:
    paths = {"cache-dir": str(cache), "results-dir": str(results), "name": name}
    return config_from({**TINY, **paths}, **changes)


def finished(results: Path, name: str) -> tuple[bytes, bytes]:
    """What must be equal between equal runs: the model and the history."""
    run = results / name
    return (run / "model.safetensors").read_bytes(), (run / "history.jsonl").read_bytes()


VARIANTS: dict[str, dict[str, Any]] = {
    "parallel": {},
    "a2c": {"objective": "a2c"},
    "sequential": {"aggregation": "sequential"},
    "shared": {"client_optimizer": "shared"},
    "fresh": {"client_optimizer": "fresh", "bias_correction": False},
    "centralised": {"method": "centralised"},
    "local-only": {"method": "local-only"},
    "blind": {"blind_to": "vision", "shuffle_instructions": True},
    "published": {
        "participation": "published", "trajectory": "published", "dead_layers": True,
        "masked_pooling": False, "fill_batches": True, "server_learning_rate_decay": 0.5, "server_decay_steps": 3,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def played(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """`played(variant)`: the folder of the variant's run, which has its name; each is carried out once."""
    results = tmp_path_factory.mktemp("played")

    def played(variant: str) -> Path:
        if not (results / variant).is_dir():
            run_inprocess(config_of(cache, results, variant, **VARIANTS[variant]))
        return results

    return played


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_runs_twice_with_the_same_bytes(
    cache: Path, tmp_path: Path, played: Played, variant: str
) -> None:
    run_inprocess(config_of(cache, tmp_path, "again", **VARIANTS[variant]))
    assert finished(tmp_path, "again") == finished(played(variant), variant)
    frames = load_runs(played(variant) / variant)
    scores = pd.concat([frames.rounds, frames.closing])["val_unseen.sr"].dropna()
    assert len(scores) and scores.between(0, 1).all()


def test_a_houses_instructions_are_shuffled_alike_whoever_holds_it(
    cache: Path, tmp_path: Path
) -> None:
    """Centralised training opens all houses as one client, federated training one a client."""
    dealt: dict[str, dict[str, list[str]]] = {}
    for method in ("federated", "centralised"):
        given = config_of(cache, tmp_path, method, method=method, shuffle_instructions=True)
        config = settings_of(given)[1]
        assert isinstance(config, FedVLNConfig)
        roster, dealt[method] = make_roster(config, prepare_sources(config)), {}
        for partition in range(len(roster.members)):
            client = make_client(config, Node(roster, partition, tmp_path / str(partition)))
            assert isinstance(client, HouseClient)
            for house in client.site.houses:
                texts = [sample.text for sample in house.samples.get("train", ())]
                dealt[method][house.graph.scan] = texts
    assert dealt["federated"] == dealt["centralised"]
    assert sum(map(bool, dealt["federated"].values())) == 3


def test_methods_train_differently(played: Played) -> None:
    names = ("parallel", "sequential", "shared", "fresh", "a2c", "centralised")
    assert len({finished(played(name), name)[0] for name in names}) == 6


@pytest.mark.parametrize("optimizer", ["kept", "shared"])
def test_resumed_run_equals_an_uninterrupted_one(
    cache: Path, tmp_path: Path, optimizer: str
) -> None:
    run_inprocess(config_of(cache, tmp_path, "whole", client_optimizer=optimizer, num_rounds=4))
    run_inprocess(config_of(cache, tmp_path, "parts", client_optimizer=optimizer, num_rounds=2))
    folder = str(tmp_path / "parts")
    run_inprocess(
        config_of(cache, tmp_path, "parts", client_optimizer=optimizer, num_rounds=4, resume=folder)
    )
    assert (tmp_path / "whole" / "model.safetensors").read_bytes() == (
        tmp_path / "parts" / "model.safetensors"
    ).read_bytes()


@pytest.mark.slow
def test_killed_run_resumes_to_the_same_bytes(cache: Path, tmp_path: Path) -> None:
    """kill -9 in the middle; the houses' own optimizer states included."""
    changes = {"num_rounds": 6, "checkpoint_every": 2}
    run_inprocess(config_of(cache, tmp_path, "whole", **changes))
    config = config_of(cache, tmp_path, "killed", **changes)
    kill_and_resume(tmp_path, config, 2, "--engine", "inprocess")
    assert finished(tmp_path, "whole") == finished(tmp_path, "killed")


@pytest.mark.drawn
def test_closing_leaves_table_and_plots(cache: Path, tmp_path: Path) -> None:
    run_inprocess(config_of(cache, tmp_path, "run", system="fedvln", submission=True))
    run = tmp_path / "run"
    table = (run / "results.md").read_text()
    assert "val_unseen, federated" in table and "random walk" in table
    assert (run / "learning.png").stat().st_size > 1000 and (
        run / "walks.png"
    ).stat().st_size > 1000
    entries = json.loads((run / "submission_val_unseen.json").read_text())
    counts = load_runs(run).rounds["val_unseen.count"].dropna()
    assert len(entries) == len({e["instr_id"] for e in entries}) == counts.iloc[-1]


def test_only_the_agent_leaves_a_house(played: Played) -> None:
    run = played("parallel") / "parallel"
    model = load_file(run / "model.safetensors")
    size = sum(a.nbytes for a in model.values())
    rows = [json.loads(r) for r in (run / "history.jsonl").read_text().splitlines()]
    up = {r["bytes-up"] for r in rows if r["kind"] == "client" and r["task"] == "train"}
    scored = {r["bytes-up"] for r in rows if r["kind"] == "client" and r["task"] == "evaluate"}
    assert up == {size} and scored == {0}
    assert {k.split(".")[0] for k in model} == {"encoder", "decoder", "critic"}


def leave_completed_runs(toml: Path) -> None:
    """What a configuration goes on from, as far as the quick checks look."""
    for run in runs_of(tomllib.loads(toml.read_text(encoding="utf-8")), toml.name):
        for key in {"start-from", "speaker-from"} & set(run.table):
            folder = Path(run.table[key])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "model.safetensors").touch()


@pytest.mark.parametrize("toml", sorted(TOMLS.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_configurations_are_valid(
    toml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    leave_completed_runs(toml)
    name = tomllib.loads(toml.read_text(encoding="utf-8")).get("name", f"fedvln-{toml.stem}")
    for label, plan in plan_experiment(Request(toml)).plans.items():
        assert plan.settings.system == "fedvln"
        assert plan.folder.path == tmp_path / "runs" / name / label


@pytest.mark.parametrize("toml", ["augment.toml", "pre-explore.toml"])
def test_a_stage_names_the_run_that_it_lacks(
    toml: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InputError, match=rf"{toml}: .*start-from: .*runs/.*federated does not exist"
    ):
        plan_experiment(Request(TOMLS / toml))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": 15}, "hidden-size"),
        ({"angle_feature_size": 6}, "angle-feature-size"),
        ({"teacher_weight": 0.0, "objective": "none"}, "teacher-weight"),
        ({"method": "local-only", "client_optimizer": "shared"}, "client-optimizer"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    cache: Path, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    _, settings = settings_of(config_of(cache, tmp_path, "x", **changes))
    with pytest.raises(InputError, match=words):
        SYSTEM.validate(settings)  # type: ignore[arg-type]
