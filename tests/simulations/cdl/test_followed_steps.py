"""Who follows a silo has the gradient of every step, of Adam's its signs; the steps are those of the run."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsuite.arrays import Arrays, under_prefix
from fedsuite.averaging.exchange import Codec
from fedsuite.driving.config import CDLConfig, TrainingSettings
from fedsuite.driving.exposure.features import trials
from fedsuite.driving.exposure.findings import inversion
from fedsuite.driving.exposure.followed import FOLLOWED, Followed, follower_of
from fedsuite.driving.exposure.sums import steps_in_a_sum
from fedsuite.driving.exposure.visits import ONE_FRAME, ExposedSilo, Visit, silos_of
from fedsuite.driving.message_keys import SILOS
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS
from fedsuite.driving.plan import initial_network
from fedsuite.history.finished import model_of
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import limits_of
from fedsuite.settings.values import Value
from fedsuite.storage.progress import silent
from tests.cdl_runs import Played, played_once
from tests.harness import arrays_in

HEAD = "trunk.head"
HALVES = Codec(
    lambda change: {"x": change[: len(change) // 2]},
    lambda parts, shape: np.concatenate([parts["x"], np.zeros(shape, np.float32)])[: shape[0]],
    lambda shape: {"x": ((shape[0] // 2, *shape[1:]), "float32")},
)
"""Leaves out the second half of an array's change, and sends it later."""

OPTIMIZERS = [str(name) for name in limits_of(CDLConfig)["training.optimizer"].choices or ()]
BARE: Mapping[str, Any] = {"loss": "none", "dropout": 0.0, "num_rounds": 3, "learning_rate": 0.01}


def bare(optimizer: str) -> dict[str, Any]:
    scenario = "mst" if LOCAL_OPTIMIZERS[optimizer].relays else "ring"
    return {**BARE, "optimizer": optimizer, "weight_decay": 0.1, "scenario": scenario}


VARIANTS: dict[str, dict[str, Any]] = {
    **{f"{name}-3": bare(name) for name in OPTIMIZERS},
    **{f"{name}-4": {**bare(name), "num_rounds": 4} for name in ("gradient-tracking", "qg-nesterov")},
    **{
        f"variates-{n}": {**BARE, "scenario": "star", "control_variates": True, "num_rounds": n}
        for n in (3, 4)
    },
    "summed-variates": {**BARE, "scenario": "star", "control_variates": True, "secure_sum": True},
    "coded-3": {**BARE, "scenario": "star", "codec": f"{__name__}:HALVES"},
    "coded-4": {**BARE, "scenario": "star", "codec": f"{__name__}:HALVES", "num_rounds": 4},
    "summed": {**BARE, "optimizer": "nesterov", "scenario": "star", "secure_sum": True},
    "followed-adam": {**BARE, "learning_rate": 1e-3, "num_rounds": 8},
    "local-norm": {**BARE, "batch_norm": "local", "optimizer": "nesterov"},
}  # fmt: skip


