"""A star whose silos send coded changes, against a program in NumPy alone, in float64.

The network and its data are those of test_star_server.py. Of four weights the codec sends the one that changed most, of one
bias all.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.common.serde import message_to_proto
from safetensors.numpy import load_file

from clients.vehicle import VehicleClient
from fedsuite.arrays import forms_of
from fedsuite.averaging.exchange import Codec, Exchange, by_row
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.training.learner import Learner
from fedsuite.errors import RunFailed
from fedsuite.history import read_rows
from fedsuite.runs.versions import Versions
from simulations.check_system import check_system
from simulations.engines.inprocess import run_inprocess
from tests.cdl_runs import config_of, digests, model_of, round_rows, run_in_parts
from tests.golden.runs import RUNS
from tests.harness import arrays_in, full_keys, recorded
from tests.simulations.cdl.test_bad_input import check_refusal
from tests.simulations.cdl.test_star_server import (
    ADAM,
    LINEAR,
    LOST,
    RATE,
    ROUNDS,
    SCAFFOLD,
    SILOS,
    UPDATES,
    Move,
    fed_adam,
    lose,
    samples,
    to_mean,
    vector,
)

WEIGHTS = 4  # of the linear network, before its bias


def kept(shape: Sequence[int]) -> int:
    return max(1, math.ceil(math.prod(shape) / 4))


def encode(change: np.ndarray) -> Mapping[str, np.ndarray]:
    flat = change.ravel()
    places = np.argsort(-abs(flat), kind="stable")[: kept(change.shape)]
    return {"places": places.astype(np.uint32), "values": flat[places]}


def decode(parts: Mapping[str, np.ndarray], shape: Sequence[int]) -> np.ndarray:
    flat = np.zeros(math.prod(shape), np.float32)
    if parts["places"].max() >= flat.size:
        raise ValueError("a place outside of the array")
    flat[parts["places"].astype(int)] = parts["values"]
    return flat.reshape(shape)


def shapes(shape: Sequence[int]) -> Mapping[str, Any]:
    return {"places": ((kept(shape),), "uint32"), "values": ((kept(shape),), "float32")}


MOST = Codec(encode, decode, shapes)
ALL = Codec(
    lambda change: {"all": change}, lambda p, _: p["all"], lambda s: {"all": (s, "float32")}
)
FORGETFUL = Codec(encode, decode, shapes, residual=False)
CODED = {"codec": f"{__name__}:MOST"}
METHODS: dict[str, tuple[dict[str, Any], Move]] = {
    "uncoded": ({}, to_mean),
    "average": (CODED, to_mean),
    "without a residual": ({"codec": f"{__name__}:FORGETFUL"}, to_mean),
    "adam": (CODED | ADAM, fed_adam),
    "scaffold": (CODED | SCAFFOLD, to_mean),
}


def program(
    data: Sequence[tuple[np.ndarray, np.ndarray]], start: np.ndarray, name: str, lost: Sequence[int]
) -> np.ndarray:
    """The server's model after the run; silo LOST answers in no round of `lost`, and such a visit leaves no trace."""
    changes, move = METHODS[name]
    n, server, own = len(data), start.copy(), np.tile(start, (len(data), 1))
    c, c_k, left = np.zeros_like(start), np.zeros_like(own), np.zeros_like(own)
    memory = dict[str, Any]()
    for number in range(1, ROUNDS + 1):
        here = [k for k in range(n) if not (k == LOST and number in lost)]
        arrived, corrections = [], []
        for k in here:
            x, y = data[k]
            w, seen = own[k].copy(), []
            for _ in range(UPDATES):
                seen.append(2 * x.T @ (x @ w - y) / len(y))
                w -= RATE * (seen[-1] + (c - c_k[k] if "control_variates" in changes else 0))
            corrections.append(np.mean(seen, axis=0) - c_k[k])
            change = w - own[k] + left[k]
            sent = change.copy()
            if "codec" in changes:
                sent[:WEIGHTS] = 0
                most = np.argmax(abs(change[:WEIGHTS]))
                sent[most] = change[most]
            if name != "without a residual":
                left[k] = change - sent
            arrived.append(own[k] + sent)
        for k, by in zip(here, corrections, strict=True):
            c_k[k] += by
        c = c + sum(corrections) / n
        server = move(server, np.mean(arrived, axis=0) - server, memory)
        own[here] = server
    return server


