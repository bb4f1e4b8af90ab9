"""Local methods in whole runs of two houses: what they are at their ends, what stays home, what a restart makes of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedsuite.arrays import Arrays, under_prefix
from fedsuite.errors import InputError
from fedsuite.runs.folder import RunFolder
from tests.fedvln_runs import Chain, chain_in, kind_of
from tests.harness import arrays_in, results_of

pytestmark = pytest.mark.slow

HEAD = "encoder, decoder, !decoder.candidate_attention"
METHODS: dict[str, dict[str, Any]] = {
    "fedper": {"share": HEAD},
    "fedrep": {"share": HEAD, "local_method": "fedrep"},
    "ditto": {"local_method": "ditto"},
    "apfl": {"local_method": "apfl", "own_weight_rate": 1.0},
    "layer-mixing": {"local_method": "layer-mixing", "own_weight_rate": 1.0},
}


def _head(kept: Arrays, shared: set[str]) -> Arrays:
    return {k: v for k, v in under_prefix(kept, "agent.").items() if k not in shared}


Private = Callable[[Arrays, set[str]], Arrays]
PRIVATE: dict[str, Private] = {
    "fedper": _head,
    "fedrep": _head,
    "ditto": lambda kept, shared: under_prefix(kept, "method."),
    "apfl": lambda kept, shared: under_prefix(kept, "method."),
    "layer-mixing": lambda kept, shared: under_prefix(kept, "method.weight."),
}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return chain_in(tmp_path_factory.getbasetemp(), __name__)


def server(run: Path, number: int) -> Arrays:
    stored = load_file(run / "checkpoints" / f"round-{number:06d}.safetensors")
    return under_prefix(stored, "arrays.")


def private(run: Path, number: int) -> list[Arrays]:
    """What the houses keep after a round."""
    return [load_file(f) for f in sorted(run.glob(f"clients/*/round-{number:06d}.safetensors"))]


def same(a: Arrays, b: Arrays) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


@pytest.fixture(scope="module")
def plain(chain: Chain) -> Path:
    chain.play("methods-plain", "train", num_rounds=3, client_optimizer="kept")
    return chain.run("methods-plain")


@pytest.mark.parametrize(
    "changes",
    [
        {"local_method": "ditto"},
        {"local_method": "apfl", "own_weight_rate": 1.0},
        {"local_method": "layer-mixing", "own_weight": 0.0, "own_weight_rate": 0.0},
    ],
    ids=["ditto", "apfl", "layer-mixing"],
)
def test_the_servers_model_is_fedavgs(chain: Chain, plain: Path, changes: dict[str, Any]) -> None:
    """To the last bit: own models, and APFL's second gradients, draw nothing of its random numbers."""
    name = f"ends-{changes['local_method']}"
    chain.play(name, "train", num_rounds=3, client_optimizer="kept", **changes)
    assert same(server(chain.run(name), 3), server(plain, 3))


def test_weights_of_one_train_alone(chain: Chain) -> None:
    """Layer-wise mixing with a = 1 has the agents of houses that train for themselves."""
    ends = {"local_method": "layer-mixing", "own_weight": 1.0, "own_weight_rate": 0.0}
    chain.play("ends-alone", "train", num_rounds=3, **ends)
    chain.play("alone", "train", num_rounds=3, method="local-only")
    agents = server(chain.run("alone"), 3)
    kept = private(chain.run("ends-alone"), 3)
    by_house = [under_prefix(agents, f"{p}/") for p in (0, 1)]
    assert len(kept) == 2
    for own in (under_prefix(k, "method.own.") for k in kept):
        assert own and any(same(own, other) for other in by_house)


def test_fedper_of_the_encoder_is_fed_lan(chain: Chain) -> None:
    for name, share in (("by-name", "encoder"), ("by-word", "language-encoder")):
        chain.play(f"lan-{name}", num_rounds=2, share=share)
    first, second = (results_of(RunFolder(chain.run(f"lan-{n}"))) for n in ("by-name", "by-word"))
    apart = {k for k in first.keys() | second.keys() if first.get(k) != second.get(k)}
    assert apart <= {
        f"checkpoints/round-{n:06d}.safetensors" for n in (0, 1, 2)
    }  # that name the share
    for number in (1, 2):
        models = [server(chain.run(f"lan-{n}"), number) for n in ("by-name", "by-word")]
        assert models[0] and same(*models)


