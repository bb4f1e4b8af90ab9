"""Local optimizers in the learner: they survive the disk, send what they must, and leave alone what is not theirs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fedsuite.arrays import module_arrays
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.frames import Silo
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS
from fedsuite.driving.plan import initial_network
from fedsuite.driving.topology.mixing import mix
from fedsuite.driving.training import silo_networks
from fedsuite.driving.training.learner import Learner, Site
from fedsuite.driving.training.silo_networks import SiloNetworks
from fedsuite.settings.config import limits_of
from tests.harness import changed

RING = np.array([[0.5, 0, 0.5], [0.5, 0.5, 0], [0, 0.5, 0.5]])
BASE = changed(
    CDLConfig(), image_size=40, batch_size=4, learning_rate=0.01, num_rounds=4, seed=5
)  # fmt: skip
Parts = tuple[SiloNetworks, Learner]
ACROSS = [name for name, method in LOCAL_OPTIMIZERS.items() if method.rule]


def parts_of(config: CDLConfig, silos: tuple[Silo, ...]) -> Parts:
    """Networks of these silos before training, and their learner."""
    network = initial_network(config)
    names = names_of(network, config)
    networks = SiloNetworks(config, names, module_arrays(network), len(silos), "cpu")
    networks.load_backbone(networks.backbone_arrays())  # as the server sends them at first
    site = Site(tuple(range(len(silos))), tuple(s.train for s in silos))
    return networks, Learner(config, network, networks, site)


def ring(t: int) -> np.ndarray:
    return RING


def test_the_settings_offer_what_there_is() -> None:
    assert limits_of(CDLConfig)["training.optimizer"].choices == tuple(LOCAL_OPTIMIZERS)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["group", "local"])
@pytest.mark.parametrize("name", LOCAL_OPTIMIZERS)
def test_state_survives_the_disk(silos: tuple[Silo, ...], name: str, norm: str) -> None:
    """Two steps, stored, restored elsewhere and gone on with, equal four steps in one go."""
    config = changed(BASE, optimizer=name, batch_norm=norm)
    whole, learner = parts_of(config, silos)
    learner.train(0, 4, ring)
    first, learner = parts_of(config, silos)
    learner.train(0, 2, ring)
    second, learner = parts_of(config, silos)
    second.load_private_arrays({k: v.copy() for k, v in first.private_arrays().items()})
    second.load_backbone(mix(first.backbone_arrays(), RING))
    learner.train(2, 2, ring)
    for one, two in ((whole.backbone, second.backbone), (whole.sub, second.sub)):
        assert all(torch.equal(one[k], two[k]) for k in one)
    one, two = whole.private_arrays(), second.private_arrays()
    assert one.keys() == two.keys() and all(np.array_equal(one[k], two[k]) for k in one)
    assert whole.backbone_arrays().keys() == second.backbone_arrays().keys()


@pytest.mark.slow
def test_only_tracking_mixes_more_than_the_model(silos: tuple[Silo, ...]) -> None:
    for name in LOCAL_OPTIMIZERS:
        networks, learner = parts_of(changed(BASE, optimizer=name), silos)
        learner.train(0, 1, ring)
        beside = networks.backbone_arrays().keys() - set(networks.names.mixed)
        tracked = {f"tracker.{n}" for n in networks.names.parameters}
        assert beside == (tracked if name == "gradient-tracking" else set())
        assert not [k for k in networks.private_arrays() if "tracker" in k]


def test_norms_kept_at_home_have_their_trackers_there_too(silos: tuple[Silo, ...]) -> None:
    config = changed(BASE, optimizer="gradient-tracking", batch_norm="local", loss="none")
    networks, learner = parts_of(config, silos)
    learner.train(0, 2, ring)
    local = [n for n in networks.names.parameters if n in networks.names.local]
    kept = {k.removeprefix("moments.backbone.tracker.") for k in networks.private_arrays()}
    assert local and set(local) <= kept
    assert not {f"tracker.{n}" for n in local} & networks.backbone_arrays().keys()


def test_trackers_sum_to_the_gradients(silos: tuple[Silo, ...]) -> None:
    networks, learner = parts_of(changed(BASE, optimizer="gradient-tracking"), silos)
    learner.train(0, 3, ring)
    sent, kept = networks.backbone_arrays(), networks.private_arrays()
    for name in networks.names.parameters:
        gradients = kept[f"moments.backbone.last.{name}"].sum(0)
        np.testing.assert_allclose(sent[f"tracker.{name}"].sum(0), gradients, atol=1e-5)
        assert not np.allclose(sent[f"tracker.{name}"], kept[f"moments.backbone.last.{name}"])


def trained(config: CDLConfig, silos: tuple[Silo, ...], a: Callable[[int], Any]) -> np.ndarray:
    networks, learner = parts_of(config, silos)
    learner.train(0, 4, a)
    return networks.backbone["trunk.head.weight"].detach().numpy()


@pytest.mark.slow
@pytest.mark.parametrize("stacked", ["no", "yes"])
def test_alone_tracking_is_plain_descent(silos: tuple[Silo, ...], stacked: str) -> None:
    """Without neighbours y is the gradient; with them it is not."""
    plain = changed(BASE, optimizer="sgd", dropout=0.0, stacked=stacked)
    tracking = changed(plain, optimizer="gradient-tracking")
    alone = [trained(c, silos, lambda t: np.eye(3)) for c in (plain, tracking)]
    np.testing.assert_allclose(*alone, atol=1e-6)
    assert np.abs(trained(plain, silos, ring) - trained(tracking, silos, ring)).max() > 1e-5


def test_with_a_server_tracking_is_plain_descent_on_the_mean_gradient(
    silos: tuple[Silo, ...],
) -> None:
    """Every silo holds the same model after each mixing, and the mean of trackers is the mean of gradients."""
    everybody, found = np.full((3, 3), 1 / 3), []
    for name in ("sgd", "gradient-tracking"):
        config = changed(BASE, optimizer=name, dropout=0.0, loss="none")
        networks, learner = parts_of(config, silos)
        learner.train(0, 4, lambda t: everybody)
        found.append(mix(networks.backbone_arrays(), everybody))
    for key, value in found[0].items():
        np.testing.assert_allclose(value, found[1][key], atol=2e-5, err_msg=key)


@pytest.mark.slow
@pytest.mark.parametrize("name", ACROSS)
def test_both_ways_of_taking_gradients_agree(silos: tuple[Silo, ...], name: str) -> None:
    base = changed(BASE, optimizer=name, dropout=0.0, learning_rate=1e-3)
    one, two = (trained(changed(base, stacked=way), silos, ring) for way in ("no", "yes"))
    np.testing.assert_allclose(one, two, atol=1e-4)
    assert np.abs(one - trained(changed(base, optimizer="sgd"), silos, ring)).max() > 1e-4


@pytest.mark.parametrize("optimizer", ["adam", "gradient-tracking"])
def test_networks_on_a_device_are_mixed_there(
    silos: tuple[Silo, ...], monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    """As on a GPU, which only has another name here: nothing goes through the host's memory."""
    own = changed(BASE, optimizer=optimizer, batch_norm="group")
    here, learner = parts_of(own, silos)
    learner.train(0, 1, ring)
    arrays = here.backbone_arrays()
    there, _ = parts_of(own, silos)
    there.load_backbone(arrays)
    there.device = "cuda"
    here.load_backbone(arrays)
    here.mix(RING)

    def on_the_host(*given: object) -> None:
        raise AssertionError("mixed on the host")

    monkeypatch.setattr(silo_networks, "mix", on_the_host)
    there.mix(RING)
    for name, expected in here.backbone_arrays().items():
        np.testing.assert_allclose(there.backbone_arrays()[name], expected, rtol=1e-5, atol=1e-6)