@pytest.mark.parametrize("lost", [(), (1,), (2, 3)])
@pytest.mark.parametrize("name", [n for n in METHODS if n != "uncoded"])
def test_it_is_what_a_program_of_its_own_says(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch, name: str, lost: Sequence[int]
) -> None:  # fmt: skip
    config = config_of(cache, tmp_path, "run", **LINEAR, **METHODS[name][0])
    lose(monkeypatch, lost)
    trained = next(m for m in recorded(config).sent if m.metadata.message_type == "train")
    start = np.concatenate([arrays_in(trained)[f"head.{k}"].ravel() for k in ("weight", "bias")])
    data = samples(config)
    want = {n: program(data, start.astype(float), n, lost) for n in METHODS}
    server = vector(load_file(tmp_path / "run" / "model.safetensors"))[0]
    np.testing.assert_allclose(server, want[name], rtol=1e-4, atol=2e-6)
    assert min(abs(other - server).max() for n, other in want.items() if n != name) > 1e-4


def test_rows_are_coded_one_by_one() -> None:
    rng = np.random.default_rng(0)
    start = {"w": np.zeros((3, 2, 4), np.float32), "b": np.zeros(3, np.float32)}
    model = {k: rng.normal(size=v.shape).astype(np.float32) for k, v in start.items()}
    exchange = Exchange(codec=by_row(MOST))
    sent, left = exchange.encode(start, model, {})
    assert forms_of(sent) == exchange.wire(forms_of(start)) and sent["w/values"].shape == (3, 2)
    back = exchange.decode(start, sent)
    for name, rows in model.items():
        alone = [MOST.decode(MOST.encode(np.asarray(r)), r.shape) for r in rows]
        assert np.array_equal(back[name], alone)
        np.testing.assert_array_equal(back[name] + left[name], rows)


