"""Whole runs whose houses train side by side learn what they learn one after another, stage by stage."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedsuite import arrays
from fedsuite.arrays import load_arrays
from fedsuite.history import HISTORY, load_run, read_rows
from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.vln.plan import starting_model
from fedsuite.vln.training import stacked
from simulations.fedvln import client
from tests.fedvln_runs import Chain, chain_in

TOGETHER: dict[str, Any] = {"houses_per_message": 2, "num_rounds": 2, "local_epochs": 2}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "train": ("train", {"objective": "a2c", "client_optimizer": "kept", "dropout": 0.2}),
    "train-penalty": ("train", {"local_penalty": "proximal"}),
    "train-ditto": ("train", {"local_method": "ditto"}),
    "augment": ("augment", {}),
    "train-chains": ("train", {"group_size": 2, "generated_seen_houses": 4}),
    "train-scaffold": ("train", {"control_variates": True, "client_optimizer": "kept"}),
    "train-own-encoder": ("train", {"share": "decoder.*, critic.*"}),
    "explore": ("pre-explore", {"share": "agent"}),
    "explore-encoder": (
        "pre-explore",
        {"share": "language-encoder", "seen_participation_rate": 1.0},
    ),
}

# Times that houses are stacked in two rounds: Ditto has two agents, a chain two places, four houses two messages.
TRAININGS = dict.fromkeys(RUNS, 2) | {"train-ditto": 4, "train-chains": 4, "explore-encoder": 4}
OWN = {
    "train-ditto": 4,
    "train-own-encoder": 4,
    "explore": 2,
    "explore-encoder": 4,
}  # models of houses


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return chain_in(tmp_path_factory.getbasetemp(), __name__)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many houses every stack is that has trained."""
    found: list[int] = []

    def counted(*given: Any) -> Any:
        found.append(len(given[0]))
        return stacked.train_stacked(*given)

    monkeypatch.setattr(client, "train_stacked", counted)
    return found


def _before_training(folder: Path) -> Iterator[tuple[str, float]]:
    """Scores of the same model, by house."""
    for row in read_rows(folder / HISTORY):
        if (row["kind"], row.get("task", ""), row["round"]) == (
            "client",
            "evaluate",
            0,
        ):
            yield from ((f"{row['name']} {k}", v) for k, v in row["metrics"].items())


@pytest.mark.parametrize("name", RUNS)
def test_houses_of_a_run_learn_what_they_learn_one_after_another(
    chain: Chain, counts: list[int], name: str
) -> None:
    """All that is kept, of the server and of houses: apart by a small part of what was learnt; the same decisions."""
    stage, changes = RUNS[name]
    for kind in ("no", "yes"):
        chain.play(f"{name}-{kind}", stage, **TOGETHER, **changes, stacked=kind)
        assert bool(counts) == (kind == "yes")
    assert set(counts) == {2} and len(counts) == TRAININGS[name]
    one, two = (chain.run(f"{name}-{kind}") for kind in ("no", "yes"))
    start, others = ([*_before_training(folder)] for folder in (one, two))
    assert start == others and len(start) > 10
    decided, others = (load_run(folder).rounds["train.decisions"].dropna() for folder in (one, two))
    assert [*decided] == [*others] and len(decided) == 2
    settings = chain.settings(f"{name}-no", stage, **TOGETHER, **changes)
    saved = starting_model(settings, read_roster(one / ROSTER))
    own = [*(one / "clients").glob("*/model.safetensors")]
    assert len(own) == OWN.get(name, 0)
    for file in (one / "model.safetensors", *own):
        mine, theirs = load_file(file), load_file(two / file.relative_to(one))
        start = {k: saved[k] for k in mine}
        learnt = sum(np.square(mine[k] - start[k]).sum() for k in mine) ** 0.5
        apart = sum(np.square(mine[k] - theirs[k]).sum() for k in mine) ** 0.5
        assert learnt > 1e-2 and apart < 1e-3 * learnt, (file, learnt, apart)


def test_a_house_that_plants_a_backdoor_trains_alone(chain: Chain, counts: list[int]) -> None:
    """What it does to its decisions is its own: to the byte what it does without a stack, whose other houses are honest."""
    hostile: dict[str, Any] = {"sabotage.clients": "0", "sabotage.attack": "backdoor"}
    more = {**TOGETHER, "houses_per_message": 4, "generated_seen_houses": 4, "num_rounds": 1}
    told = []
    for kind in ("no", "yes"):
        chain.play(f"hostile-{kind}", "train", **more, **hostile, stacked=kind)
        rows = read_rows(chain.run(f"hostile-{kind}") / HISTORY)
        told.append(
            [r["metrics"] for r in rows if r.get("task") == "train" and r["partition"] == 0]
        )
    chain.play("honest", "train", **more, stacked="no")
    rows = read_rows(chain.run("honest") / HISTORY)
    assert counts == [3] and told[0] == told[1] and len(told[0]) == 1
    assert told[0] != [
        r["metrics"] for r in rows if r.get("task") == "train" and r["partition"] == 0
    ]


@pytest.mark.parametrize("kind", ["no", "yes"])
def test_a_model_is_loaded_once_for_the_houses_of_a_message(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """To score it; who trains loads it for every house. Houses with agents of their own load those."""
    more = {**TOGETHER, "houses_per_message": 4, "generated_seen_houses": 4, "evaluate_every": 1}
    calls: list[int] = []

    def counted(*given: Any) -> None:
        calls.append(1)
        load_arrays(*given)

    monkeypatch.setattr(arrays, "load_arrays", counted)
    for name, own in (("one", {}), ("own", {"share": "decoder.*, critic.*"})):
        calls.clear()
        chain.play(f"loaded-{name}-{kind}", "train", **more, **own, stacked=kind)
        rows = read_rows(chain.run(f"loaded-{name}-{kind}") / HISTORY)
        scored = [r for r in rows if r.get("task") == "evaluate" and r["num-examples"]]
        messages = sum(r["bytes-down"] > 0 for r in scored)
        assert 3 <= messages < len(scored)
        assert len(calls) == (messages if name == "one" else len(scored))
