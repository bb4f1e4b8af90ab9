"""Cuts into messages and clients change nothing, and scenarios agree where they must."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from simulations.engines.inprocess import run_inprocess
from tests.cdl_runs import config_of, model_of, round_rows


@pytest.mark.parametrize(
    "changes",
    [
        {"scenario": "ring"}, {"scenario": "matcha"}, {"scenario": "fedavg"}, {"scenario": "local"},
        {"scenario": "mst", "optimizer": "relay-sgd"}, {"scenario": "mst", "sub_network": "average"},
        {"sub_network": "own"}, {"sub_network": "reset", "local_updates": 2},
    ],
)  # fmt: skip
def test_several_mixings_in_one_message_change_nothing(
    cache: Path, tmp_path: Path, undrawn: None, changes: dict[str, Any]
) -> None:
    common = {**changes, "silos_per_client": 4, "influence": "linear"}
    run_inprocess(config_of(cache, tmp_path, "one", **common, num_rounds=6))
    run_inprocess(config_of(cache, tmp_path, "two", **common, mixings_per_round=2))
    assert model_of(tmp_path, "one") == model_of(tmp_path, "two")
    one, two = (round_rows(tmp_path / name) for name in ("one", "two"))
    for number in (1, 2, 3):
        for key in ("rmse", "silo-rmse.worst", "mixings", "overlay-bytes", "simulated-seconds"):
            assert one[2 * number].get(key) == two[number].get(key), key
    trained = [one[n]["train.loss"] for n in (3, 4)]
    assert two[2]["train.loss"] == pytest.approx(np.mean(trained))


RELAYED = {"scenario": "mst", "optimizer": "relay-sgd", "batch_norm": "average"}


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [({"loss": "kl"}, (1, 2, 4)), ({"loss": "cd_k"}, (1, 3)), (RELAYED, (1, 2, 4))],
)
def test_how_many_silos_a_client_holds_changes_nothing(
    cache: Path, tmp_path: Path, undrawn: None, changes: dict[str, str], sizes: tuple[int, ...]
) -> None:
    for size in sizes:
        run_inprocess(config_of(cache, tmp_path, f"held-{size}", **changes, silos_per_client=size))
    assert len({model_of(tmp_path, f"held-{size}") for size in sizes}) == 1
    curves = [
        {n: (m["rmse"], m["overlay-bytes"]) for n, m in round_rows(tmp_path / f"held-{s}").items() if n}
        for s in sizes
    ]  # fmt: skip
    assert curves == [curves[0]] * len(sizes)


def test_scenarios_with_a_server_agree_where_they_must(
    cache: Path, tmp_path: Path, undrawn: None
) -> None:
    """After one local update nothing pulls FedProx back, and STAR is FedAvg with another clock."""
    for name in ("fedavg", "fedprox", "star"):
        run_inprocess(
            config_of(cache, tmp_path, name, scenario=name, num_rounds=2, proximal_mu=1.0)
        )
    assert model_of(tmp_path, "fedavg") == model_of(tmp_path, "fedprox")
    assert model_of(tmp_path, "fedavg") == model_of(tmp_path, "star")
    seconds = [round_rows(tmp_path / n)[2]["simulated-seconds"] for n in ("fedavg", "star")]
    assert seconds[0] < seconds[1]
    for name in ("fedavg", "fedprox"):
        changes = {"scenario": name, "proximal_mu": 1.0, "local_updates": 2, "num_rounds": 1}
        run_inprocess(config_of(cache, tmp_path, f"{name}-2", **changes))
    assert model_of(tmp_path, "fedavg-2") != model_of(tmp_path, "fedprox-2")


def test_silos_agree_after_a_server_and_differ_after_a_ring(
    cache: Path, tmp_path: Path, undrawn: None
) -> None:
    """The model holds every silo's backbone and their average; counters stay with their silo."""
    for name in ("fedavg", "ring"):
        changes = {"scenario": name, "num_rounds": 2, "batch_norm": "average"}
        run_inprocess(config_of(cache, tmp_path, name, **changes))
    for name in ("fedavg", "ring"):
        model = load_file(tmp_path / name / "model.safetensors")
        average = {k: v for k, v in model.items() if not k.startswith("silos.")}
        assert {f"silos.{k}" for k in average} == model.keys() - average.keys()
        for key, value in average.items():
            silos = model[f"silos.{key}"]
            assert silos.shape == (4, *value.shape)
            if value.dtype == np.float32 and not key.endswith("running_var"):
                np.testing.assert_allclose(silos.mean(0), value, atol=1e-6)
                equal = bool((silos == silos[0]).all())
                assert equal == (name == "fedavg") or (not value.any() and equal), key
