"""Every message of whole runs of every stage: what the houses hand over, and what they are told, to the last array."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Message

from fedsuite.arrays import Arrays, module_arrays, num_bytes
from fedsuite.vln.data.instructions import tokenize
from fedsuite.vln.data.roster import open_house
from fedsuite.vln.data.sources import places_of
from fedsuite.vln.metrics import AGENT
from fedsuite.vln.model.agent import AgentSizes, build_agent
from fedsuite.vln.plan import initial_agent, initial_speaker
from tests.fedvln_runs import METHODS, Chain, chain_in, kind_of, record_of, roster_of
from tests.harness import Recorder, arrays_in

pytestmark = pytest.mark.slow

ENCODER = {
    "encoder.embedding.weight", "encoder.to_hidden.weight", "encoder.to_hidden.bias",
    *(f"encoder.lstm.{kind}_{to}_l0{way}" for kind in ("weight", "bias") for to in ("ih", "hh") for way in ("", "_reverse")),
}  # fmt: skip
LOSSES = {"imitation-loss", "sampled-loss", "gradient-norm"}
TRAINED = LOSSES | {"num-examples", "steps", "decisions"}
WALKED = {m.name for m in AGENT} | {"count"}
SPOKEN = {f"{kind}-{n}" for kind in ("correct", "total") for n in (1, 2, 3, 4)} | {
    "words", "reference-words", "shortest-reference-words", "cross-entropy", "right-words", "target-words", "count",
}  # fmt: skip
SCORED = {"num-examples", "loss"}
PROPERTIES = {"partition", "name", "num-examples", "training-houses", "local-steps", "unseen"}
COUNTS = {"val_seen.count", "val_unseen.count"}
ROUTINE = {"round", "checkpoint-rounds", "last-trained"}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return chain_in(tmp_path_factory.getbasetemp(), __name__)


@pytest.fixture(scope="module", params=METHODS)
def explored(chain: Chain, request: pytest.FixtureRequest) -> tuple[Chain, str, Recorder]:
    """A pre-exploration of two rounds by every method, whose result is chosen on val-unseen."""
    changes = {"selection": "best-val-unseen", **METHODS[request.param]}
    recorder = chain.play(f"seen-{request.param}", num_rounds=2, **changes)
    return chain, request.param, recorder


def agent_of(chain: Chain) -> Arrays:
    """Arrays of the run's agent, for their names, shapes and types."""
    config = chain.settings("any")
    return module_arrays(initial_agent(config, roster_of(config)))


def speaker_of(chain: Chain) -> Arrays:
    config = chain.settings("any")
    arrays = module_arrays(initial_speaker(config, roster_of(config)))
    return {f"speaker.{k}": v for k, v in arrays.items()}


def form(arrays: Arrays) -> dict[str, tuple[Any, ...]]:
    return {k: (v.shape, v.dtype) for k, v in arrays.items()}


def round_of(message: Message) -> int:
    return int(record_of(message, "config")["round"])


# --- arrays -----------------------------------------------------------------------------------


def test_the_encoder_is_these_eleven_arrays(chain: Chain) -> None:
    assert {k for k in agent_of(chain) if k.startswith("encoder.")} == ENCODER
    assert len(ENCODER) == 11


def shared_by(method: str, agent: Arrays) -> Arrays:
    """What a method exchanges: written down here, not asked of the code."""
    if method == "env-based":
        return {}
    return {k: v for k, v in agent.items() if k in ENCODER} if "lan" in method else agent


def seen_nodes(recorder: Recorder) -> set[int]:
    """Nodes that answered that their house is a seen one."""
    answers = [m for m in recorder.received if kind_of(m) == "query"]
    return {m.metadata.src_node_id for m in answers if not record_of(m, "properties")["unseen"]}


def test_arrays_of_all_messages(explored: tuple[Chain, str, Recorder]) -> None:
    chain, method, recorder = explored
    agent, speaker = agent_of(chain), speaker_of(chain)
    share = form(shared_by(method, agent))
    personal = method != "centralised"
    trained = 0
    for message in recorder.sent:
        carried, config = form(arrays_in(message)), record_of(message, "config")
        if kind_of(message) == "query":
            assert carried == {}
        elif config.get("keep"):
            assert config["round"] == 0
            start = agent if personal else {}
            # Seen houses learn from their own instructions: they need no speaker.
            seen = message.metadata.dst_node_id in seen_nodes(recorder)
            assert carried == form(start if seen else {**start, **speaker})
        elif kind_of(message) == "train":
            trained += 1
            assert carried == share
        else:
            assert carried == ({} if personal else share)
    for message in recorder.received:
        assert not message.has_error()
        carried = form(arrays_in(message))
        assert carried == (share if kind_of(message) == "train" else {})
    # two rounds with every unseen house, with a seen one in the last method, with all in one client in the first
    assert trained == {"centralised": 2, "fed-lan-seen": 6}.get(method, 4)


def test_speaker_and_agent_are_sent_before_round_one_only(
    explored: tuple[Chain, str, Recorder],
) -> None:
    _, method, recorder = explored
    with_speaker = [
        (round_of(m), m.metadata.dst_node_id)
        for m in recorder.sent
        if any(k.startswith("speaker.") for k in arrays_in(m))
    ]
    houses = 1 if method == "centralised" else 2
    assert len(with_speaker) == len(set(with_speaker)) == houses
    assert {number for number, _ in with_speaker} == {0}


