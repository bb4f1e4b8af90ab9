"""Runs over secure sums: the sum of whole numbers bit for bit, whoever is lost when, and nothing else on the wire."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from flwr.app import ConfigRecord
from scipy.stats import chisquare

from fedsuite.errors import InputError, RunFailed
from fedsuite.history import load_run
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Checkpoints
from simulations.engines.inprocess import run_inprocess
from tests import summed_runs
from tests.harness import arrays_in
from tests.summed_runs import PLAIN, LosingGrid, config_of, played, run, without_masks

KEYS, SHARES, MASKED, UNMASK = "keys", "shares", "masked", "unmask"
LOSSES: dict[str, dict[tuple[int, str], list[int]]] = {
    "nobody": {},
    "keys": {(2, KEYS): [1]},
    "shares": {(2, SHARES): [4]},
    "masked": {(2, MASKED): [0]},
    "two masked": {(2, MASKED): [0, 3]},
    "unmask": {(2, UNMASK): [2, 3]},
    "each stage": {(1, KEYS): [0], (2, SHARES): [1], (2, UNMASK): [3], (3, MASKED): [2]},
}


def outcome(folder: RunFolder) -> tuple[bytes, bytes]:
    return folder.model.read_bytes(), (folder.path / "history.jsonl").read_bytes()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_the_run_is_that_of_the_plain_integer_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, late: bool
) -> None:
    summed = run(tmp_path, "summed", LOSSES[name], late)
    without_masks(monkeypatch)
    plain = run(tmp_path, "plain", LOSSES[name], late)
    assert outcome(summed) == outcome(plain)
    rounds = load_run(summed.path).rounds
    lost = {r for (r, stage), _ in LOSSES[name].items() if stage != UNMASK}
    assert [n for n, x in rounds["secure-sum.lost"].dropna().items() if x] == sorted(lost)


@pytest.mark.parametrize("name", LOSSES)
def test_it_is_the_mean_of_those_whose_change_arrived(tmp_path: Path, name: str) -> None:
    """As plain averaging has it, within the bound of rounding; float32 holds no more."""
    summed = run(tmp_path, "summed", LOSSES[name])
    usual = {(r, "train"): who for (r, stage), who in LOSSES[name].items() if stage != UNMASK}
    plain = run(tmp_path, "plain", usual, **PLAIN)
    one, other = (safetensors.numpy.load_file(f.model) for f in (summed, plain))
    assert all(abs(one[k] - other[k]).max() < 3e-7 for k in other)
    name_of = ["update-norm", "loss", "local-steps", "train.loss"]
    found, expected = (load_run(f.path).rounds[name_of] for f in (summed, plain))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_control_variates_are_a_plain_mean_in_the_sum_too(tmp_path: Path, name: str) -> None:
    """Of members that count alike, though their models do not; who is lost forgets its visit."""
    scaffold = {"federation.control-variates": True, "training.local-steps": 3}
    usual = {(r, "train"): who for (r, stage), who in LOSSES[name].items() if stage != UNMASK}
    summed = run(tmp_path, "summed", LOSSES[name], **scaffold)
    plain = run(tmp_path, "plain", usual, **scaffold, **PLAIN)
    one, other = (Checkpoints(f.checkpoints).latest() for f in (summed, plain))
    assert one is not None and other is not None
    for found, expected in (
        (one.state.arrays, other.state.arrays),
        (one.state.optimizer, other.state.optimizer),
    ):
        assert found.keys() == expected.keys() and len(found) == 2
        assert all(abs(found[k] - expected[k]).max() < 1e-6 for k in expected)
        assert all(abs(expected[k]).max() > 1e-2 for k in expected)
    assert (load_run(summed.path).rounds["secure-sum.cut"].dropna() == 0).all()


def test_a_cap_on_weights_holds_in_the_sum(tmp_path: Path) -> None:
    capped = {"federation.max-share": 0.25}
    one, other = (
        safetensors.numpy.load_file(run(tmp_path, name, **capped, **more).model)
        for name, more in (("summed", {}), ("plain", PLAIN))
    )
    assert all(abs(one[k] - other[k]).max() < 3e-7 for k in other)


def test_server_optimizers_step_along_the_sum(tmp_path: Path) -> None:
    adam = {"federation.server-optimizer": "adam", "federation.server-learning-rate": 0.1}
    one, other = (
        safetensors.numpy.load_file(run(tmp_path, name, **adam, **more).model)
        for name, more in (("summed", {}), ("plain", PLAIN))
    )
    assert all(abs(one[k] - other[k]).max() < 1e-5 for k in other)


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ({(2, KEYS): [0, 1, 2]}, "secure sum, keys: 2 of 5 members answered, expected at least 3; missing: north, south, "),
        ({(2, SHARES): [0, 1, 2]}, "secure sum, shares: 2 of 5"),
        ({(2, MASKED): [1, 2, 4]}, "secure sum, masked: 2 of 5"),
        ({(2, UNMASK): [1, 2, 4]}, "secure sum, unmask: 2 of 5 members answered, expected at least 3; missing: south, east"),
    ],
)  # fmt: skip
def test_too_few(tmp_path: Path, losses: dict[tuple[int, str], list[int]], words: str) -> None:
    with pytest.raises(RunFailed) as failed:
        run(tmp_path, "run", losses)
    assert f"round 2: {words}" in str(failed.value) and "\n" not in str(failed.value)


def test_a_larger_threshold_needs_more(tmp_path: Path) -> None:
    strict = {"federation.secure-sum-threshold": 0.8}
    with pytest.raises(RunFailed, match="unmask: 4 of 5 members answered, expected at least 5"):
        run(tmp_path, "run", {(2, UNMASK): [1]}, **strict)


def test_min_reply_fraction_counts_who_is_lost_at_any_stage(tmp_path: Path) -> None:
    losses = {(2, KEYS): [0], (2, MASKED): [1]}
    with pytest.raises(RunFailed, match=r"3 of 5 replies usable, min-reply-fraction = 0\.7"):
        run(tmp_path, "run", losses, **{"min-reply-fraction": 0.7})
    run(tmp_path, "enough", losses, **{"min-reply-fraction": 0.6})


def test_who_is_lost_joins_again(tmp_path: Path) -> None:
    """A client that gave keys and no change has not trained, and private state of it is not asked for."""
    kept = {"federation.share": "weight"}
    folder = run(tmp_path, "run", {(1, MASKED): [0], (2, SHARES): [1]}, **kept)
    clients = load_run(folder.path).clients
    trained = clients[(clients["task"] == "train") & (clients["status"] == "ok")]
    assert trained.groupby("round").size().to_dict() == {1: 4, 2: 4, 3: 5}


def test_resume_gives_the_bytes_of_an_uninterrupted_run(tmp_path: Path) -> None:
    whole = run(tmp_path, "whole")
    with pytest.raises(RunFailed):
        run(tmp_path, "parts", {(3, UNMASK): [0, 1, 2]})
    resumed = run(tmp_path, "parts", resume=str(tmp_path / "parts"))
    assert outcome(resumed) == outcome(whole)


# --- what is on the wire --------------------------------------------------------------------------

WIDE = {"training.learning-rate": 0.3, "num-rounds": 1}


def test_the_server_gets_nothing_that_tells_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masked changes of one client are uniform and differ between two runs with one result."""
    monkeypatch.setattr(summed_runs, "SYSTEM", summed_runs.wide())
    found = []
    for name in ("one", "other"):
        config = config_of(tmp_path, name, **WIDE)
        grid = LosingGrid(config, {})
        folder = played(grid, config)
        arrays = [(p, arrays_in(reply)) for p, reply in grid.sent]
        assert {k for _, a in arrays for k in a} == {"keys", "shares", "masked"}
        assert {str(a[k].dtype) for _, a in arrays for k in a} == {"uint8", "uint32"}
        found.append((outcome(folder), {p: a["masked"] for p, a in arrays if "masked" in a}))
    (first, one), (second, other) = found
    assert first == second and set(one) == set(range(5))
    for p, vector in one.items():
        assert len(vector) > 3000 and np.count_nonzero(vector == other[p]) < 5
        for words in (vector, other[p], vector - other[p]):
            assert chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue > 1e-9
    total = np.sum([*one.values()], axis=0, dtype=np.uint32)
    assert (
        chisquare(np.bincount(total.view(np.uint8), minlength=256)).pvalue > 1e-9
    )  # seeds hide it


