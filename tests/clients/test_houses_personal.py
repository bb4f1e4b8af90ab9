"""Agents that houses keep to themselves in pre-exploration, followed by hand on their disks."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from fedsuite.arrays import Arrays, module_arrays, under_prefix
from fedsuite.averaging.optimizer_state import load_optimizer_arrays, optimizer_arrays
from fedsuite.errors import InputError, RunFailed
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, join_houses
from fedsuite.vln.data.roster import open_house
from fedsuite.vln.data.sampled_paths import sampled_paths
from fedsuite.vln.data.sources import open_sources, places_of
from fedsuite.vln.evaluation.metrics import episode_metrics
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.plan import initial_agent, initial_speaker
from fedsuite.vln.stages import visit_steps
from fedsuite.vln.training.learner import TrainingData, train_locally, walk_all
from fedsuite.vln.training.rmsprop import RMSprop
from tests.fedvln_runs import METHODS, Chain, chain_in, roster_of

pytestmark = pytest.mark.slow

LAN = {**METHODS["fed-lan"], "num_rounds": 2}
EXPORTED = "model.safetensors"


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return chain_in(tmp_path_factory.getbasetemp(), __name__)


@pytest.fixture(scope="module")
def explored(chain: Chain) -> Path:
    """Two rounds of Fed-Lan with both houses in each."""
    chain.play("personal", **LAN)
    return chain.run("personal")


def rows_of(run: Path, kind: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    return [r for r in rows if r["kind"] == kind]


def scores_of_round(run: Path, number: int) -> dict[str, float]:
    (row,) = [r for r in rows_of(run, "round") if r["round"] == number]
    return {k: v for k, v in row["metrics"].items() if k.startswith("val_unseen.")}


def houses_of(config: FedVLNConfig) -> list[House]:
    places = places_of(config)
    who = roster_of(config).members
    return [open_house(config, places, m.details["houses"][0], i) for i, m in enumerate(who)]


def version(run: Path, house: House, number: int) -> Arrays:
    return load_file(run / "clients" / house.graph.scan / f"round-{number:06d}.safetensors")


def server(run: Path, number: int) -> Arrays:
    stored = load_file(run / "checkpoints" / f"round-{number:06d}.safetensors")
    return under_prefix(stored, "arrays.")


def agent_with(config: FedVLNConfig, arrays: Arrays) -> Agent:
    agent = initial_agent(config, roster_of(config))
    agent.load_state_dict({k: torch.tensor(v) for k, v in arrays.items()}, strict=True)
    return agent


def same(a: Arrays, b: Arrays) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


# --- training ---------------------------------------------------------------------------------


def test_private_versions_differ_between_houses(chain: Chain, explored: Path) -> None:
    """All start from one agent; after a round each house has its own encoder, decoder and optimizer state."""
    first, second = houses_of(chain.settings("personal", **LAN))
    start = load_file(chain.run("train") / EXPORTED)
    assert all(np.array_equal(v, start[k]) for k, v in server(explored, 0).items())
    one, two = version(explored, first, 1), version(explored, second, 1)
    for part in ("agent.encoder.", "agent.decoder.", "optimizer.square_avg.encoder."):
        names = [k for k in one if k.startswith(part)]
        assert names and any(not np.array_equal(one[k], two[k]) for k in names)


def trained_by_hand(
    chain: Chain, run: Path, number: int, house: House, start: Arrays, optimizer: Arrays
) -> Arrays:
    """A house's visit in round `number`, outside of every client: its arrays and its optimizer's."""
    config = chain.settings(run.name, **LAN)
    sources = open_sources(config)
    partition = [h.graph.scan for h in houses_of(config)].index(house.graph.scan)
    order = [*sources.training_scans, *sources.unseen_scans].index(house.graph.scan)
    paths = sampled_paths(house, config.seed, order)
    speaker = initial_speaker(config, roster_of(config))
    handed = load_file(run / "clients" / house.graph.scan / "speaker" / "round-000000.safetensors")
    assert same(handed, load_file(chain.run("speaker") / EXPORTED))
    speaker.load_state_dict({k: torch.tensor(v) for k, v in handed.items()})
    agent = agent_with(config, start).train()
    rmsprop = RMSprop(
        agent.parameters(), config.objective.learning_rate, config.objective.bias_correction
    )
    names = list(dict(agent.named_parameters()))
    if optimizer:
        load_optimizer_arrays(rmsprop, names, optimizer)
    train_locally(
        agent,
        rmsprop,
        join_houses([house]),
        [TrainingData(paths, config.objective.generated_weight, speaker.eval())],
        config,
        visit_steps(config, len(paths)),
        number,
        partition,
    )
    state = {f"optimizer.{k}": v for k, v in optimizer_arrays(rmsprop, names).items()}
    return {**{f"agent.{k}": v for k, v in module_arrays(agent).items()}, **state}


def test_rounds_by_hand(chain: Chain, explored: Path) -> None:
    """Round 1 from the agent handed out; round 2 from the house's own decoder and critic and the server's encoder."""
    config = chain.settings("personal", **LAN)
    houses, sources = houses_of(config), open_sources(config)
    start = load_file(chain.run("train") / EXPORTED)
    order = [*sources.training_scans, *sources.unseen_scans]
    counts = [len(sampled_paths(h, config.seed, order.index(h.graph.scan))) for h in houses]
    for house in houses:
        by_hand = trained_by_hand(chain, explored, 1, house, start, {})
        assert same(by_hand, version(explored, house, 1))
        own = version(explored, house, 1)
        merged = server(explored, 1)
        assert merged and all(k.startswith("encoder.") for k in merged)
        begin = {**under_prefix(own, "agent."), **merged}
        assert not same(begin, under_prefix(own, "agent."))
        optimizer = under_prefix(own, "optimizer.")
        by_hand = trained_by_hand(chain, explored, 2, house, begin, optimizer)
        assert same(by_hand, version(explored, house, 2))
    for number in (1, 2):
        for name in server(explored, number - 1):
            local = [version(explored, h, number)[f"agent.{name}"].astype(float) for h in houses]
            want = sum(n * w for n, w in zip(counts, local, strict=True)) / sum(counts)
            assert np.allclose(server(explored, number)[name], want, atol=1e-6)


# --- evaluation -------------------------------------------------------------------------------


def walked_by_hand(config: FedVLNConfig, agents: list[Arrays]) -> dict[str, float]:
    """Means over all val-unseen instructions, each house with its own agent."""
    parts = []
    for house, arrays in zip(houses_of(config), agents, strict=True):
        agent, samples = agent_with(config, arrays).eval(), house.samples["val_unseen"]
        visited, _ = walk_all(agent, join_houses([house]), samples, config)
        parts.append(episode_metrics(house.graph.distance_m, visited, [s.path for s in samples]))
    return {k: float(np.concatenate([p[k] for p in parts]).mean()) for k in parts[0]}


def test_the_exported_agent_is_the_one_that_was_scored(chain: Chain, explored: Path) -> None:
    config = chain.settings("personal", **LAN)
    houses = houses_of(config)
    agents = [load_file(explored / "clients" / h.graph.scan / EXPORTED) for h in houses]
    for house, agent in zip(houses, agents, strict=True):
        assert same(agent, under_prefix(version(explored, house, 2), "agent."))
    want = walked_by_hand(config, agents)
    (closing,) = rows_of(explored, "closing")
    for scores in (closing["metrics"], scores_of_round(explored, 2)):
        assert {k: scores[f"val_unseen.{k}"] for k in want} == pytest.approx(want)
    assert same(load_file(explored / EXPORTED), server(explored, 2))


def test_newest_encoders_are_put_in_for_scoring_only(chain: Chain, explored: Path) -> None:
    changes = {**LAN, "personal_encoder": "newest"}
    chain.play("newest", **changes)
    config, run = chain.settings("newest", **changes), chain.run("newest")
    houses = houses_of(config)
    for house in houses:  # training is not touched by it
        assert same(version(run, house, 2), version(explored, house, 2))
    agents = [{**under_prefix(version(run, h, 2), "agent."), **server(run, 2)} for h in houses]
    want = walked_by_hand(config, agents)
    scores = scores_of_round(run, 2)
    assert {k: scores[f"val_unseen.{k}"] for k in want} == pytest.approx(want)
    assert scores != scores_of_round(explored, 2)


def test_the_best_rounds_agents_are_exported(chain: Chain) -> None:
    """Chosen in the middle of the run, although every house trained on."""
    changes = {**METHODS["fed-lan"], "num_rounds": 4, "selection": "best-val-unseen"}
    changes |= {"learning_rate": 0.1, "seed": 2}  # so that the second round is the best by far
    chain.play("best", **changes)
    run = chain.run("best")
    rounds = rows_of(run, "round")
    found = [(r["metrics"]["val_unseen.sr"], r["metrics"]["val_unseen.spl"]) for r in rounds]
    best = found.index(max(found))
    (closing,) = rows_of(run, "closing")
    assert closing["metrics"]["selected-round"] == best
    assert 0 < best < 4, "choose other settings: the choice must differ from the last round"
    chain.play("up-to-best", **{**changes, "num_rounds": best, "selection": "last"})
    other = chain.run("up-to-best")
    for file in [
        Path(EXPORTED),
        *(p.relative_to(run) for p in (run / "clients").glob(f"*/{EXPORTED}")),
    ]:
        assert (run / file).read_bytes() == (other / file).read_bytes()
    scores = {k: v for k, v in closing["metrics"].items() if k.startswith("val_unseen.")}
    assert scores == scores_of_round(run, best) != scores_of_round(run, 4)
    (lost,) = sorted(run.glob(f"clients/*/round-{best:06d}.safetensors"))[:1]
    lost.unlink()  # an older one would be another agent
    told = (
        rf"{lost}: missing private state of {lost.parent.name}, which trained in round {best}; put"
    )
    with pytest.raises(RunFailed, match=told):
        chain.play("best", **changes, resume=str(run))


# --- going on ---------------------------------------------------------------------------------


def test_a_run_goes_on_from_every_houses_own_agent(chain: Chain, explored: Path) -> None:
    chain.play("on", **{**LAN, "num_rounds": 0, "start_from": str(explored)})
    (closing,) = rows_of(explored, "closing")
    before = scores_of_round(chain.run("on"), 0)
    assert before == {k: v for k, v in closing["metrics"].items() if k.startswith("val_unseen.")}
    for house in houses_of(chain.settings("on", **LAN)):
        exported = load_file(explored / "clients" / house.graph.scan / EXPORTED)
        assert same(under_prefix(version(chain.run("on"), house, 0), "agent."), exported)


def test_an_encoder_alone_is_no_start_without_the_houses_agents(
    chain: Chain, explored: Path, tmp_path: Path
) -> None:
    for file in (EXPORTED, "vocabulary.json"):
        shutil.copy(explored / file, tmp_path / file)
    with pytest.raises(InputError, match=r"start-from: .*lacks critic") as refused:
        chain.play("alone", **{**LAN, "start_from": str(tmp_path)})
    assert "\n" not in str(refused.value)


def test_one_houses_missing_agent_is_noticed(chain: Chain, explored: Path, tmp_path: Path) -> None:
    """Some have their own, one has not: the server would have nothing to hand out to it."""
    shutil.copytree(explored, tmp_path / "run")
    next((tmp_path / "run" / "clients").glob(f"*/{EXPORTED}")).unlink()
    with pytest.raises(InputError, match="lacks"):
        chain.play("missing", **{**LAN, "start_from": str(tmp_path / "run")})


@pytest.mark.parametrize("damage", ["truncated", "resized"])
def test_a_houses_unusable_agent_is_named_in_one_line(
    chain: Chain, explored: Path, tmp_path: Path, damage: str
) -> None:
    """The house finds it out, before anything is trained."""
    shutil.copytree(explored, tmp_path / "run")
    file = sorted((tmp_path / "run" / "clients").glob(f"*/{EXPORTED}"))[1]
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:-4])
    else:
        arrays = load_file(file)
        save_file({**arrays, "critic.value.bias": np.ones(2, np.float32)}, file)
    changes = {**LAN, "start_from": str(tmp_path / "run"), "min_reply_fraction": 1.0}
    name = f"unusable-{damage}"
    with pytest.raises((RunFailed, InputError)) as failed:
        chain.play(name, **changes)
    line = str(failed.value)
    assert "\n" not in line and str(file) in line and "start-from" in line
    assert not rows_of(chain.run(name), "round")