def test_a_head_without_steps_stays_as_it_was(chain: Chain) -> None:
    changes = {**METHODS["fedrep"], "head_steps": 0.0}
    chain.play("still", "train", num_rounds=2, **changes)
    run = chain.run("still")
    for kept in private(run, 2):
        head = under_prefix(kept, "agent.")
        assert head and not any(k.startswith("encoder.") for k in head)
        assert same(head, under_prefix(private(run, 0)[0], "agent."))
    moved = server(run, 2)
    assert any(not np.array_equal(v, server(run, 0)[k]) for k, v in moved.items())


@pytest.mark.parametrize("name", METHODS)
def test_what_is_private_never_travels(chain: Chain, name: str) -> None:
    """Neither by its name nor by its numbers; layer-wise mixing sends all that it keeps but the weights."""
    recorder = chain.play(f"wire-{name}", "train", num_rounds=2, **METHODS[name])
    run = chain.run(f"wire-{name}")
    agent = set(load_file(chain.run("train") / "model.safetensors"))
    replies = [arrays_in(m) for m in recorder.received if kind_of(m) == "train"]
    shared = set(server(run, 2))
    assert len(replies) == 4 and all(set(r) == shared <= agent for r in replies)
    assert (shared == agent) == (name not in ("fedper", "fedrep"))
    travelled = {
        v.tobytes() for m in (*recorder.sent, *recorder.received) for v in arrays_in(m).values()
    }
    begun = {v.tobytes() for a in (server(run, 0), *private(run, 0)) for v in a.values()}
    for kept in (*private(run, 1), *private(run, 2)):
        own = PRIVATE[name](kept, shared)
        moved = {v.tobytes() for v in own.values()} - begun  # the critic has nothing to learn here
        assert moved and not travelled & moved


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("optimizer", ["kept", "fresh"])
def test_a_run_resumed_after_every_round_has_the_same_bytes(
    chain: Chain, name: str, optimizer: str
) -> None:
    changes = {**METHODS[name], "client_optimizer": optimizer, "participation_rate": 0.5}
    whole, parts = f"whole-{name}-{optimizer}", f"parts-{name}-{optimizer}"
    chain.play(whole, "train", num_rounds=4, **changes)
    chain.play(parts, "train", num_rounds=1, **changes)
    for rounds in (2, 3, 4):
        chain.play(parts, "train", num_rounds=rounds, **changes, resume=str(chain.run(parts)))
    first, second = results_of(RunFolder(chain.run(whole))), results_of(RunFolder(chain.run(parts)))
    apart = {k for k in first.keys() | second.keys() if first.get(k) != second.get(k)}
    assert apart <= {"history.jsonl"}  # a run that ended in between has a closing line for it


def test_own_models_differ_and_are_exported(chain: Chain) -> None:
    changes = METHODS["apfl"]
    chain.play("exported", "train", num_rounds=2, **changes)
    run = chain.run("exported")
    exported = [load_file(f) for f in sorted(run.glob("clients/*/model.safetensors"))]
    merged = server(run, 2)
    own = [e for e in exported if not same(e, merged)]
    assert len(own) == 2 and not same(*own)
    for kept in private(run, 2):
        weight, mine = float(kept["method.weight"]), under_prefix(kept, "method.own.")
        assert weight != 0.5
        mixed = {k: weight * mine[k] + (1 - weight) * merged[k] for k in merged}
        assert any(all(np.allclose(e[k], v, atol=1e-6) for k, v in mixed.items()) for e in own)


REFUSED: dict[str, dict[str, Any]] = {
    r"local-method: fedrep trains a head .* federation.share": {"local_method": "fedrep"},
    r"local-method: apfl is not built for speakers": {"local_method": "apfl", "stage": "speaker"},
    r"local-method: ditto is for federation.method=federated": {
        "local_method": "ditto",
        "method": "local-only",
    },
    r"client-optimizer: shared hands on": {"local_method": "ditto", "client_optimizer": "shared"},
    r"federation.share: no array is named .\*norm": {"share": "!*norm"},
    r"own-weight": {"local_method": "apfl", "own_weight": 1.5},
}


@pytest.mark.parametrize("told", REFUSED)
def test_what_makes_no_sense_is_refused_in_one_line(chain: Chain, told: str) -> None:
    """FedBN is one of them: an agent has no norm layers that could stay at home."""
    changes = dict(REFUSED[told])
    with pytest.raises(InputError, match=told) as refused:
        chain.play("refused", changes.pop("stage", "train"), **changes)
    assert "\n" not in str(refused.value)
