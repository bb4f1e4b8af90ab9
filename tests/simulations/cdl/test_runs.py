"""Every scenario and loss runs, equal runs write equal bytes, and every setting does something."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.training.contrastive import CONTRASTIVE_LOSSES
from fedsuite.settings.config import limits_of, value_of
from simulations.engines.inprocess import run_inprocess
from tests.cdl_runs import Digests, config_of, digests, model_of, round_rows
from tests.harness import changed

RunOnce = Callable[[str], Digests]
VARIANTS: dict[str, dict[str, Any]] = {
    "pooled": {"scenario": "cll", "loss": "kl", "cross_evaluation": True},
    "fedavg by frames": {
        "scenario": "fedavg", "loss": "none", "data_weighted": True, "silo_sizes": "power",
    },
    "fedprox": {"scenario": "fedprox", "loss": "cd_k", "local_updates": 2},
    "star": {"scenario": "star", "loss": "kl_release", "regression": "huber"},
    "ring, one stem": {"scenario": "ring", "share_stem": True},
    "mst, features": {"scenario": "mst", "loss_space": "feature", "mixing_matrix": "fmmc"},
    "delta_mbst, sgd": {"scenario": "delta_mbst", "loss": "none", "optimizer": "sgd"},
    "matcha, mirrored": {
        "scenario": "matcha", "flip": True, "influence": "linear", "influence_floor": 0.2,
    },
    "matcha_plus": {
        "scenario": "matcha_plus", "loss": "cd_k", "influence": "exponential", "influence_floor": 0.1,
    },
    "complete, BatchNorm": {"scenario": "complete", "batch_norm": "average", "kl_direction": "literal"},
    "local, own norm": {"scenario": "local", "batch_norm": "local"},
    "ring, local momentum": {"optimizer": "nesterov", "loss": "none"},
    "ring, quasi-global": {"optimizer": "qg-momentum", "local_updates": 2},
    "mst, quasi-global, nesterov": {"scenario": "mst", "optimizer": "qg-nesterov", "loss": "none"},
    "matcha, tracking": {"scenario": "matcha", "optimizer": "gradient-tracking", "batch_norm": "local"},
    "delta_mbst, relayed, BatchNorm": {"scenario": "delta_mbst", "optimizer": "relay-sgd", "batch_norm": "average"},
    "mst, relayed": {"scenario": "mst", "optimizer": "relay-sgd", "local_updates": 2, "silos_per_client": 2},
    "custom, two clients": {"scenario": "custom", "silos_per_client": 2, "apply_beta": False},
    "ring, colour, own norm": {"batch_norm": "local", "channels": 3, "evaluate_every": 2},
    "ring, chains of features": {"loss": "cd_k", "loss_space": "feature", "metropolis": True},
    "ring, own": {"sub_network": "own"},
    "ring, mean teacher": {"sub_network": "average", "sub_network_momentum": 0.9},
    "ring, reset, two updates": {"sub_network": "reset", "local_updates": 2},
    "ring, gaussian, stacked": {"loss_space": "gaussian", "stacked": "yes", "silos_per_client": 4},
}  # fmt: skip


@pytest.fixture(scope="session")
def own_matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four silos in a one-way ring that weigh themselves differently."""
    path = tmp_path_factory.mktemp("matrix") / "mixing.csv"
    path.write_text("0.5,0.5,0,0\n0,0.6,0.4,0\n0,0,0.7,0.3\n0.2,0,0,0.8\n")
    return path


@pytest.fixture(scope="session")
def first_runs() -> dict[str, Digests]:
    return {}


@pytest.fixture
def first_run(
    cache: Path, own_matrix: Path, tmp_path: Path, first_runs: dict[str, Digests], undrawn: None
) -> RunOnce:
    """`first_run(variant)`: digests of a variant's first run, played once a session."""

    def run(variant: str) -> Digests:
        if variant not in first_runs:
            first_runs[variant] = played(
                cache, own_matrix, tmp_path, variant, f"first-{len(first_runs)}"
            )
        return first_runs[variant]

    return run


def played(cache: Path, own_matrix: Path, results: Path, variant: str, name: str) -> Digests:
    changes = dict(VARIANTS[variant])
    if changes.get("scenario") == "custom":
        changes["underlay_file"] = str(own_matrix)
    run_inprocess(config_of(cache, results, name, **changes))
    for metrics in round_rows(results / name).values():
        assert all(np.isfinite(v) for v in metrics.values())
    return digests(results, name)


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_runs_twice_with_the_same_bytes(
    cache: Path, own_matrix: Path, tmp_path: Path, first_run: RunOnce, variant: str
) -> None:
    assert first_run(variant) == played(cache, own_matrix, tmp_path, variant, "again")


def test_variants_train_differently(first_run: RunOnce) -> None:
    assert len({first_run(v)[0] for v in VARIANTS}) == len(VARIANTS)


def test_every_scenario_and_loss_is_among_the_variants() -> None:
    configs = [changed(CDLConfig(), **changes) for changes in VARIANTS.values()]
    for key in (
        "federation.scenario", "network.batch-norm", "training.optimizer", "objective.influence", "objective.sub-network",
    ):  # fmt: skip
        assert {value_of(c, key) for c in configs} == set(
            limits_of(CDLConfig)[key].choices or ()
        ), key
    assert {c.objective.loss for c in configs} == CONTRASTIVE_LOSSES.keys()


SINGLE_CHANGES: tuple[dict[str, Any], ...] = (
    {}, {"loss": "none"}, {"loss": "kl_release"}, {"loss": "cd_k"}, {"loss_space": "feature"},
    {"loss_space": "gaussian"}, {"temperature": 1.0}, {"beta": 0.9}, {"apply_beta": False},
    {"kl_direction": "literal"}, {"influence": "linear", "influence_floor": 0.5}, {"share_stem": True}, {"flip": True},
    {"sub_network": "own", "local_updates": 2}, {"sub_network": "average"},
    {"sub_network": "average", "sub_network_momentum": 0.5}, {"sub_network": "reset"},
    {"optimizer": "sgd"}, {"optimizer": "nesterov"}, {"optimizer": "qg-momentum"}, {"optimizer": "qg-nesterov"},
    {"optimizer": "qg-nesterov", "momentum": 0.5}, {"optimizer": "gradient-tracking"},
    {"local_updates": 2}, {"batch_norm": "average"}, {"seed": 1},
    {"regression": "mae"}, {"weight_decay": 0.1}, {"concept_skew": 0.5}, {"scenario": "local"},
)  # fmt: skip


def test_every_single_setting_matters(cache: Path, tmp_path: Path, undrawn: None) -> None:
    """One key at a time, two silos, two mixing steps: no two models are equal."""
    seen: dict[bytes, dict[str, Any]] = {}
    for number, change in enumerate(SINGLE_CHANGES):
        config = config_of(
            cache, tmp_path, f"run-{number}", num_silos=2, num_rounds=1, mixings_per_round=2,
            silos_per_client=2, evaluate_every=0, **change,
        )  # fmt: skip
        run_inprocess(config)
        model = model_of(tmp_path, f"run-{number}")
        assert model not in seen, f"{change} trains as {seen[model]}"
        seen[model] = change
