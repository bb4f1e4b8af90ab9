"""Visits of a house that come to nothing, in whole runs: what is left on its disk, and what later rounds make of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import clients.house
from clients.house import HouseClient
from fedsuite.arrays import under_prefix
from fedsuite.history import read_rows
from fedsuite.runs.folder import RunFolder
from tests.fedvln_runs import METHODS, Chain, chain_in
from tests.harness import results_of

pytestmark = pytest.mark.slow

LOST = (2, 0)  # round and partition of the visit
CONTROLLED = {"control_variates": True}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "kept": ("train", {"client_optimizer": "kept"}),
    "shared": ("train", {"client_optimizer": "shared"}),
    "controlled": ("train", {"client_optimizer": "fresh", **CONTROLLED}),
    "own-models": ("train", {"local_method": "ditto"}),
    "mixed": ("train", {"local_method": "layer-mixing", "own_weight_rate": 1.0}),
    "nothing-sent": ("pre-explore", METHODS["env-based"]),
    "encoder-sent": ("pre-explore", {**METHODS["fed-lan"], **CONTROLLED}),
}
Visit = Callable[..., Any]


def overflows(visit: Visit, *arguments: Any) -> Any:
    """Training ends with an infinity in what a house keeps to itself in pre-exploration."""

    def train(agent: torch.nn.Module, *others: Any, **about: Any) -> Any:
        report = original(agent, *others, **about)
        with torch.no_grad():
            next(agent.get_submodule("critic").parameters()).fill_(float("inf"))
        return report

    original = clients.house.train_locally
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients.house, "train_locally", train)
        return visit(*arguments)


def is_idle(visit: Visit, *arguments: Any) -> Any:
    raise RuntimeError("out of luck")


def is_in_vain(visit: Visit, *arguments: Any) -> Any:
    """The house trains and saves, and its answer comes to nothing."""
    arrays, examples, metrics = visit(*arguments)
    return arrays, examples, {**metrics, "loss": float("nan")}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return chain_in(tmp_path_factory.getbasetemp(), __name__)


@pytest.fixture
def played(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunFolder]:
    """Three rounds of all houses, in which one visit goes as `spoilt` says."""

    def play(case: str, spoilt: Callable[..., Any]) -> RunFolder:
        (stage, changes), original = CASES[case], HouseClient.fit
        name = f"{case}-{spoilt.__name__}"

        def fit(self: HouseClient, parameters: Any, config: dict[str, Any]) -> Any:
            if (config["round"], self.site.partition) == LOST:
                return spoilt(original, self, parameters, config)
            return original(self, parameters, config)

        with monkeypatch.context() as patch:
            patch.setattr(HouseClient, "fit", fit)
            chain.play(name, stage, num_rounds=3, min_reply_fraction=0.5, **changes)
        return RunFolder(chain.run(name))

    return play


def visits(run: RunFolder) -> list[str]:
    """How every training visit of the house ended."""
    rows = (r for r in read_rows(run.path / "history.jsonl") if r["kind"] == "client")
    return [r["status"] for r in rows if (r["task"], r["partition"]) == ("train", LOST[1])]


def left(run: RunFolder) -> dict[str, Any]:
    """All that must be equal; history and checkpoints tell beside it why a visit failed."""
    bytes_of = results_of(run)
    rounds = [r for r in read_rows(run.path / "history.jsonl") if r["kind"] in ("round", "closing")]
    files = {k: v for k, v in bytes_of.items() if k.startswith(("clients", "model"))}
    assert "model.safetensors" in files
    return files | {"rounds": rounds}


def control_of(file: Any, prefix: str) -> np.ndarray:
    arrays = under_prefix(load_file(file), prefix)
    return np.concatenate([arrays[k].astype(np.float64).ravel() for k in sorted(arrays)])


@pytest.mark.parametrize("case", CASES)
def test_a_visit_that_comes_to_nothing_leaves_no_trace(
    played: Callable[..., RunFolder], case: str
) -> None:
    """Equal bytes and scores whether the house did not train, diverged, or, with control variates, trained in vain."""
    idle, diverged = played(case, is_idle), played(case, overflows)
    assert visits(idle) == visits(diverged) == ["ok", "error", "ok"]
    assert left(diverged) == left(idle)
    if "control_variates" not in CASES[case][1]:
        return
    vain = played(case, is_in_vain)
    assert visits(vain) == ["ok", "rejected", "ok"]
    assert left(vain) == left(idle)
    own = [control_of(f, "control.") for f in vain.clients.glob("*/round-000003.safetensors")]
    c = control_of(vain.checkpoints / "round-000003.safetensors", "optimizer.control.")
    assert len(own) == 2 and np.abs(c).max() > 0
    np.testing.assert_allclose(c, np.mean(own, axis=0), atol=1e-6)
