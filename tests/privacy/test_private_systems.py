"""Differential privacy in houses and silos: what is refused, and that what leaves is what was said."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from fedsuite.arrays import under_prefix
from fedsuite.averaging.requirements import check_averaging
from fedsuite.driving.checks import validate as check_cdl
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.frames import Frames
from fedsuite.driving.model.networks import build_network
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.training.learner import Learner, Site
from fedsuite.driving.training.private_learner import PrivateLearner
from fedsuite.driving.training.silo_networks import SiloNetworks
from fedsuite.errors import InputError
from fedsuite.history import read_rows
from fedsuite.privacy.accounting import epsilon_of
from fedsuite.privacy.complaints import check_privacy
from fedsuite.privacy.example_level import NoisedSteps
from fedsuite.privacy.findings import Finding
from fedsuite.privacy.ledger import LEDGER, read
from fedsuite.roster.members import read_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import read_config
from fedsuite.vln.checks import validate as check_houses
from fedsuite.vln.config import FedVLNConfig
from simulations.audits.accounted import beside_ledger
from simulations.engines.inprocess import run_inprocess
from simulations.torch_system import check
from tests.cdl_runs import config_of as cdl_config
from tests.cdl_runs import digests
from tests.fedvln_runs import TINY, config_from
from tests.harness import changed, full_keys
from tests.privacy.private_regression import Settings

STAR = {"unit": "client", "scenario": "star"}
FRAMES = {"unit": "example", "objective.loss": "none"}
OWN_OPTIMIZER = "fedsuite.averaging.server_optimizers:adagrad"
ANY = [  # what no server of ours averages with under client-level privacy, and the key that is blamed
    ({"merge": "median"}, 'federation.merge: "median"'),
    ({"max_share": 0.5}, "federation.max-share: 0.5"),
    ({"update_bound": 2.0}, "federation.update-bound: 2"),
    ({"group_size": 2}, "federation.group-size: 2"),
    ({"control_variates": True}, "federation.control-variates: true"),
    ({"server_optimizer": "fedexp"}, "federation.server-optimizer: fedexp"),
    ({"server_optimizer": OWN_OPTIMIZER}, f"federation.server-optimizer: {OWN_OPTIMIZER}"),
    ({"participation": "os.path:join"}, "federation.participation: os.path:join"),
    ({"max_epsilon": 1.0}, "privacy.max-epsilon: 1, but the first round alone"),
    ({"adaptive_clip": True, "count_noise": 0.4}, "privacy.count-noise: 0.4"),
]
WORDS = {"unit": "example", "kind": "imitation"}
HOUSES = [
    ({**WORDS, "kind": "a2c"}, "objective.kind: a2c is a mean over the decisions"),
    ({**WORDS, "stage": "speaker"}, "privacy.unit: example is built for agents"),
    ({**WORDS, "method": "local-only"}, "privacy.unit: example goes with a model that is shared"),
    ({**WORDS, "shuffle_instructions": True}, "ablations.shuffle-instructions"),
    ({**WORDS, "masked_pooling": False}, "agent.masked-pooling: false pads to the longest"),
    ({**WORDS, "sabotage.clients": "0", "attack": "backdoor"}, "sabotage.attack: backdoor is not"),
    ({**WORDS, "control_variates": True}, "federation.control-variates"),
    ({**WORDS, "local_method": "ditto"}, "federation.local-method: ditto may train more than once"),
    ({"aggregation": "sequential"}, "federation.aggregation: sequential"),
    ({"client_optimizer": "shared"}, "federation.client-optimizer: shared"),
    ({"method": "local-only"}, "privacy.unit: client .* local-only"),
    ({"method": "centralised"}, "privacy.unit: client .* centralised"),
]
SILOS = [
    ({"scenario": "ring"}, "privacy.unit: ring has no server"),
    ({"merge": "clipped"}, "privacy.unit: goes with the mean"),
    ({"mixings_per_round": 2}, "privacy.unit: the server works once a round"),
    ({"training.optimizer": "qg-momentum"}, "privacy.unit: training.optimizer=qg-momentum"),
    ({"control_variates": True}, "federation.control-variates"),
    ({"batch_norm": "average"}, "network.batch-norm: average"),
    ({"data_weighted": True}, "federation.data-weighted"),
    ({"sabotage.clients": "0"}, "sabotage.clients"),
    ({"server_optimizer": "fedexp"}, "federation.server-optimizer: fedexp"),
    ({"max_epsilon": 1.0}, "privacy.max-epsilon: 1, but the first round alone"),
    ({**FRAMES, "objective.loss": "kl"}, "objective.loss: with kl the sub-network"),
    ({**FRAMES, "batch_norm": "local"}, "network.batch-norm: local"),
    ({**FRAMES, "stacked": "yes"}, "training.stacked"),
    ({**FRAMES, "control_variates": True}, "federation.control-variates"),
]  # fmt: skip


def of(cls: Any, **own: Any) -> Any:
    """Settings with keys in snake case, or whole."""
    return read_config(cls, full_keys(cls, own))


@pytest.mark.parametrize(("own", "blamed"), ANY)
def test_any_server_refuses(own: dict[str, Any], blamed: str) -> None:
    """Houses too; each is fine without privacy."""
    with pytest.raises(InputError, match=blamed):
        check_privacy(of(Settings, unit="client", **own))
    with pytest.raises(InputError, match=blamed):
        check_houses(of(FedVLNConfig, **{"unit": "client", **own}))
    check_privacy(of(Settings, **own))


def test_what_goes_with_privacy_is_not_refused() -> None:
    for own in (
        {},
        {"server_optimizer": "adam"},
        {"local_penalty": "proximal"},
        {"share": "weight"},
    ):
        check(of(Settings, unit="client", **own))
        check(of(Settings, unit="example", **own))
    check(of(Settings, unit="example", merge="median", group_size=2))
    with pytest.raises(InputError, match=r"federation\.control-variates: they carry gradients"):
        check(of(Settings, unit="example", control_variates=True))
    check_averaging(of(Settings, control_variates=True))
    check_houses(of(FedVLNConfig, unit="client"))
    for own in ({}, {"aggregation": "sequential"}, {"method": "centralised"}, {"merge": "median"}):
        check_houses(of(FedVLNConfig, **WORDS, **own))
    for scenario in ("fedavg", "fedprox", "star"):
        check_cdl(of(CDLConfig, unit="client", scenario=scenario, image_size=40, num_silos=3))
    check_cdl(of(CDLConfig, **FRAMES, scenario="ring", image_size=40, num_silos=3))


@pytest.mark.parametrize(("own", "blamed"), HOUSES)
def test_houses_refuse(own: dict[str, Any], blamed: str) -> None:
    with pytest.raises(InputError, match=blamed):
        check_houses(of(FedVLNConfig, **{"unit": "client", **own}))


@pytest.mark.parametrize(("own", "blamed"), SILOS)
def test_silos_refuse(own: dict[str, Any], blamed: str) -> None:
    values = {**STAR, "image_size": 40, "num_silos": 3, **own}
    if values["unit"] == "example":
        values["scenario"] = "fedavg"
    with pytest.raises(InputError, match=blamed):
        check_cdl(of(CDLConfig, **values))


# --- silos -------------------------------------------------------------------------------------------


def play_silos(cache: Path, results: Path, name: str, **own: Any) -> Path:
    values = {"objective.loss": "none", "noise": "seeded", "delta": 1e-3, "num_rounds": 2, **own}
    run_inprocess(cdl_config(cache, results, name, **{"checkpoint_every": 1, **values}))
    return results / name


@pytest.mark.slow
def test_a_star_hands_out_one_noised_model(cache: Path, tmp_path: Path) -> None:
    """The mean's own round but for noise, where nothing is clipped; the silos' models in the result are the server's."""
    own = {**STAR, "clip": 1e6, "num_rounds": 1}
    plain = load_file(
        play_silos(cache, tmp_path, "plain", scenario="star", num_rounds=1) / "model.safetensors"
    )
    quiet = play_silos(cache, tmp_path, "quiet", **own, noise_multiplier=1e-13)
    found = load_file(quiet / "model.safetensors")
    for name, value in plain.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5)
    noisy = play_silos(cache, tmp_path, "noisy", **{**own, "clip": 0.01}, noise_multiplier=3.0)
    found = load_file(noisy / "model.safetensors")
    silos = under_prefix(found, "silos.")
    for name, value in silos.items():
        for one in value:
            np.testing.assert_array_equal(one, found[name])
    drawn = np.concatenate([(found[k] - plain[k]).ravel() for k in silos])
    assert drawn.std() == pytest.approx(3.0 * 0.01 / 4, rel=0.15)  # m = 4; steps are far smaller
    ledger = read(noisy)
    assert ledger.unit == "client" and [r.participants for r in ledger.releases] == [4]


