"""Every shipped FedVLN configuration, played for a round with nothing but its sizes changed, or got ready to be played."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file

from fedsuite.arrays import Arrays
from fedsuite.history import RunFrames, load_runs
from fedsuite.roster.members import Roster
from fedsuite.runs.folder import RunFolder, variant_of
from fedsuite.settings.config import read_config, to_flat
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.sources import open_sources
from fedsuite.vln.metrics import metrics_of
from fedsuite.vln.plan import initial_agent, starting_model
from fedsuite.vln.report.outcome import privacy_level
from fedsuite.vln.stages import exchange_of
from tests.fedvln_desk import FILES, GOES_ON_FROM, SIZES, Desk, set_up, tables_of
from tests.fedvln_runs import roster_of

# Agents at published sizes with 992 words, dead layers included, and the dead layers: by width of the features.
PUBLISHED = {
    512: (6_956_609, 1_179_648),
    640: (7_480_897, 1_310_720),
    1024: (9_053_761, 1_703_936),
    2048: (13_248_065, 2_752_512),
}
PUBLISHED_WORDS = 992


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with set_up(tmp_path_factory.mktemp("desk")) as ready:
        yield ready


# --- what a played run must show --------------------------------------------------------------


def check_settings(shipped: Mapping[str, Any], config: FedVLNConfig) -> None:
    """The run was played with what its file says, on features of that width, all but the sizes."""
    played = to_flat(config)
    for key, value in shipped.items():
        if key not in {*SIZES, "name"}:  # a member of an experiment is named by its label
            path = key in {"data.dir", "data.features", *GOES_ON_FROM}
            assert played[key] == (str(Path(value).absolute()) if path else value), key
    if config.data.feature_size:
        assert open_sources(config).feature_size == shipped["data.feature-size"]


def check_finite(frame: pd.DataFrame) -> None:
    """Every number that is there is finite; history has no infinities, but a metric may be missing."""
    numbers = frame.select_dtypes("number").to_numpy(float).ravel()
    assert np.isfinite(numbers[~np.isnan(numbers)]).all()


def check_scores(config: FedVLNConfig, rounds: pd.DataFrame, closing: pd.DataFrame) -> None:
    """The round's model was scored in houses that it should be scored in."""
    scored_last = config.federation.method == "local-only" and config.stage == "train"
    row = (closing if scored_last else rounds[rounds["round"] == 1]).iloc[-1]
    splits = ["val_unseen"] if config.stage == "pre-explore" else ["val_seen", "val_unseen"]
    for split in splits:
        for metric in metrics_of(config).rows:
            if metric.counted_by and not row[f"{split}.{metric.counted_by}"]:
                continue  # nothing that it could be a mean of
            assert math.isfinite(row[f"{split}.{metric.name}"]), metric
        # The mean over agents that each belong to one house counts no instructions.
        assert scored_last or row[f"{split}.count"] > 0


def check_trained(config: FedVLNConfig, run: Path, frames: RunFrames) -> None:
    """Participants made steps, and what came of them is another model than the first."""
    trained = frames.clients[frames.clients["task"] == "train"]
    assert len(trained) > 0 and set(trained["round"]) == {1}
    assert "evaluate" in set(frames.clients["task"]) | set(frames.closing_clients.get("task", ()))
    first = starting_model(config, roster_of(config))
    if config.start_from:
        before = load_file(Path(config.start_from) / "model.safetensors")
        assert before.keys() == first.keys() and not moved(before, first)
    last = load_file(run / "model.safetensors")
    if exchange_of(config).personal:
        check_own_agents(config, run, first, set(trained["name"]))
        assert last.keys() == exchange_of(config).share.select(first).keys()
        if not last:
            return
    assert all(np.isfinite(array).all() for array in last.values())
    if config.stage == "train" and config.federation.method == "local-only":
        assert any(not np.array_equal(a, first[k.partition("/")[2]]) for k, a in last.items())
        return
    assert last.keys() == exchange_of(config).share.select(first).keys()
    row = frames.rounds[frames.rounds["round"] == 1].iloc[-1]
    assert row["update-norm"] > 0
    selected = (
        1 if config.evaluation.selection == "last" else frames.closing["selected-round"].iloc[-1]
    )
    assert moved(first, last) == (selected == 1)


def check_own_agents(config: FedVLNConfig, run: Path, first: Arrays, trained: set[str]) -> None:
    """What stays with a house differs from what was handed out, for those who trained and nobody else."""
    for who in roster_of(config).members:
        own = load_file(run / "clients" / who.name / "model.safetensors")
        assert own.keys() == first.keys()
        assert moved(first, exchange_of(config).kept(own)) == (who.name in trained), who.name


def moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether any array that both have differs."""
    return any(not np.array_equal(before[k], after[k]) for k in before.keys() & after.keys())


@pytest.mark.parametrize("name", FILES)
def test_configuration_plays_as_shipped(desk: Desk, name: str) -> None:
    for label, config in desk.play(name).items():
        run = desk.run(name, label)
        check_settings(tables_of(name)[label], config)
        assert RunFolder(run).status()["status"] == "completed"
        frames = load_runs(run)
        for frame in (frames.rounds, frames.clients, frames.closing, frames.closing_clients):
            check_finite(frame)
        check_scores(config, frames.rounds, frames.closing)
        check_trained(config, run, frames)
        assert (run / "results.md").stat().st_size > 0
    if len(tables_of(name)) > 1:
        assert (desk.run(name, "") / "results.md").stat().st_size > 0
    ready = desk.get_ready(name)
    variants = {variant_of(label) for label in tables_of(name)}
    assert {variant_of(label) for label in [*desk.play(name), *ready]} == variants
    assert not any(desk.run(name, label).exists() for label in ready)


def test_pre_exploration_lets_out_what_the_paper_says(desk: Desk) -> None:
    """The privacy column of Table 6, from what the clients sent."""
    levels = {}
    for label in desk.play("pre-explore"):
        rounds = load_runs(desk.run("pre-explore", label)).rounds
        last = rounds[rounds["round"] == 1].iloc[-1]
        levels[label] = privacy_level(last["modules-sent"], last["houses-per-client"])
    want = {"centralised": 0, "env-based": 3, "fed-full": 1, "fed-lan": 2, "fed-lan-seen": 2}
    assert levels == want


# --- published sizes --------------------------------------------------------------------------


def published_runs() -> list[tuple[str, str]]:
    """Files and labels of the runs whose files say how wide the published features are."""
    return [
        (name, label)
        for name in FILES
        for label, table in tables_of(name).items()
        if "data.feature-size" in table
    ]


def shipped_settings(name: str, label: str) -> FedVLNConfig:
    """A run's settings as shipped; runs that it goes on from need not be there."""
    keys = {k: v for k, v in tables_of(name)[label].items() if k != "system"}
    return read_config(FedVLNConfig, keys)


def parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_all_published_widths_are_shipped() -> None:
    widths = {shipped_settings(*run).data.feature_size for run in published_runs()}
    assert widths == set(PUBLISHED)


@pytest.mark.parametrize(("name", "label"), published_runs())
def test_published_sizes_count_out(name: str, label: str) -> None:
    """Parameters of the released agents less the layers that never get a gradient."""
    config = shipped_settings(name, label)
    roster = Roster((), {"feature-size": config.data.feature_size}, ("word",) * PUBLISHED_WORDS)
    with torch.device("meta"):
        agent = initial_agent(config, roster)
    total, dead = PUBLISHED[config.data.feature_size]
    assert not config.agent.dead_layers and parameters(agent) == total - dead