@pytest.fixture(scope="module")
def played(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Played:
    return played_once(cache, tmp_path_factory.mktemp("followed"), VARIANTS)


def silos(played: Played, name: str) -> list[ExposedSilo]:
    config, folder, _ = played(name)
    return silos_of(config, folder)


def gradient_of(silo: ExposedSilo, visit: Visit) -> Arrays:
    """Of the visit's frames in one batch, by torch alone."""
    network = initial_network(silo.config).train()
    network.load_state_dict({k: torch.tensor(v) for k, v in visit.before.items()})
    images = torch.from_numpy(np.array(visit.frames.images)).float()
    found = network(images).predictions
    (found - torch.from_numpy(np.array(visit.frames.angles))).square().mean().backward()
    return {k: p.grad.double().numpy() for k, p in network.named_parameters() if p.grad is not None}


def agreement(signs: Callable[[str], np.ndarray], expected: Arrays) -> float:
    """In how much of the gradients, by their absolute sum, signs are right."""
    right = sum(float(np.abs(g)[signs(k) == np.sign(g)].sum()) for k, g in expected.items())
    return right / sum(float(np.abs(g).sum()) for g in expected.values())


def apart(found: np.ndarray, expected: np.ndarray) -> float:
    """How far they are from each other, of the expected one's length."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("way", ["gradient-tracking", "qg-nesterov", "coded", "variates"])
def test_a_step_in_memory_is_the_one_that_the_run_would_have_made(played: Played, way: str) -> None:
    """With what was mixed beside a backbone, what optimizers have kept, what a codec has left out, and corrections."""
    steps = [silo.visit({}, 0) for silo in silos(played, f"{way}-3")]
    config, folder, recorder = played(f"{way}-4")
    if config.federation.scenario == "star":  # a star's next model is the mean of what arrived
        model = under_prefix(model_of(RunFolder(folder)), SILOS)
        for name in steps[0].after:
            mean = np.mean([step.after[name].astype(np.float64) for step in steps], axis=0)
            assert float(np.abs(model[name] - mean).max()) < 1e-6
        return
    sent = [a for m in recorder.received if f"{HEAD}.weight" in (a := arrays_in(m))][-4:]
    for step in steps:
        assert any(all((a[k][0] == step.after[k]).all() for k in step.after) for a in sent)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_follower_has_the_gradient_of_every_step(played: Played, name: str) -> None:
    silo = silos(played, f"{name}-3")[1]
    visit = silo.visit({}, 0)
    expected = gradient_of(silo, visit)
    errors = [apart(visit.gradient(k), g) for k, g in expected.items()]
    changes = {k: (visit.before[k] - visit.after[k]) / visit.rate for k in expected}
    if FOLLOWED.get(name, Followed()).sized:
        assert max(errors) < 1e-3
        assert max(apart(changes[k], g) for k, g in expected.items()) > 0.05
    else:
        assert name == "adam" and min(errors) > 0.5
        assert max(apart(visit.gradient(k), changes[k]) for k in expected) < 1e-3  # as it is


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_follower_has_the_signs_of_every_gradient(played: Played, name: str) -> None:
    """Of what the optimizer gets: Adam's weight decay, whose size is as little known, is in it."""
    silo = silos(played, f"{name}-3")[1]
    visit = silo.visit({}, 0)
    decay = 0.0 if FOLLOWED.get(name, Followed()).sized else silo.config.training.weight_decay
    expected = {k: g + decay * visit.before[k] for k, g in gradient_of(silo, visit).items()}
    assert agreement(visit.signs, expected) > (0.98 if name == "adam" else 0.9999)
    if name != "sgd":
        moved = {k: visit.before[k].astype(np.float64) - visit.after[k] for k in expected}
        assert agreement(lambda k: np.sign(moved[k]), expected) < (0.9 if name == "adam" else 0.995)


def test_adam_with_a_gradient_of_0_makes_the_step_that_is_known() -> None:
    rng, own = np.random.default_rng(0), TrainingSettings(optimizer="adam", learning_rate=0.01)
    x = torch.from_numpy(rng.normal(size=(1, 50))).requires_grad_()
    optimizer = torch.optim.Adam([x], own.learning_rate)
    for _ in range(5):
        x.grad = torch.from_numpy(rng.normal(size=(1, 50)))
        optimizer.step()
    follower, before = follower_of(own, {"x": x}, optimizer.state), x.detach().numpy().copy()
    x.grad = torch.zeros_like(x)
    optimizer.step()
    direction = (before - x.detach().numpy())[0] / own.learning_rate
    assert np.abs(follower.known["x"] - direction).max() < 1e-9 < np.abs(direction).min()
    several = follower_of(replace(own, local_updates=3), {"x": x}, optimizer.state)
    assert not several.known["x"].any()  # their sum alone is seen


def test_two_messages_tell_the_signs_of_adam_s_gradient(played: Played) -> None:
    """No moments are needed that no message shows."""
    config, folder, recorder = played("followed-adam")
    queried = [m for m in recorder.received if m.metadata.message_type == "query"]
    nodes = {m.content["properties"]["partition"]: m.metadata.src_node_id for m in queried}
    node = nodes[1]
    sent = [m for m in recorder.sent if m.metadata.dst_node_id == node]
    replies = [m for m in recorder.received if m.metadata.src_node_id == node]
    x, y = (
        [arrays_in(m) for m in messages if m.metadata.message_type == "train"][-1]
        for messages in (sent, replies)
    )
    silo, t = silos_of(config, folder)[1], config.num_rounds + 1
    visit = silo.visit({}, 0)
    expected = gradient_of(silo, visit)
    corrected = (1 - 0.9 ** (t - 1)) / (1 - 0.9**t), (1 - 0.999**t) / (1 - 0.999 ** (t - 1))
    standing = 0.9 / np.sqrt(0.999) * corrected[0] * np.sqrt(corrected[1])

    def signs(name: str) -> np.ndarray:
        before = x[name][0].astype(np.float64) - y[name][0]
        now = visit.before[name].astype(np.float64) - visit.after[name]
        return np.asarray(np.sign(now - standing * before))

    assert agreement(signs, expected) > 0.98
    assert agreement(signs, {k: visit.signs(k) * np.abs(g) for k, g in expected.items()}) > 0.999


def test_control_variates_tell_what_adam_would_hide(played: Played) -> None:
    """They are sent without noise and moments: whoever has added up their changes has a step's mean gradient."""
    exposed = silos(played, "variates-3")
    visit = exposed[1].visit({}, 0)
    assert exposed[1].config.training.optimizer == "adam"
    expected = gradient_of(exposed[1], visit)
    assert max(apart(visit.gradient(k), g) for k, g in expected.items()) < 1e-5
    assert agreement(visit.signs, expected) > 0.99999
    made = trials(exposed, HEAD, 8, ONE_FRAME)
    assert all(t.found and t.angle_told for t in made) and min(t.cosine for t in made) > 0.9999


def test_a_sum_of_control_variates_is_their_mean_gradient(played: Played) -> None:
    exposed = silos(played, "summed-variates")
    summed = steps_in_a_sum(exposed, {}, 0)
    each = [gradient_of(s, v) for s, v in zip(exposed, summed.visits, strict=True)]
    expected = np.mean([gradient[f"{HEAD}.weight"] for gradient in each], axis=0)
    assert apart(summed.gradient(f"{HEAD}.weight"), expected) < 1e-5


def test_two_updates_give_the_sum_of_their_gradients_away(played: Played) -> None:
    silo = silos(played, "qg-momentum-3")[1]
    # So small a rate that the second gradient is of nearly the same place, and of the same frames.
    same: Mapping[str, Value] = {"training.learning-rate": 1e-4, "training.batch-size": 12}
    one, two = (silo.visit({**same, "training.local-updates": u}, 0) for u in (1, 2))
    assert apart(two.gradient(f"{HEAD}.weight"), 2 * one.gradient(f"{HEAD}.weight")) < 0.05


def test_who_follows_sums_has_the_mean_gradient(played: Played) -> None:
    exposed = silos(played, "summed")
    summed = steps_in_a_sum(exposed, {}, 0)
    each = [gradient_of(s, v) for s, v in zip(exposed, summed.visits, strict=True)]
    for part in (f"{HEAD}.weight", f"{HEAD}.bias"):
        expected = np.mean([gradient[part] for gradient in each], axis=0)
        assert apart(summed.gradient(part), expected) < 1e-2
        assert apart(-summed.mean[part] / summed.visits[0].rate, expected) > 0.1


@pytest.mark.parametrize("name", ["gradient-tracking-3", "nesterov-3", "qg-nesterov-3"])
def test_momentum_hides_no_frame(played: Played, name: str) -> None:
    config, folder, _ = played(name)
    made = trials(silos_of(config, folder), HEAD, 8, ONE_FRAME)
    assert all(t.found and t.angle_told for t in made) and min(t.cosine for t in made) > 0.999
    found = {
        f.target: f for f in inversion(config, folder, 0, silent, True) if f.measure == "cosine"
    }
    optimizer = config.training.optimizer
    own = found[f"a frame's features, from a step of one frame with {optimizer}"]
    assert own.counts and own.value > 0.999


def test_features_are_those_of_a_silo_s_own_normalisation(played: Played) -> None:
    """Scales and offsets of BatchNorm, which stay in the silo, are as it has trained them."""
    silo = silos(played, "local-norm")[0]
    local = [k for k in silo.backbone if k not in silo.visit({}, 0).after]
    assert any(
        (silo.backbone[k] != initial_network(silo.config).state_dict()[k].numpy()).any()
        for k in local
    )
    before = silo.visit({}, 0).before
    assert {*before} == {*silo.backbone} and all(
        (before[k] == silo.backbone[k]).all() for k in local
    )
