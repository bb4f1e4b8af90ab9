"""Augmented training: who gets the speaker, what a house learns from, and how long."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from clients.house import HouseClient
from fedsuite.arrays import Arrays, load_arrays, module_arrays
from fedsuite.errors import InputError
from fedsuite.runs.folder import folder_of
from fedsuite.vln.plan import initial_agent
from fedsuite.vln.training.learner import TrainingData, train_locally
from fedsuite.vln.training.rmsprop import RMSprop
from simulations.fedvln.client import make_client
from simulations.systems import Node
from tests.fedvln_runs import Chain, chain_in, kind_of, record_of, roster_of, told
from tests.harness import Recorder, arrays_in

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {"batch_size": 2, "local_epochs": 1, "num_rounds": 2}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return chain_in(tmp_path_factory.getbasetemp(), __name__)


@pytest.fixture(scope="module")
def augmented(chain: Chain) -> Recorder:
    return chain.play("augmented", "augment", **SETTINGS)


def client_of(chain: Chain, partition: int, name: str = "by-hand", **changes: Any) -> HouseClient:
    """A client of an augmented run, made as the app makes it."""
    config = chain.settings(name, "augment", **{**SETTINGS, **changes})
    roster = roster_of(config)
    folder = folder_of(config).client(roster.names[partition])
    client = make_client(config, Node(roster, partition, folder))
    assert isinstance(client, HouseClient)
    return client


def agent_arrays(chain: Chain) -> Arrays:
    return load_file(chain.run("train") / "model.safetensors")


def fitted(client: HouseClient, arrays: Arrays, steps: int, number: int = 1) -> Arrays:
    """What a visit sends back."""
    config = {"round": number, "steps": steps, "checkpoint-rounds": "0"}
    config["array-names"] = "\n".join(arrays)
    back, _, metrics = client.fit(list(arrays.values()), config)
    return dict(zip(metrics["array-names"].split("\n"), back, strict=True))


def hand_out(client: HouseClient, chain: Chain) -> Arrays:
    speaker = load_file(chain.run("speaker") / "model.safetensors")
    names = "\n".join(f"speaker.{k}" for k in speaker)
    config = {"round": 0, "keep": True, "array-names": names, "checkpoint-rounds": "0"}
    assert client.evaluate(list(speaker.values()), config) == (0.0, 0, {})
    return speaker


def by_hand(client: HouseClient, chain: Chain, parts: list[TrainingData], steps: int) -> Arrays:
    agent = initial_agent(client.config, roster_of(client.config))
    load_arrays(agent, agent_arrays(chain))
    c = client.config
    optimizer = RMSprop(
        agent.train().parameters(), c.objective.learning_rate, c.objective.bias_correction
    )
    train_locally(agent, optimizer, client.site.world, parts, c, steps, 1, client.site.partition)
    return module_arrays(agent)


def same(a: Arrays, b: Arrays) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


# --- messages ---------------------------------------------------------------------------------


def test_the_speaker_goes_once_to_the_houses_that_train(chain: Chain, augmented: Recorder) -> None:
    speaker = load_file(chain.run("speaker") / "model.safetensors")
    trainers = {m.metadata.dst_node_id for m, _ in told(augmented.sent, "train")}
    assert len(trainers) == 2
    handed = [(m, c) for m, c in told(augmented.sent, "evaluate") if c.get("keep")]
    assert {m.metadata.dst_node_id for m, _ in handed} == trainers and len(handed) == 2
    for message, config in handed:
        arrays = arrays_in(message)
        assert config["round"] == 0
        assert set(arrays) == {f"speaker.{k}" for k in speaker}
        assert all(np.array_equal(arrays[f"speaker.{k}"], v) for k, v in speaker.items())


def test_all_other_messages_carry_agents_only(chain: Chain, augmented: Recorder) -> None:
    agent = {k: (v.shape, v.dtype) for k, v in agent_arrays(chain).items()}
    others = [
        m
        for m in augmented.sent
        if kind_of(m) != "query" and not record_of(m, "config").get("keep")
    ]
    trained = [m for m in augmented.received if kind_of(m) == "train"]
    assert len(others) == 4 + 2 * (2 + 4) and len(trained) == 4
    for message in [*others, *trained]:
        assert {k: (v.shape, v.dtype) for k, v in arrays_in(message).items()} == agent
    scored = [m for m in augmented.received if kind_of(m) == "evaluate"]
    assert scored and not any(arrays_in(m) for m in scored)


def test_the_run_starts_from_the_agent_of_the_first_stage(
    chain: Chain, augmented: Recorder
) -> None:
    first = [arrays_in(m) for m, c in told(augmented.sent, "train") if c["round"] == 1]
    assert first and all(same(arrays, agent_arrays(chain)) for arrays in first)


def test_steps_are_half_of_the_first_stages(chain: Chain, augmented: Recorder) -> None:
    """A step has mini-batches of both kinds: ceil(ceil(tau n / B) / 2)."""
    counts = [len(client_of(chain, p).site.samples("train")) for p in (0, 1)]
    asked = [int(c["steps"]) for _, c in told(augmented.sent, "train") if c["round"] == 1]
    assert asked == [math.ceil(math.ceil(n / 2) / 2) for n in counts]
    chain.play("not-augmented", "train", **{**SETTINGS, "num_rounds": 1})
    lines = (chain.run("not-augmented") / "history.jsonl").read_text().splitlines()
    rows = [r for r in map(json.loads, lines) if r.get("task") == "train"]
    assert [math.ceil(r["metrics"]["steps"] / 2) for r in rows] == asked


# --- what a house learns from -----------------------------------------------------------------


def test_instructions_and_described_paths_are_learnt_from_together(chain: Chain) -> None:
    client = client_of(chain, 0)
    assert client.speaker is not None and len(client.site.sampled[0]) > 10
    load_arrays(client.speaker, hand_out(client, chain))
    c = client.config
    annotated = TrainingData(client.site.samples("train"), c.objective.teacher_weight)
    described = TrainingData(
        client.site.sampled[0], c.objective.generated_weight, client.speaker.eval()
    )
    want = by_hand(client, chain, [annotated, described], 2)
    assert same(fitted(client, agent_arrays(chain), 2), want)
    assert not same(by_hand(client, chain, [annotated], 2), want)


def test_a_house_without_sampled_paths_reads_its_instructions_twice(chain: Chain) -> None:
    client = client_of(chain, 1)
    client = HouseClient(
        replace(client.site, sampled=((),)), client.config, client.agent, client.speaker
    )
    annotated = TrainingData(client.site.samples("train"), client.config.objective.teacher_weight)
    twice = by_hand(client, chain, [annotated, annotated], 2)
    assert same(fitted(client, agent_arrays(chain), 2), twice)
    assert not same(by_hand(client, chain, [annotated], 2), twice)


def test_a_house_that_was_handed_no_speaker_says_so(chain: Chain) -> None:
    client = client_of(chain, 0, "no-speaker")
    with pytest.raises(
        InputError, match=r"speaker/round-000000\.safetensors: missing private state"
    ):
        fitted(client, agent_arrays(chain), 1)