def test_two_words_a_stage_and_no_training_in_the_clear(tmp_path: Path) -> None:
    config = config_of(tmp_path, "run", **{"num-rounds": 1})
    grid = LosingGrid(config, {})
    asked: list[dict[str, Any]] = []
    own = grid._reply

    def spied(message: Any) -> Any:
        record = message.content["config"]
        assert isinstance(record, ConfigRecord)
        asked.append(dict(record) if message.metadata.message_type == "train" else {})
        return own(message)

    grid._reply = spied  # type: ignore[method-assign]
    played(grid, config)
    stages = [a["stage"] for a in asked if a]
    assert [stages.count(s) for s in (KEYS, SHARES, MASKED, UNMASK)] == [5] * 4


def test_what_keys_and_shares_cost(tmp_path: Path) -> None:
    """As docs/secure-sums.md says it: 257 + 226 N bytes up and 433 N down, beside a model of 15 numbers."""
    clients = load_run(run(tmp_path, "run", **{"num-rounds": 1}).path).clients
    aside, train = (clients[clients["task"] == task] for task in ("secure-sum", "train"))
    assert set(aside["bytes-up"]) == {257 + 226 * 5} and set(aside["bytes-down"]) == {433 * 5}
    assert set(train["bytes-up"]) == {4 * 15 + 4} and set(train["bytes-down"]) == {4 * 15}


