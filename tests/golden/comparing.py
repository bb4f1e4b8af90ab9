"""In which points a run differs from what was recorded of it; one line a difference, none if there is none."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from tests.golden.record import COUNTS, Outcome
from tests.golden.runs import RENAMED

TOLERANCE = (
    1e-4  # a metric may be off by this much, absolutely or relative to the larger of the two
)

DRAWN = 1.0272642, 0.3007780, 0.4475811  # exponentials by seed 5, of torch 2.15

Row = Mapping[str, Any]
Rows = dict[str, Row]  # by what tells a row from all others
_Renaming = Mapping[str, str]


def differences(
    run: str, recorded: Outcome, came: Outcome, renamed: _Renaming = RENAMED
) -> list[str]:
    """Which rows there are, counts and statuses (exactly), and metrics (within TOLERANCE); new metrics may be there."""
    found: list[str] = []
    for part, title in (("rounds", _round_title), ("clients", _client_title)):
        old = _by_title(recorded[part], title, renamed)
        new = _by_title(came[part], title, {})
        found += [f"{run}: {t}: was recorded, did not come" for t in old if t not in new]
        found += [f"{run}: {t}: came, was not recorded" for t in new if t not in old]
        for t in old.keys() & new.keys():
            found += [f"{run}: {t}: {text}" for text in _in_row(old[t], new[t], renamed)]
    return sorted(found)


def fingerprint_differences(run: str, recorded: Outcome, came: Outcome) -> list[str]:
    """Arrays that are not equal to the last bit; only to be asked where `other_machine` says nothing."""
    return [
        f"{run}: fingerprint of the {which} arrays: expected {expected}, came {came['model'][which]}"
        for which, expected in recorded["model"].items()
        if came["model"][which] != expected
    ]


def other_machine(recorded: Outcome, came: Outcome) -> str:
    """Why fingerprints cannot be compared here; "" if they can."""
    old, new = recorded["machine"], came["machine"]
    return "; ".join(
        f"{key}: recorded with {old.get(key)}, here {new.get(key)}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    )


def other_draws() -> str:
    """Why no run can be as recorded here: versions of torch draw exponentials otherwise, and with them actions and dropout;
    "" if it can."""
    generator = torch.Generator().manual_seed(5)
    drawn = torch.empty(len(DRAWN)).exponential_(1, generator=generator)
    if np.allclose(drawn.numpy(), DRAWN):
        return ""
    return f"torch {torch.__version__} draws other random numbers than the one that runs were recorded with"


def _in_row(old: Row, new: Row, renamed: _Renaming) -> Iterator[str]:
    for key in COUNTS:
        expected, value = old.get(key), new.get(key)
        if key == "status":
            expected = renamed.get(str(expected), str(expected)) if expected else expected
        if expected != value:
            yield f"{key}: expected {expected}, came {value}"
    for metric, expected in old["metrics"].items():
        name = renamed.get(metric, metric)
        if name not in new["metrics"]:
            yield f"metric {name}: expected {expected}, is not there"
        elif not _close(expected, new["metrics"][name]):
            yield f"metric {name}: expected {expected}, came {new['metrics'][name]}"


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _by_title(
    rows: list[dict[str, Any]], title: Callable[[Row, _Renaming], str], renamed: _Renaming
) -> Rows:
    """Rows by title; equal titles are numbered in the order of the history."""
    found: Rows = {}
    for row in rows:
        name, number = title(row, renamed), 1
        while f"{name}, no. {number}" in found:
            number += 1
        found[f"{name}, no. {number}"] = row
    return found


def _round_title(row: Row, renamed: _Renaming) -> str:
    return f"round {row['round']}, {renamed.get(row['kind'], row['kind'])}"


def _client_title(row: Row, renamed: _Renaming) -> str:
    kind, name, task = (renamed.get(row[key], row[key]) for key in ("kind", "name", "task"))
    return f"round {row['round']}, {kind} {name}, {task}"