# --- everything else --------------------------------------------------------------------------


def test_config_keys_and_metrics_of_all_messages(explored: tuple[Chain, str, Recorder]) -> None:
    _, _, recorder = explored
    for message in recorder.sent:
        config = record_of(message, "config")
        if kind_of(message) == "query":
            assert set(message.content) == {"config"} and config == {"resume-round": 0}
            continue
        assert set(message.content) == {"arrays", "config"}
        keys = set(config) - ROUTINE
        if kind_of(message) == "train":
            assert keys == {"steps", "best-round"}
        else:
            assert keys in (set(), {"keep"}, {"export-round", "write", "score"})
    for message in recorder.received:
        if kind_of(message) == "query":
            assert set(message.content) == {"properties", "timing"}
            properties = set(record_of(message, "properties"))
            assert PROPERTIES <= properties <= PROPERTIES | COUNTS
            continue
        trained = kind_of(message) == "train"
        assert set(message.content) == {"metrics", "timing"} | ({"arrays"} if trained else set())
        assert set(record_of(message, "timing")) == {"seconds"}
        metrics = record_of(message, "metrics")
        if trained:
            assert set(metrics) == TRAINED
        else:
            walked = {f"val_unseen.{name}" for name in WALKED}
            assert set(metrics) in (SCORED, SCORED | walked)
        assert all(isinstance(v, int | float) for v in metrics.values())


def strings_in(messages: list[Message]) -> tuple[set[str], set[str]]:
    """Every text in the messages: names of arrays and keys; and values, those inside of lists too."""
    keys: set[str] = set()
    values: set[str] = set()
    for message in messages:
        for record in message.content.values():
            keys |= {str(key) for key in record}
            for value in record.values():
                items = value if isinstance(value, list) else [value]
                values |= {str(v) for v in items if isinstance(v, str | bytes)}
    return keys, values


def private_texts(chain: Chain) -> tuple[set[str], set[str]]:
    """Viewpoint ids of all houses, and words of their instructions."""
    config = chain.settings("any", **METHODS["fed-lan-seen"])
    places = places_of(config)
    viewpoints: set[str] = set()
    words: set[str] = set()
    for number, who in enumerate(roster_of(config).members):
        house = open_house(config, places, who.details["houses"][0], number)
        viewpoints |= set(house.graph.viewpoint_ids)
        texts = [s.text for samples in house.samples.values() for s in samples]
        words |= {w for text in texts for w in tokenize(text)}
    return viewpoints, {w for w in words if w.isalpha()}


def test_no_text_of_a_house_is_in_any_message(explored: tuple[Chain, str, Recorder]) -> None:
    """Values that are text at all are the houses' names and the rounds of checkpoints."""
    chain, _, recorder = explored
    viewpoints, words = private_texts(chain)
    assert len(viewpoints) > 50 and len(words) > 20
    config = chain.settings("any", **METHODS["fed-lan-seen"])
    scans = {s for member in roster_of(config).members for s in member.details["houses"]}
    keys, values = strings_in([*recorder.sent, *recorder.received])
    assert keys and values
    other = values - scans - {"all-unseen-houses"}
    assert all(re.fullmatch(r"\d+(,\d+)*", v) for v in other)
    assert not [t for t in keys | values if any(v in t for v in viewpoints)]
    assert not {w for t in values for w in tokenize(t)} & words - {"all", "houses", "unseen"}


# --- bytes ------------------------------------------------------------------------------------


def test_bytes_in_the_history_are_those_of_the_shared_arrays(
    explored: tuple[Chain, str, Recorder],
) -> None:
    chain, method, _ = explored
    agent = agent_of(chain)
    size = num_bytes(shared_by(method, agent).values())
    if method == "fed-lan":
        assert size == num_bytes(agent[name] for name in ENCODER) > 0
    rows = history(chain.run(f"seen-{method}"))
    clients = [r for r in rows if r["kind"].endswith("client")]
    trained = [r for r in clients if r["task"] == "train"]
    assert trained and {(r["bytes-down"], r["bytes-up"]) for r in trained} == {(size, size)}
    assert {r["bytes-up"] for r in clients if r["task"] == "evaluate"} == {0}
    if method != "centralised":
        assert {r["bytes-down"] for r in clients if r["task"] == "evaluate" and r["round"]} == {0}
    sent = [r["metrics"]["modules-sent"] for r in rows if r["kind"] == "round" and r["round"]]
    assert sent == [{"env-based": 0, "fed-lan": 1, "fed-lan-seen": 1}.get(method, 3)] * 2


def history(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]


def test_published_sizes() -> None:
    """R2R with ResNet features: 992 words, 2048 features, dead layers kept as in the official release."""
    sizes = AgentSizes(992, 2048, dead_layers=True)
    with torch.device("meta"):
        state = build_agent(sizes, 0).state_dict()
    encoder = {k: v for k, v in state.items() if k.startswith("encoder.")}
    assert 4 * sum(v.numel() for v in encoder.values()) == 6_277_120
    assert 4 * sum(v.numel() for v in state.values()) == 52_992_260
