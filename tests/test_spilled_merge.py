"""Replies on disk: every rule and server optimizer gives the bytes that it gives in memory, whatever a block's width."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedsuite.arrays import Arrays, forms_of, under_prefix
from fedsuite.averaging import blocks
from fedsuite.averaging.distances import lengths
from fedsuite.averaging.merging import ServerStep, server_step, shares
from fedsuite.averaging.robust import MERGE_RULES, Merge
from fedsuite.averaging.server_optimizers import SERVER_OPTIMIZERS
from fedsuite.averaging.step import Step
from fedsuite.averaging.stored import Stored, picked, stored_like
from strategies.averaging import mean_square

ROOT = Path(__file__).parents[1]
SHAPES = {
    "a.weight": (5, 3), "a.bias": (), "b": (1, 1), "c": (31,), "d": (4, 1, 2), "e": (0, 3), "prompt.f": (5,),
}  # fmt: skip
WIDTHS = (2, 7, 1 << 14)


def model(seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    arrays = {k: rng.standard_normal(s).astype(np.float32) for k, s in SHAPES.items()}
    return {k: np.asarray(v) for k, v in arrays.items()} | {"n": np.arange(3) + seed}


def on_disk(folder: Path, clients: list[Arrays]) -> list[Stored]:
    return [Stored.write(folder / f"{i}.numbers", arrays) for i, arrays in enumerate(clients)]


def same(one, other) -> bool:
    bytes_of = [[(k, v.dtype, v.shape, v.tobytes()) for k, v in a.items()] for a in (one, other)]
    return bytes_of[0] == bytes_of[1]


# --- what the rules of single numbers were before there were blocks --------------------------------


def whole(name: str, server: Arrays, clients: list[Arrays], f: int) -> Arrays:
    changes = {
        k: np.array([c[k] - s.astype(np.float64) for c in clients]) for k, s in server.items()
    }
    if name == "median":
        return {k: np.asarray(np.median(x, axis=0)) for k, x in changes.items()}
    return {
        k: np.asarray(np.sort(x, axis=0)[f : len(x) - f].mean(axis=0)) for k, x in changes.items()
    }


CASES = [
    (n, c) for n, rule in sorted(MERGE_RULES.items()) for c in (2, 11, 300) if rule.least(0) <= c
]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "count"), CASES)
def test_a_rule_gives_the_same_bytes_from_disk_as_from_memory(
    tmp_path, monkeypatch, name, count, width
):
    rule = MERGE_RULES[name]
    f = max(f for f in range(4) if rule.least(f) <= count)
    server, clients = model(0), [model(k + 1) for k in range(count)]
    weights = shares([k + 1 for k in range(count)])
    step = Step(trusted=count - 1)
    reference = rule.merged(
        server, clients, weights, f, step
    )  # as they fit in memory, in one block
    if name in ("median", "trimmed-mean"):
        assert same(reference.delta, whole(name, server, clients, f))
    monkeypatch.setattr(blocks, "HELD", 8 * count * width)
    for given in (clients, on_disk(tmp_path, clients)):
        found = rule.merged(server, given, weights, f, step)
        assert same(found.delta, reference.delta)
        assert found.admitted.tobytes() == reference.admitted.tobytes()


@pytest.mark.parametrize("clips", [True, False])
def test_a_bound_on_lengths_gives_the_same_bytes(tmp_path, clips):
    server, clients = model(0), [model(k + 1) for k in range(11)]
    merge = Merge(MERGE_RULES["trimmed-mean"], 1, 1.0, clips, "trimmed-mean")
    held = merge(server, clients, shares([1] * 11))
    spilled = merge(server, on_disk(tmp_path, clients), shares([1] * 11))
    assert same(held.delta, spilled.delta) and held.admitted.min() < 1
    assert held.admitted.tobytes() == spilled.admitted.tobytes()


def test_the_spread_of_clients_by_hand():
    """sum_k p_k ||w_k - w||^2."""
    server = {"a": np.array([1.0]), "b": np.array([[2.0]])}
    clients = [{"a": np.array([4.0]), "b": np.array([[6.0]])}, {"a": np.array([0.0]), "b": np.array([[2.0]])}]  # fmt: skip
    assert mean_square(server, clients, np.array([0.25, 0.75])) == 0.25 * 25 + 0.75


@pytest.mark.parametrize("name", sorted(SERVER_OPTIMIZERS))
def test_a_server_optimizer_gives_the_same_bytes(tmp_path, name):
    server, clients, p = model(0), [model(k + 1) for k in range(11)], shares([*range(1, 12)])
    ends = []
    for given in (clients, on_disk(tmp_path, clients)):
        delta = MERGE_RULES["mean"].combine(server, given, p, 0).delta
        step = ServerStep(mean_square=lambda given=given: mean_square(server, given, p))
        ends.append(server_step(server, delta, step, SERVER_OPTIMIZERS[name]))
    assert same(ends[0][0], ends[1][0]) and same(ends[0][1], ends[1][1])
    assert (
        lengths(server, clients).tobytes() == lengths(server, on_disk(tmp_path, clients)).tobytes()
    )


def test_stored_arrays_are_what_was_stored(tmp_path):
    made = {**model(3), "f": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "g": np.array(True)}
    stored = Stored.write(tmp_path / "x.numbers", made)
    assert same(stored, made) and forms_of(stored) == forms_of(made)
    assert same(under_prefix(stored, "a."), under_prefix(made, "a."))
    assert same(stored | {"h": made["c"]}, made | {"h": made["c"]})
    assert stored.part("c", 30, 31).tolist() == [made["c"][30]]
    some = picked(stored, ["n", "c"])
    assert isinstance(some, Stored) and same(some, picked(made, ["n", "c"]))
    assert "b" not in some and len(stored) == len(made)
    again = stored_like(some, {"c": made["c"] + 1})
    assert isinstance(again, Stored) and (again["c"] == made["c"] + 1).all() and same(stored, made)


def peak(count: int, rule: str) -> int:
    """MB of the largest memory of a process that merges `count` spilled replies of 2 MB."""
    asked = f"--replies {count} --megabytes 2 --spill-above 4 --held 4 --rules {rule}".split()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.server_memory", *asked],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(json.loads(done.stdout.splitlines()[-1])["peak_mb"])


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["mean", "median", "krum"])
def test_memory_does_not_grow_with_the_clients(rule):
    few, many = peak(20, rule), peak(200, rule)
    assert many <= 1.1 * few, f"{many} MB with 200 replies, {few} MB with 20"