@pytest.mark.slow
def test_silos_hide_their_frames_on_a_ring(cache: Path, tmp_path: Path) -> None:
    """Each has a ledger, and tells no loss; seeded runs repeat, and go on as if nothing had been."""
    own = {**FRAMES, "noise_multiplier": 1.5, "scenario": "ring", "local_updates": 2}
    run = play_silos(cache, tmp_path, "run", **own)
    again = play_silos(cache, tmp_path, "again", **own)
    assert digests(tmp_path, "run") == digests(tmp_path, "again")
    ledgers = sorted(run.rglob(LEDGER))
    assert len(ledgers) == 4 and not (run / LEDGER).exists() and again.is_dir()
    want = epsilon_of({(1.5, 4 / 12): 4}, 1e-3)
    for file in ledgers:
        ledger = read(file.parent)
        assert [(r.round, r.count, r.sampling) for r in ledger.releases] == [
            (1, 2, 4 / 12),
            (2, 2, 4 / 12),
        ]
        assert ledger.epsilon() == want
    seen = Finding("a", "server", "t", "AUC", 0.5, 0.5, 0.9, 0.6, 9)
    assert beside_ledger(RunFolder(run), "example")(seen).epsilon == want
    rows = read_rows(run / "history.jsonl")
    sent = {k.split(".")[-1] for r in rows if r.get("task") == "train" for k in r["metrics"]}
    assert sent == {"epsilon", "sub-network-distance"}
    rounds = [r["metrics"] for r in rows if r["kind"] == "round"]
    assert rounds[-1]["train.epsilon"] == want
    assert not any("loss" in k for metrics in rounds for k in metrics)
    secret = play_silos(cache, tmp_path, "secret", **own, noise="secret")
    assert (secret / "model.safetensors").read_bytes() != (run / "model.safetensors").read_bytes()
    text = (run / "results.md").read_text() if (run / "results.md").exists() else ""
    assert not text or f"unit example: epsilon {want:.4g}" in text