def test_what_did_not_arrive_leaves_no_trace(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal bytes whether a silo trained in vain or not at all, sub-networks, moments and residuals included."""
    common = {**CODED, "scenario": "star", "num_rounds": 4, "num_silos": 3}
    train = Learner.train

    def idle(self: Learner, first: int, *rest: Any) -> Any:
        if first == 1 and LOST in self.site.silos:
            raise RuntimeError("out of luck")
        return train(self, first, *rest)

    own = []
    for case in ("vain", "idle"):
        with monkeypatch.context() as patch:
            if case == "vain":
                lose(patch, (2,))
            else:
                patch.setattr(Learner, "train", idle)
            run_inprocess(config_of(cache, tmp_path, case, min_reply_fraction=0.5, **common))
        missing = [m.get("silos-missing") for n, m in round_rows(tmp_path / case).items() if n]
        assert missing == [None, 1, None, None]
        newest = (tmp_path / case / "clients").rglob("round-000004.safetensors")
        own.append([path.read_bytes() for path in sorted(newest)])
    assert model_of(tmp_path, "vain") == model_of(tmp_path, "idle")
    assert own[0] == own[1] and len(own[0]) == 3


def test_a_resumed_run_equals_an_uninterrupted_one(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the usual network with contrastive loss, however many silos a client holds."""
    common = {**CODED, "scenario": "star", "num_rounds": 4, "checkpoint_every": 2}
    run_inprocess(config_of(cache, tmp_path, "alone", **common))
    common["silos_per_client"] = 2
    run_inprocess(config_of(cache, tmp_path, "whole", **common))
    assert model_of(tmp_path, "alone") == model_of(tmp_path, "whole")
    run_in_parts(monkeypatch, config_of(cache, tmp_path, "parts", **common))
    assert digests(tmp_path, "whole") == digests(tmp_path, "parts")


def test_parts_travel_up_and_residuals_stay(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Versions, "prune", lambda self, checkpoints: None)
    recorder = recorded(config_of(cache, tmp_path, "run", **LINEAR, **CODED))
    run_inprocess(config_of(cache, tmp_path, "plain", **LINEAR))
    parts = {f"head.{k}/{part}" for k in ("weight", "bias") for part in ("places", "values")}
    up = [arrays_in(m) for m in recorder.received if m.metadata.message_type == "train"]
    assert len(up) == SILOS * ROUNDS
    for arrays in up:
        assert arrays.keys() == parts and {v.shape for v in arrays.values()} == {(1, 1)}
    messages = (*recorder.sent, *recorder.received)
    wire = b"".join(message_to_proto(m).SerializeToString() for m in messages)
    private = [*(tmp_path / "run" / "clients").rglob("round-*.safetensors")]
    left = [load_file(path)["residual.head.weight"] for path in private]
    assert len(left) == SILOS * ROUNDS
    for residual in left:
        assert np.count_nonzero(residual) == WEIGHTS - 1 and residual.tobytes() not in wire
    links, model, coded = SILOS - 1, 4 * (WEIGHTS + 1), 2 * (4 + 4)
    for name, bytes_up in (("run", coded), ("plain", model)):
        sent = [m["overlay-bytes"] for n, m in round_rows(tmp_path / name).items() if n]
        assert sent == [n * links * (model + bytes_up) for n in range(1, ROUNDS + 1)]


@pytest.mark.parametrize("who", [(LOST,), range(SILOS)])
def test_parts_that_stand_for_no_model_are_left_out(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch, who: Sequence[int]
) -> None:
    original = VehicleClient.fit

    def fit(self: VehicleClient, parameters: Any, config: dict[str, Any]) -> Any:
        arrays, examples, metrics = original(self, parameters, config)
        if config["round"] == 2 and self.site.partition in who:
            arrays = [a + 9 if a.dtype == np.uint32 else a for a in arrays]
        return arrays, examples, metrics

    monkeypatch.setattr(VehicleClient, "fit", fit)
    config = config_of(cache, tmp_path, "run", **LINEAR, **CODED)
    if len(who) == SILOS:
        with pytest.raises(RunFailed, match=r"round 2: federation\.codec: .* outside of the array"):
            run_inprocess(config)
        return
    run_inprocess(config)
    missing = [m.get("silos-missing") for n, m in round_rows(tmp_path / "run").items() if n]
    assert missing == [None, 1, None, None, None]
    rows = read_rows(tmp_path / "run" / "history.jsonl")
    refused = [(r["round"], r["partition"]) for r in rows if r.get("admitted") == 0]
    assert refused == [(2, LOST)]


def test_changes_are_clipped_once_they_are_decoded(
    cache: Path, tmp_path: Path, undrawn: None
) -> None:
    """With privacy of silos a codec that leaves nothing out changes nothing; one that does moves the model no further."""
    private = {**LINEAR, "privacy-unit": "client", "privacy-clip": 0.01, "privacy-noise": "seeded"}
    private["privacy-noise-multiplier"] = 0.01
    codecs = {"none": "none", "all": f"{__name__}:ALL", "most": f"{__name__}:MOST"}
    found = {}
    for name, codec in codecs.items():
        run_inprocess(config_of(cache, tmp_path, name, **private, codec=codec))
        states = [
            tmp_path / name / "checkpoints" / f"round-{n:06d}.safetensors" for n in (0, ROUNDS)
        ]
        start, end = (vector(load_file(path), "arrays.")[0] for path in states)
        found[name] = end - start
    np.testing.assert_allclose(found["all"], found["none"], atol=1e-6)
    assert abs(found["most"] - found["none"]).max() > 1e-4
    assert np.linalg.norm(found["most"]) < ROUNDS * 0.0102


@pytest.mark.parametrize(
    ("others", "cure"),
    [
        ({"scenario": "ring"}, "federation.codec: ring has no server; set federation.scenario to"),
        ({"scenario": "cll"}, "federation.codec: cll has no server"),
        ({"mixings-per-round": 2, "silos-per-client": 0}, "mixings-per-round=2; set that to 1"),
        ({"optimizer": "gradient-tracking"}, "set that to adam, sgd or nesterov"),
        ({"batch-norm": "average"}, "batch-norm=average sends variances"),
        ({"secure-sum": True}, "federation.secure-sum: goes with federation.codec"),
        ({"codec": f"{__name__}:WEIGHTS"}, "is a int, expected a Codec"),
        ({"codec": "topk"}, "federation.codec"),
    ],
)
def test_what_cannot_go_with_it_is_refused(call: Any, others: dict[str, Any], cure: str) -> None:
    check_refusal(call({"scenario": "star", **CODED, **others}), cure)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"merge": "clipped"}])
def test_the_system_keeps_its_contract_with_it(
    cache: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    values = {**RUNS["cdl-star"], **CODED, **changes, "num-rounds": 2, "num-silos": 2}
    values["batch-norm"] = "group"
    values = full_keys(CDLConfig, {**values, "cache-dir": str(cache)})
    check_system(values, tmp_path / "work")
