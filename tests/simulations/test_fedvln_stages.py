"""Every stage of FedVLN writes the same bytes twice, after a cut, and over Ray."""

from pathlib import Path
from typing import Any

import pytest

from fedsuite.history import load_runs
from fedsuite.run_folder import folder_of
from simulations.engines.ray import Resources, run_ray
from simulations.fedvln_system import num_partitions
from tests.fedvln_runs import METHODS, MARKER, Chain, chain_in, results_of
from tests.harness import cli

BEST = {"selection": "best-val-unseen"}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return chain_in(tmp_path_factory.getbasetemp())


RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "speaker-centralised": ("speaker", {"method": "centralised"}),
    "speaker-sequential": ("speaker", {"aggregation": "sequential", "selection": "best-val-seen"}),
    "augment": ("augment", {}),
    "augment-shared": ("augment", {"client_optimizer": "shared", "objective": "a2c"}),
    "augment-centralised": ("augment", {"method": "centralised"}),
    **{name: ("pre-explore", changes) for name, changes in METHODS.items()},
    "fed-lan-newest": ("pre-explore", {**METHODS["fed-lan"], **BEST, "personal_encoder": "newest"}),
    "fed-lan-fresh": ("pre-explore", {**METHODS["fed-lan-seen"], "client_optimizer": "fresh"}),
    "fed-lan-sequential": ("pre-explore", {**METHODS["fed-lan"], "aggregation": "sequential"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_stage_and_method_writes_the_same_bytes_twice(chain: Chain, name: str) -> None:
    stage, changes = RUNS[name]
    for twin in ("one", "two"):
        chain.play(f"{name}-{twin}", stage, **changes)
    one, two = (results_of(chain.run(f"{name}-{twin}")) for twin in ("one", "two"))
    assert one == two and len(one) > 2
    scores = load_runs(chain.run(f"{name}-one")).rounds
    split = "bleu-1" if stage == "speaker" else "sr"
    assert scores[f"val_unseen.{split}"].notna().all()


def test_methods_end_at_different_agents(chain: Chain) -> None:
    """Exported agents of one unseen house, after a round from the same start."""
    found = {}
    for name in ("env-based", "fed-full", "fed-lan-seen"):
        chain.play(f"differs-{name}", num_rounds=2, **METHODS[name])
        files = results_of(chain.run(f"differs-{name}"))
        exported = {k: v for k, v in files.items() if k.endswith("/model.safetensors")}
        assert len(set(exported.values())) == len(exported) >= 2
        found[name] = frozenset(v for k, v in exported.items())
    assert len(set().union(*found.values())) == 2 + 2 + 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("lan-last", METHODS["fed-lan"]),
        ("lan-best", {**METHODS["fed-lan-seen"], **BEST}),
        ("env-best", {**METHODS["env-based"], **BEST, "checkpoint_every": 2}),
    ],
)
def test_killed_pre_exploration_resumes_to_the_same_bytes(
    chain: Chain, tmp_path: Path, name: str, changes: dict[str, Any]
) -> None:
    """SIGKILL in round 3, when the first house has trained already and the second has not."""
    changes = {"num_rounds": 4, **changes}
    chain.play(f"{name}-whole", **changes)
    killed = f"{name}-killed"
    toml = chain.write_toml(tmp_path, killed, **changes)
    marker = chain.root / "runs" / f"{killed}.{MARKER}"
    marker.touch()
    first = cli(tmp_path, "run", toml, "--engine", "inprocess")
    assert first.returncode != 0 and not marker.exists()
    states = chain.run(killed) / "clients"
    assert list(states.glob("*/round-000003.safetensors"))
    assert not list(states.glob("*/model.safetensors"))
    done = cli(tmp_path, "run", "--resume", str(chain.run(killed)), "--engine", "inprocess")
    assert done.returncode == 0, done.stderr
    whole = results_of(chain.run(f"{name}-whole"))
    assert results_of(chain.run(killed)) == whole
    houses = 4 if "seen" in str(changes) and "seen_participation_rate" in changes else 2
    assert sum(k.endswith("/model.safetensors") for k in whole) == houses


@pytest.mark.slow
def test_two_ray_workers_write_the_bytes_of_the_in_process_engine(chain: Chain) -> None:
    changes = {"num_rounds": 2, **METHODS["fed-lan"]}
    chain.play("here", **changes)
    there = chain.config("there", **changes)
    settings = chain.settings("there", **changes)
    run_ray(there, folder_of(settings), num_partitions(settings), Resources(2))
    assert results_of(chain.run("here")) == results_of(chain.run("there"))
