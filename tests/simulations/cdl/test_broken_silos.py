"""A silo that diverges or sends a wrong shape is left out and joins again, or fails a run that needs all."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clients.vehicle import VehicleClient
from fedsuite.driving.data.frames import silo_names
from fedsuite.driving.data.sources import silos_folder
from fedsuite.driving.training.learner import Learner
from fedsuite.errors import RunFailed
from fedsuite.history import read_rows
from fedsuite.runs.versions import Checkpoints
from fedsuite.storage.progress import silent
from simulations.cdl.system import SYSTEM
from simulations.engines.inprocess import run_inprocess
from tests.cdl_runs import config_of, round_rows, settings_from
from tests.harness import Recorder, arrays_in, recorded

BROKEN = 1  # the silo, and its partition


def diverge(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The silo's training of this round ends in NaN."""
    original = Learner.train

    def train(self: Learner, first: int, count: int, matrix: Any) -> dict[str, np.ndarray]:
        terms = original(self, first, count, matrix)
        if first == number - 1 and BROKEN in self.site.silos:
            with torch.no_grad():
                self.networks.backbone["trunk.head.weight"].fill_(torch.nan)
        return terms

    monkeypatch.setattr(Learner, "train", train)


def misshape(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The silo's reply of this round lacks a row."""
    original = VehicleClient.fit

    def fit(self: VehicleClient, parameters: Any, config: dict[str, Any]) -> Any:
        arrays, examples, metrics = original(self, parameters, config)
        if config["round"] == number and self.site.partition == BROKEN:
            arrays[0] = arrays[0][:, 1:]
        return arrays, examples, metrics

    monkeypatch.setattr(VehicleClient, "fit", fit)


FAULTS = {
    "nan": (diverge, "error", "training diverged"),
    "shape": (misshape, "rejected", "has shape"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_silo_is_left_out_and_joins_again(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    spoil, status, words = FAULTS[fault]
    spoil(monkeypatch, 2)
    config = config_of(cache, tmp_path, "run", num_rounds=4, min_reply_fraction=0.5)
    recorder = recorded(config)
    rows = read_rows(tmp_path / "run" / "history.jsonl")
    trained = {(r["round"], r["partition"]): r for r in rows if r.get("task") == "train"}
    failed = trained[2, BROKEN]
    name = silo_names(silos_folder(settings_from(config).data, 4))[BROKEN]
    assert failed["status"] == status and words in failed["reason"] and failed["name"] == name
    assert all(r["status"] == "ok" for k, r in trained.items() if k != (2, BROKEN))
    metrics = round_rows(tmp_path / "run")
    assert [metrics[n].get("silos-missing") for n in (1, 2, 3, 4)] == [None, 1.0, None, None]
    held = {n: backbones_sent(recorder, n) for n in (2, 3, 4)}  # as of the round before
    for key in ("trunk.head.weight", "stem.conv.weight"):
        stayed = [np.array_equal(held[2][p][key], held[3][p][key]) for p in range(4)]
        assert stayed == [p == BROKEN for p in range(4)]
        assert not np.array_equal(held[3][BROKEN][key], held[4][BROKEN][key])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_silo_fails_a_run_that_needs_all(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    spoil, status, words = FAULTS[fault]
    spoil(monkeypatch, 2)
    config = config_of(cache, tmp_path, "run")
    SYSTEM.prepare(settings_from(config), silent)
    name = silo_names(silos_folder(settings_from(config).data, 4))[BROKEN]
    told = f"round 2, train: 3 of 4 replies usable, .*{re.escape(name)}: {status}: .*{words}"
    with pytest.raises(RunFailed, match=told):
        run_inprocess(config)


def backbones_sent(recorder: Recorder, number: int) -> dict[int, dict[str, np.ndarray]]:
    """What every client was sent to train on in this round, by partition."""
    nodes = sorted(recorder.get_node_ids(), reverse=True)  # as InProcessGrid numbers them
    return {
        nodes.index(m.metadata.dst_node_id): arrays_in(m)
        for m in recorder.sent
        if m.metadata.message_type == "train" and m.content["config"]["round"] == number
    }


def test_numbers_that_grow_in_mixing_stop_before_any_silo_gets_them(
    cache: Path, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mean just inside the limit makes its neighbours' mixed variance some 10^11."""
    original, seen = VehicleClient.fit, list[str]()

    def fit(self: VehicleClient, parameters: Any, config: dict[str, Any]) -> Any:
        seen.append(f"{config['round']} train")
        arrays, examples, metrics = original(self, parameters, config)
        if config["round"] == 2 and self.site.partition == BROKEN:
            names = metrics["array-names"].split("\n")
            arrays[[n.endswith("running_mean") for n in names].index(True)][...] = -9e5
        return arrays, examples, metrics

    def evaluate(self: VehicleClient, parameters: Any, config: dict[str, Any]) -> Any:
        seen.append(f"{config['round']} evaluate")
        return scored(self, parameters, config)

    scored = VehicleClient.evaluate
    monkeypatch.setattr(VehicleClient, "fit", fit)
    monkeypatch.setattr(VehicleClient, "evaluate", evaluate)
    config = config_of(cache, tmp_path, "run", checkpoint_every=1, batch_norm="average")
    SYSTEM.prepare(settings_from(config), silent)
    name = silo_names(silos_folder(settings_from(config).data, 4))[BROKEN]
    told = rf"running_var holds .*e\+11, .* likely cause: {re.escape(name)}, .* \(900000 in "
    with pytest.raises(RunFailed, match=told):
        run_inprocess(config)
    assert seen[-4:] == ["2 train"] * 4
    assert Checkpoints(tmp_path / "run" / "checkpoints").rounds()[-1] == 1
