"""Whole runs with local optimizers that look across mixings: what crosses, what it costs, what a loss leaves behind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from clients.vehicle import VehicleClient
from fedsuite.driving.plan import make_plan
from fedsuite.driving.training.learner import Learner
from fedsuite.errors import InputError
from fedsuite.history import read_rows
from fedsuite.runs.versions import Versions
from simulations.engines.inprocess import run_inprocess
from tests.cdl_runs import config_of, digests, model_of, round_rows, run_in_parts, settings_from
from tests.harness import arrays_in, recorded

LOST = 1  # the silo whose answer of round 2 is lost
TRACKING: dict[str, Any] = {"optimizer": "gradient-tracking", "loss": "none"}


def lose_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """The silo trains and saves, and its answer comes to nothing."""
    original = VehicleClient.fit

    def fit(self: VehicleClient, parameters: Any, config: dict[str, Any]) -> Any:
        arrays, examples, metrics = original(self, parameters, config)
        if config["round"] == 2 and self.site.partition == LOST:
            arrays[0] = arrays[0][:, 1:]
        return arrays, examples, metrics

    monkeypatch.setattr(VehicleClient, "fit", fit)


def fail_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The silo does not train at all."""
    original = Learner.train

    def train(self: Learner, first: int, count: int, matrix: Any) -> dict[str, np.ndarray]:
        if first == 1 and LOST in self.site.silos:
            raise RuntimeError("out of luck")
        return original(self, first, count, matrix)

    monkeypatch.setattr(Learner, "train", train)


def private_arrays(run: Path, number: int) -> list[dict[str, np.ndarray]]:
    """What every silo keeps after this round, in order."""
    paths = sorted((run / "clients").rglob(f"round-{number:06d}.safetensors"))
    return [load_file(path) for path in paths]


@pytest.mark.parametrize(
    ("name", "scenario"),
    [("gradient-tracking", "ring"), ("qg-momentum", "star"), ("relay-sgd", "mst")],
)
def test_a_step_whose_answer_is_lost_leaves_no_trace(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch, name: str, scenario: str
) -> None:  # fmt: skip
    """Equal bytes whether the silo trained in vain or not at all; and it trains on."""
    changes = {
        "optimizer": name,
        "loss": "none",
        "scenario": scenario,
        "num_rounds": 4,
        "num_silos": 3,
    }
    for case, spoil in (("vain", lose_reply), ("idle", fail_before)):
        with monkeypatch.context() as patch:
            spoil(patch)
            run_inprocess(
                config_of(
                    cache, tmp_path, case, min_reply_fraction=0.5, learning_rate=1e-4, **changes
                )
            )
    for case in ("vain", "idle"):
        missing = [m.get("silos-missing") for n, m in round_rows(tmp_path / case).items() if n]
        assert missing == [None, 1, None, None]
    assert model_of(tmp_path, "vain") == model_of(tmp_path, "idle")
    kept = [private_arrays(tmp_path / case, 4) for case in ("vain", "idle")]
    assert len(kept[0]) == len(kept[1]) == 3
    for one, two in zip(*kept, strict=True):
        assert one.keys() == two.keys() and all(np.array_equal(one[k], two[k]) for k in one)


@pytest.mark.parametrize("scenario", ["ring", "star", "matcha"])
def test_trackers_sum_to_the_gradients_with_and_without_all_silos(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch, scenario: str
) -> None:
    lose_reply(monkeypatch)
    changes = {
        **TRACKING,
        "scenario": scenario,
        "min_reply_fraction": 0.5,
        "checkpoint_every": 1,
        "num_silos": 3,
    }
    run_inprocess(config_of(cache, tmp_path, "run", **changes, num_rounds=4))
    missing = [m.get("silos-missing") for n, m in round_rows(tmp_path / "run").items() if n]
    assert missing == [None, 1, None, None]
    for number in (3, 4):
        path = tmp_path / "run" / "checkpoints" / f"round-{number:06d}.safetensors"
        state = load_file(path)
        own = private_arrays(tmp_path / "run", number)
        key = "trunk.head.weight"
        sent = state[f"arrays.tracker.{key}"].sum(0)
        gradients = sum(silo[f"moments.backbone.last.{key}"][0] for silo in own)
        np.testing.assert_allclose(sent, gradients, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "scenario"),
    [("qg-momentum", "ring"), ("gradient-tracking", "ring"), ("relay-sgd", "mst")],
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    cache: Path,
    tmp_path: Path,
    undrawn: None,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    scenario: str,
) -> None:
    changes = {
        "optimizer": name, "scenario": scenario, "num_rounds": 4, "checkpoint_every": 2, "learning_rate": 1e-4,
        "silos_per_client": 2,
    }  # fmt: skip
    run_inprocess(config_of(cache, tmp_path, "whole", **changes))
    run_in_parts(monkeypatch, config_of(cache, tmp_path, "parts", **changes))
    assert digests(tmp_path, "whole") == digests(tmp_path, "parts")
    for one, two in zip(
        *(private_arrays(tmp_path / n, 4) for n in ("whole", "parts")), strict=True
    ):
        assert one.keys() == two.keys() and all(np.array_equal(one[k], two[k]) for k in one)


