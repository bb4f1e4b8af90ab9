"""Visits of a house that come to nothing, in whole runs: what is left on its disk, and what the later rounds make of it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

import clients.house
from fedsuite.run_folder import RunFolder
from tests.fedvln_runs import METHODS, Chain, chain_in
from tests.harness import results_of

pytestmark = pytest.mark.slow

LOST = (2, 0)  # round and partition of the visit
Spoil = Callable[[torch.nn.Module], None]
EXPLORE: dict[str, Any] = {"client_optimizer": "kept"}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "kept": ("train", {"client_optimizer": "kept"}),
    "shared": ("train", {"client_optimizer": "shared"}),
    "control variates": ("train", {"client_optimizer": "fresh", "control_variates": True}),
    "encoder shared": ("pre-explore", METHODS["fed-lan"] | EXPLORE),
    "nothing shared": ("pre-explore", METHODS["env-based"] | EXPLORE),
}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return chain_in(tmp_path_factory.getbasetemp())


def overflow(agent: torch.nn.Module) -> None:
    """A weight that no house ever sends in pre-exploration by language encoders."""
    with torch.no_grad():
        next(agent.get_submodule("critic").parameters()).fill_(float("inf"))


def fail(agent: torch.nn.Module) -> None:
    raise RuntimeError("out of luck")


@pytest.fixture
def played(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunFolder]:
    """A run of three rounds, all houses in each, in which one visit is spoilt."""

    def play(name: str, stage: str, spoil: Spoil, **changes: Any) -> RunFolder:
        original = clients.house.train_locally

        def spoilt(agent: Any, *arguments: Any, **visit: Any) -> Any:
            if (visit["round"], visit["partition"]) != LOST:
                return original(agent, *arguments, **visit)
            if spoil is fail:
                fail(agent)
            report = original(agent, *arguments, **visit)
            spoil(agent)
            return report

        with monkeypatch.context() as patch:
            patch.setattr(clients.house, "train_locally", spoilt)
            chain.play(
                name,
                stage,
                **{"num_rounds": 3, "evaluate_every": 0, "min_reply_fraction": 0.5, **changes},
            )
        return RunFolder(chain.run(name))

    return play


def statuses(run: RunFolder) -> list[tuple[str, str]]:
    """Of every training visit of the house."""
    rows = map(json.loads, (run.path / "history.jsonl").read_text().splitlines())
    own = (r for r in rows if r["kind"] == "client" and r["task"] == "train")
    return [(r["status"], r["reason"]) for r in own if r["partition"] == LOST[1]]


@pytest.mark.parametrize("case", CASES)
def test_an_overflow_costs_one_round_and_leaves_no_trace(
    played: Callable[..., RunFolder], case: str
) -> None:
    """Equal bytes whether the house trained and diverged, or did not train at all."""
    stage, changes = CASES[case]
    name = case.replace(" ", "-")
    diverged = played(f"{name}-diverged", stage, overflow, **changes)
    idle = played(f"{name}-idle", stage, fail, **changes)
    first, (status, reason), third = statuses(diverged)
    assert (first[0], status, third[0]) == ("ok", "error", "ok")
    assert "training diverged" in reason and "critic." in reason
    one, two = results_of(diverged), results_of(idle)
    both = ("history.jsonl", "checkpoints")  # these have the reason in them
    assert one.keys() == two.keys()
    assert {k: v for k, v in one.items() if not k.startswith(both)} == {
        k: v for k, v in two.items() if not k.startswith(both)
    }