def test_secrets_are_gone_after_the_round(tmp_path: Path) -> None:
    folder = run(tmp_path, "run", {(3, MASKED): [0]})
    assert sorted(p.parent.name for p in folder.clients.rglob("secure-sum/*.safetensors")) == []
    left = folder.clients / "north" / "secure-sum-peers" / "round-000000.safetensors"
    assert left.stat().st_mode & 0o077 == 0


# --- what does not go together --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"federation.group-size": 2}, "federation.group-size = 1"),
        ({"federation.merge": "median"}, 'federation.merge = "mean"'),
        ({"federation.update-bound": 2.0}, "federation.update-bound"),
        ({"federation.server-optimizer": "fedexp"}, "federation.server-optimizer = fedexp"),
    ],
)
def test_what_needs_single_changes_is_refused(
    tmp_path: Path, changes: dict[str, Any], key: str
) -> None:
    with pytest.raises(InputError) as refused:
        run_inprocess(config_of(tmp_path, "run", **changes))
    told = str(refused.value)
    assert told.startswith("federation.secure-sum: ") and key in told and "\n" not in told
    assert not (tmp_path / "run").exists()


def test_rounds_of_two_are_refused(tmp_path: Path) -> None:
    config = config_of(tmp_path, "run", **{"federation.participation-rate": 0.4})
    with pytest.raises(InputError, match="a round would have 2 members, expected at least 3"):
        run_inprocess(config)


def test_arrays_that_are_no_float32_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summed_runs, "SYSTEM", summed_runs.normed())
    with pytest.raises(InputError, match=r"secure-sum: .*num_batches_tracked is int64"):
        run_inprocess(config_of(tmp_path, "refused"))
    run_inprocess(config_of(tmp_path, "run", **{"federation.share": "!*.num_batches_tracked"}))