def learners(own: dict[str, Any], secret: int = 0) -> tuple[Learner, PrivateLearner]:
    """A plain learner and one of DP-SGD that clips nothing, adds nothing, and has every frame in every batch.

    secret: what the second draws from.
    """
    base = {
        "image_size": 40,
        "batch_size": 6,
        "dropout": 0.0,
        "objective.loss": "none",
        "optimizer": "sgd",
    }
    base |= {"clip": 1e6, "noise_multiplier": 1e-15, "noise": "seeded"}
    config = changed(CDLConfig(), **{**base, **own})
    network = build_network("resnet8", 40, 1, "group", config.network.dropout, seed=1)
    names, initial = (
        names_of(network, config),
        {k: v.numpy() for k, v in network.state_dict().items()},
    )
    rng = np.random.default_rng(0)
    frames = tuple(
        Frames(rng.integers(0, 256, (6, 1, 40, 40), np.uint8), rng.normal(0, 0.3, 6).astype(np.float32))
        for _ in range(2)
    )  # fmt: skip
    site = Site((3, 5), frames)
    made = [SiloNetworks(config, names, initial, 2, "cpu") for _ in range(2)]

    def begin(i: int, updates: int) -> NoisedSteps:
        return NoisedSteps(config.privacy, 6, 6, np.random.default_rng([i, secret]))

    return (
        Learner(config, network, made[0], site),
        PrivateLearner(begin, config, network, made[1], site),
    )


