"""Every run of tests/golden/runs.py gives what it gave when it was recorded."""

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.golden.comparing import (
    differences,
    fingerprint_differences,
    other_draws,
    other_machine,
)
from tests.golden.record import FOLDER, Outcome, as_text, outcome_of, read_outcome
from tests.golden.runs import RUNS, Plays
from tests.harness import ROOT

Outcomes = Callable[[str], Outcome]
ONE = "vln-train-parallel"


@pytest.fixture(scope="module")
def came(plays: Plays) -> Outcomes:
    """`came(name)`: the outcome of a run; every run is carried out once, by the first who asks."""
    known: dict[str, Outcome] = {}

    def came(name: str) -> Outcome:
        if name not in known:
            known[name] = outcome_of(plays.folder(name))
        return known[name]

    return came


@pytest.mark.parametrize("name", RUNS)
def test_counts_and_metrics_are_the_recorded_ones(came: Outcomes, name: str) -> None:
    if elsewhere := other_draws():
        pytest.skip(elsewhere)
    found = differences(name, read_outcome(name), came(name))
    assert not found, "\n".join([f"{len(found)} differences", *found[:40]])


@pytest.mark.parametrize("name", RUNS)
def test_models_are_the_recorded_ones_to_the_last_bit(came: Outcomes, name: str) -> None:
    recorded = read_outcome(name)
    elsewhere = other_machine(recorded, came(name))
    if elsewhere:
        pytest.skip(f"arrays are equal to the last bit on one kind of machine only; {elsewhere}")
    found = fingerprint_differences(name, recorded, came(name))
    assert not found, "\n".join(found)


def test_the_torch_of_the_constraints_draws_as_runs_were_recorded() -> None:
    """Or no run would be compared any more: record them anew, and what is drawn (comparing.py)."""
    pinned = re.search(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    if torch.__version__.partition("+")[0] != pinned[1]:
        pytest.skip(f"this is torch {torch.__version__}")
    assert other_draws() == ""


def test_every_run_is_recorded_and_nothing_else() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_a_record_agrees_with_itself_and_is_written_as_it_is_read(name: str) -> None:
    recorded = read_outcome(name)
    assert differences(name, recorded, recorded) == []
    assert fingerprint_differences(name, recorded, recorded) == []
    assert other_machine(recorded, recorded) == ""
    assert as_text(recorded) == (FOLDER / f"{name}.json").read_text(encoding="utf-8")


# --- the comparison complains -----------------------------------------------------------------------


def _last_evaluation(outcome: Outcome) -> dict[str, Any]:
    return next(row for row in reversed(outcome["rounds"]) if "val_unseen.sr" in row["metrics"])


def _client(outcome: Outcome) -> dict[str, Any]:
    return next(row for row in outcome["clients"] if row["task"] == "train")


def _off_metric(outcome: Outcome) -> None:
    metrics = _last_evaluation(outcome)["metrics"]
    metrics["val_unseen.sr"] = metrics["val_unseen.sr"] * 1.0003 + 0.0003


def _no_metric(outcome: Outcome) -> None:
    del _last_evaluation(outcome)["metrics"]["val_unseen.sr"]


def _off_client_metric(outcome: Outcome) -> None:
    _client(outcome)["metrics"]["steps"] += 1


def _off_count(key: str) -> Callable[[Outcome], None]:
    def change(outcome: Outcome) -> None:
        _client(outcome)[key] += 1

    return change


def _off_status(outcome: Outcome) -> None:
    _client(outcome)["status"] = "late"


def _no_client(outcome: Outcome) -> None:
    outcome["clients"].remove(_client(outcome))


def _one_client_more(outcome: Outcome) -> None:
    outcome["clients"].append(dict(_client(outcome)))


def _no_round(outcome: Outcome) -> None:
    outcome["rounds"].remove(_last_evaluation(outcome))


CHANGES: dict[str, tuple[Callable[[Outcome], None], str]] = {
    "metric": (_off_metric, "round 4, round, no. 1: metric val_unseen.sr: expected "),
    "metric missing": (_no_metric, "metric val_unseen.sr: expected "),
    "metric of a client": (_off_client_metric, "metric steps: expected "),
    "examples": (_off_count("num-examples"), "train, no. 1: num-examples: expected "),
    "bytes down": (_off_count("bytes-down"), "train, no. 1: bytes-down: expected "),
    "bytes up": (_off_count("bytes-up"), "train, no. 1: bytes-up: expected "),
    "status": (_off_status, "status: expected ok, came late"),
    "client missing": (_no_client, "was recorded, did not come"),
    "client too many": (_one_client_more, "train, no. 2: came, was not recorded"),
    "round missing": (_no_round, "round 4, round, no. 1: was recorded, did not come"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_one_changed_number_is_one_complaint(change: str) -> None:
    recorded, (make, expected) = read_outcome(ONE), CHANGES[change]
    changed = copy.deepcopy(recorded)
    make(changed)
    complaints = differences(ONE, recorded, changed)
    assert len(complaints) == 1
    assert complaints[0].startswith(f"{ONE}: round ") and expected in complaints[0]


def test_messages_are_counted() -> None:
    recorded = read_outcome("rl-joint")
    changed = copy.deepcopy(recorded)
    _client(changed)["messages"] -= 1
    (complaint,) = differences("rl-joint", recorded, changed)
    assert ", train, no. 1: messages: expected " in complaint


@pytest.mark.parametrize("which", ["final", "checkpoint"])
def test_another_fingerprint_is_a_complaint(which: str) -> None:
    recorded = read_outcome(ONE)
    changed = copy.deepcopy(recorded)
    changed["model"][which] = "0" * 64
    (complaint,) = fingerprint_differences(ONE, recorded, changed)
    assert complaint.startswith(f"{ONE}: fingerprint of the {which} arrays: expected ")


def test_another_machine_is_named() -> None:
    recorded = read_outcome(ONE)
    changed = copy.deepcopy(recorded)
    changed["machine"]["torch"] = "1.0"
    assert other_machine(recorded, changed).startswith("torch: recorded with ")


def test_new_metrics_are_no_complaint() -> None:
    recorded = read_outcome(ONE)
    changed = copy.deepcopy(recorded)
    for row in (*changed["rounds"], *changed["clients"]):
        row["metrics"]["new"] = 1.0
    assert differences(ONE, recorded, changed) == []


def test_other_names_are_complaints_unless_the_table_has_them() -> None:
    recorded = read_outcome(ONE)
    changed = copy.deepcopy(recorded)
    renamed = {"val_unseen.sr": "success", "client": "party", "train": "learn", "ok": "fine"}
    for row in (*changed["rounds"], *changed["clients"]):
        for key in row.keys() & {"kind", "task", "status"}:
            row[key] = renamed.get(row[key], row[key])
        row["metrics"] = {renamed.get(k, k): v for k, v in row["metrics"].items()}
    assert len(differences(ONE, recorded, changed)) > 20
    assert differences(ONE, recorded, changed, renamed) == []