@pytest.mark.parametrize("name", ["qg-nesterov", "gradient-tracking"])
def test_several_mixings_in_one_message_change_nothing(
    cache: Path, tmp_path: Path, undrawn: None, name: str
) -> None:
    common = {"optimizer": name, "silos_per_client": 4, "learning_rate": 1e-4}
    run_inprocess(config_of(cache, tmp_path, "one", **common, num_rounds=4))
    run_inprocess(config_of(cache, tmp_path, "two", **common, mixings_per_round=2, num_rounds=2))
    assert model_of(tmp_path, "one") == model_of(tmp_path, "two")
    one, two = (round_rows(tmp_path / n) for n in ("one", "two"))
    for key in ("rmse", "overlay-bytes", "simulated-seconds", "consensus-distance"):
        assert one[4][key] == two[2][key], key


def test_tracking_sends_the_tracker_and_nothing_else_more(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It doubles what crosses; gradients stay, but for the first, which y_0 is; evaluation needs models only."""
    monkeypatch.setattr(Versions, "prune", lambda self, checkpoints: None)
    recorder = recorded(config_of(cache, tmp_path, "run", **TRACKING, num_silos=2))
    run = tmp_path / "run"
    model = load_file(run / "model.safetensors")
    names = {k for k in model if not k.startswith("silos.")}
    assert not [k for k in model if "tracker" in k]
    size = sum(model[k].nbytes for k in names)
    rows = [r for r in read_rows(run / "history.jsonl") if r.get("task") == "train"]
    assert {(r["bytes-down"], r["bytes-up"]) for r in rows} == {(2 * size, 2 * size)}
    overlay = [m["overlay-bytes"] for n, m in round_rows(run).items() if n]
    assert overlay == [2 * 2 * size * n for n in (1, 2, 3)]
    for message in recorder.sent:
        if message.metadata.message_type == "evaluate":
            assert not [k for k in arrays_in(message) if "tracker" in k]
    sent = [m for m in (*recorder.sent, *recorder.received) if "arrays" in m.content]
    wire = b"".join(v.tobytes() for m in sent for v in arrays_in(m).values())
    crossed = []
    for number in (1, 2, 3):
        gradient = private_arrays(run, number)[0]["moments.backbone.last.stem.conv.weight"]
        crossed.append(gradient.tobytes() in wire)
    assert crossed == [True, False, False]


@pytest.mark.parametrize("together", [False, True])
def test_relayed_models_are_counted_link_by_link_and_a_silo_swaps_one(
    cache: Path, tmp_path: Path, undrawn: None, together: bool
) -> None:
    """Messages under way stay with the server, unless one client has all silos and mixes by itself."""
    size, links = 4, 6
    relayed = {
        "optimizer": "relay-sgd",
        "scenario": "mst",
        "loss": "none",
        "num_silos": size,
        "checkpoint_every": 1,
    }
    how = {"silos_per_client": size, "mixings_per_round": 2} if together else {}
    config = config_of(cache, tmp_path, "run", **{**relayed, **how})
    recorder, run = recorded(config), tmp_path / "run"
    model = load_file(run / "model.safetensors")
    model_bytes = sum(v.nbytes for k, v in model.items() if not k.startswith("silos."))
    assert all(v.shape[0] == size for k, v in model.items() if k.startswith("silos."))
    rows = [r for r in read_rows(run / "history.jsonl") if r.get("task") == "train"]
    each = model_bytes * (size + links if together else 1)
    assert {(r["bytes-down"], r["bytes-up"]) for r in rows} == {(each, each)}
    for message in recorder.sent:
        if message.metadata.message_type == "evaluate":
            own = [v for k, v in arrays_in(message).items() if k.startswith("own.")]
            assert {v.shape[0] for v in own} == {size if together else 1}
    state = load_file(run / "checkpoints" / "round-000002.safetensors")
    assert {v.shape[0] for k, v in state.items() if k.startswith("arrays.")} == {size + links}
    plain = make_plan(
        settings_from(config_of(cache, tmp_path, "x", **{**relayed, "optimizer": "sgd"}))
    )
    found = {n: m for n, m in round_rows(run).items() if n}
    for number, metrics in found.items():
        steps = number * (2 if together else 1)
        assert metrics["overlay-bytes"] == steps * links * model_bytes
        assert metrics["simulated-seconds"] == steps * plain.cycle_time_ms / 1000


def test_a_message_of_two_counts_as_two(cache: Path, tmp_path: Path) -> None:
    def plan(**changes: Any) -> Any:
        return make_plan(settings_from(config_of(cache, tmp_path, "x", **changes)))

    one, two = plan(), plan(optimizer="gradient-tracking")
    assert two.message_bits == 2 * one.message_bits and two.cycle_time_ms > one.cycle_time_ms
    charged = plan(optimizer="gradient-tracking", model_bits=1000)
    assert charged.message_bits == 2000
    with_buffers = plan(optimizer="gradient-tracking", batch_norm="average")
    assert with_buffers.message_bits < 2 * plan(batch_norm="average").message_bits


def test_models_are_relayed_along_an_own_network_that_is_a_tree(
    cache: Path, tmp_path: Path
) -> None:
    nodes = [{"label": name, "lat": 45.0, "lon": 5.0} for name in "abcd"]
    for end, links in (("tree", []), ("cycle", [[0, 2, 9]])):
        content = {"nodes": nodes, "links": [[0, 1, 9], [1, 2, 9], [1, 3, 9], *links]}
        (tmp_path / f"{end}.json").write_text(json.dumps(content))

    def plan(end: str) -> Any:
        own = {"scenario": "custom", "underlay_file": str(tmp_path / f"{end}.json")}
        return make_plan(
            settings_from(config_of(cache, tmp_path, "x", optimizer="relay-sgd", **own))
        )

    assert plan("tree").mixing.matrix(0).shape == (4 + 6, 4 + 6)
    with pytest.raises(InputError, match="custom, but relay-sgd relays models along a tree"):
        plan("cycle")