def test_without_noise_or_clipping_dp_sgd_is_sgd() -> None:
    """Batches of all frames: three updates of two silos are those of the plain learner."""
    plain, private = learners({"local_updates": 3})
    one = lambda t: np.eye(2)  # noqa: E731
    plain.train(0, 1, one)
    assert private.train(0, 1, one).keys() == {"epsilon"}
    for name, tensor in plain.networks.backbone.items():
        torch.testing.assert_close(
            private.networks.backbone[name], tensor, rtol=1e-3, atol=1e-5, msg=name
        )


def test_dropout_of_a_silo_is_no_secret_of_the_seed() -> None:
    """It follows from what its noise is drawn from, whatever the run's seed."""

    def trained(seed: int, secret: int) -> np.ndarray:
        _, private = learners({"seed": seed, "dropout": 0.5}, secret)
        private.train(0, 1, lambda t: np.eye(2))
        return np.concatenate([v.ravel() for v in private.networks.backbone_arrays().values()])

    assert np.array_equal(trained(1, 5), trained(2, 5))
    assert not np.allclose(trained(1, 5), trained(1, 6), atol=1e-6)


# --- houses ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("share", ["agent", "language-encoder"])
def test_houses_share_what_is_noised(cache: Path, tmp_path: Path, share: str) -> None:
    """Nothing but the shared arrays moves at the server, by the noise that was said."""
    own = {
        "unit": "client",
        "clip": 1e-6,
        "noise_multiplier": 1e4,
        "noise": "seeded",
        "share": share,
    }
    for name, more in (("run", own), ("still", {**own, "noise_multiplier": 1e-9})):
        values = {**TINY, **more, "name": name, "stage": "train", "evaluate-every": 0}
        values |= {"results-dir": str(tmp_path), "cache-dir": str(cache)}
        run_inprocess(config_from(values))
    moved, still = (load_file(tmp_path / n / "model.safetensors") for n in ("run", "still"))
    drawn = np.concatenate([(moved[k] - still[k]).ravel() for k in moved])
    assert drawn.std() == pytest.approx(1e4 * 1e-6 / 2, rel=0.05)  # two houses
    assert all(k.startswith("encoder.") for k in moved) == (share != "agent")
    assert [r.participants for r in read(tmp_path / "run").releases] == [2]


@pytest.mark.slow
def test_houses_hide_their_instructions(cache: Path, tmp_path: Path) -> None:
    """Each that trains has a ledger, tells its epsilon and no loss, and the run ends before the limit."""
    own = {**WORDS, "noise_multiplier": 1.5, "noise": "seeded", "delta": 1e-3, "num_rounds": 3}
    own |= {"batch_size": 4, "share": "language-encoder", "evaluate-every": 0}

    def play(name: str, **more: Any) -> Path:
        values = {**TINY, **own, **more, "name": name, "results-dir": str(tmp_path)}
        run_inprocess(config_from({**values, "cache-dir": str(cache)}))
        return tmp_path / name

    run = play("run")
    rows = [r for r in read_rows(run / "history.jsonl") if r.get("task") == "train"]
    assert all(row["metrics"].keys() == {"steps", "epsilon"} for row in rows)
    sizes = {m.name: m.examples for m in read_roster(run / "roster.json").members if m.examples}
    want = {}
    for name, n in sizes.items():
        ledger, q, steps = read(run / "clients" / name), min(1.0, 4 / n), -(-n // 4)
        assert [(r.round, r.count, r.sampling) for r in ledger.releases] == [
            (number, steps, q) for number in (1, 2, 3)
        ]
        want[name] = epsilon_of({(1.5, q): 3 * steps}, 1e-3)
    last = {r["name"]: r["metrics"]["epsilon"] for r in rows if r["round"] == 3}
    assert last == pytest.approx(want, rel=1e-12) and not (run / LEDGER).exists()
    most = max(epsilon_of({(1.5, min(1.0, 4 / n)): 2 * -(-n // 4)}, 1e-3) for n in sizes.values())
    ended = play("ended", max_epsilon=most * 1.001)
    assert read_rows(ended / "history.jsonl")[-1]["round"] == 2
    assert RunFolder(ended).is_completed()
