"""The learner against a plain PyTorch loop over whole modules, one pair of networks and two optimizers a silo."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from fedsuite.arrays import Arrays, module_arrays
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.batches import stacked_batch
from fedsuite.driving.data.frames import Silo
from fedsuite.driving.model.networks import build_network
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network
from fedsuite.driving.training.contrastive import (
    chain_of,
    contrastive_terms,
    noise_shape,
    penalty_of,
)
from fedsuite.driving.training.learner import Learner, Site
from fedsuite.driving.training.silo_networks import SiloNetworks
from fedsuite.randomness import torch_generator_for
from tests.bar_frames import bar_frames
from tests.harness import changed

RING = np.array([[0.5, 0, 0.5], [0.5, 0.5, 0], [0, 0.5, 0.5]])
BASE = changed(
    CDLConfig(),
    image_size=40,
    batch_size=4,
    dropout=0.0,
    batch_norm="average",
    num_rounds=3,
    seed=5,
)
TOLERANCE = {"atol": 2e-5, "rtol": 2e-3}


def network_of(config: CDLConfig) -> torch.nn.Module:
    return build_network(
        "resnet8", config.data.image_size, 1, dropout=config.network.dropout, seed=config.seed
    )


def networks_of(config: CDLConfig, network: torch.nn.Module, count: int) -> SiloNetworks:
    names = names_of(network, config)
    return SiloNetworks(config, names, module_arrays(network), count, "cpu")


def learnt(
    config: CDLConfig, silos: tuple[Silo, ...], steps: int
) -> tuple[SiloNetworks, dict[str, Any]]:
    network = network_of(config)
    networks = networks_of(config, network, len(silos))
    site = Site(tuple(range(len(silos))), tuple(s.train for s in silos))
    learner = Learner(config, network, networks, site, penalty_of(config.federation))
    terms = learner.train(0, steps, lambda t: RING)
    return networks, terms


def twin(config: CDLConfig, silos: tuple[Silo, ...], steps: int) -> list[tuple[Arrays, Arrays]]:
    """Backbones and sub-networks after `steps` updates with the ring's mixing between them."""
    nets = [copy.deepcopy(network_of(config)) for _ in silos]
    subs = [copy.deepcopy(n) for n in nets]
    objective, chain = config.objective, chain_of(config.objective, config.data.angle_end)

    def optimizer(module: torch.nn.Module) -> torch.optim.Optimizer:
        kind = torch.optim.Adam if config.training.optimizer == "adam" else torch.optim.SGD
        return kind(
            module.parameters(),
            config.training.learning_rate,
            weight_decay=config.training.weight_decay,
        )

    net_steps, sub_steps = [optimizer(n) for n in nets], [optimizer(s) for s in subs]
    for t in range(steps):
        for i, silo in enumerate(silos):
            images, angles = stacked_batch(
                [silo.train], (i,), t, config.training.batch_size, config.seed, False
            )
            x, y = torch.from_numpy(images[0]).float(), torch.from_numpy(angles[0])
            start = [p.detach().clone() for p in nets[i].parameters()]
            out = nets[i](x)
            loss = ((out.predictions - y) ** 2).mean()
            contrasts = config.objective.contrastive and t > 0
            if contrasts:
                other = subs[i](x)
                size, noise = config.training.batch_size, None
                if objective.loss == "cd_k":
                    shape = noise_shape(objective, chain, size, out.features.shape[1])
                    generator = torch_generator_for(config.seed, "chains", t, i)
                    noise = torch.randn(shape, generator=generator)
                terms = contrastive_terms(objective, chain, out, other, noise)
                loss = (
                    loss + config.objective.beta * terms[0] + (1 - config.objective.beta) * terms[1]
                )
            if config.federation.scenario == "fedprox":
                gaps = zip(nets[i].parameters(), start, strict=True)
                loss = loss + config.federation.proximal_mu / 2 * sum(
                    ((p - s) ** 2).sum() for p, s in gaps
                )
            net_steps[i].zero_grad()
            sub_steps[i].zero_grad()
            loss.backward()
            net_steps[i].step()
            if contrasts:
                sub_steps[i].step()
            if t == 0:
                subs[i].load_state_dict(nets[i].state_dict())
        if t < steps - 1:
            before = [module_arrays(n) for n in nets]
            for i, net in enumerate(nets):
                net.load_state_dict(mixed_by_hand(before, RING[i], net))
    return [(module_arrays(n), module_arrays(s)) for n, s in zip(nets, subs, strict=True)]


def mixed_by_hand(
    states: list[Arrays], row: np.ndarray, own: torch.nn.Module
) -> dict[str, torch.Tensor]:
    result = {}
    for name, kept in own.state_dict().items():
        if name.endswith("num_batches_tracked"):
            result[name] = kept
        elif name.endswith("running_var"):
            means = [s[name.replace("running_var", "running_mean")] for s in states]
            mean = sum(a * m for a, m in zip(row, means, strict=True))
            square = sum(a * (s[name] + m**2) for a, s, m in zip(row, states, means, strict=True))
            result[name] = torch.tensor(np.float32(square - mean**2))
        else:
            result[name] = torch.tensor(
                np.float32(sum(a * s[name] for a, s in zip(row, states, strict=True)))
            )
    return result


# Adam divides by the size of gradients, which makes rounding large where the gradient is all rounding; hence SGD.
SGD: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 0.02}
KINDS: dict[str, dict[str, Any]] = {
    "none": {"loss": "none", **SGD},
    "adam": {"loss": "none"},
    "kl": {"loss": "kl", **SGD},
    "feature": {"loss": "kl", "loss_space": "feature", **SGD},
    "cd_k": {"loss": "cd_k", "chain_steps": 2, **SGD},
    "metropolis": {"loss": "cd_k", "chain_steps": 2, "metropolis": True, **SGD},
    "release": {"loss": "kl_release", **SGD},
}


@pytest.mark.slow
@pytest.mark.parametrize("stacked", ["no", "yes"])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_a_plain_loop(silos: tuple[Silo, ...], kind: str, stacked: str) -> None:
    config = changed(BASE, stacked=stacked, **KINDS[kind])
    networks, _ = learnt(config, silos, 3)
    for i, expected in enumerate(twin(config, silos, 3)):
        for tensors, arrays in zip((networks.backbone, networks.sub), expected, strict=True):
            # A bias right before BatchNorm has no gradient but rounding, which Adam makes large.
            for name in (n for n in tensors if not n.endswith("conv1.bias")):
                found = tensors[name][i].detach().numpy()
                if kind == "adam":
                    assert np.abs(found - arrays[name]).mean() < 1e-4, name
                else:
                    np.testing.assert_allclose(found, arrays[name], **TOLERANCE, err_msg=name)


def test_the_sub_network_starts_as_the_locally_learnt_backbone(silos: tuple[Silo, ...]) -> None:
    networks, _ = learnt(BASE, silos, 1)
    assert networks.distance().tolist() == [0.0, 0.0, 0.0]
    initial = module_arrays(network_of(BASE))
    for name in networks.names.parameters:
        assert torch.equal(networks.sub[name], networks.backbone[name])
    head = networks.sub["trunk.head.weight"].detach().numpy()
    assert all(not np.array_equal(head[i], initial["trunk.head.weight"]) for i in range(3))
    networks, _ = learnt(BASE, silos, 2)
    assert (networks.distance() > 0).all()


@pytest.mark.slow
def test_beta_reaches_the_losses(silos: tuple[Silo, ...]) -> None:
    """The released code trains with beta = 1 whatever is asked."""
    models = {}
    for beta in (0.0, 0.5, 1.0):
        networks, _ = learnt(changed(BASE, beta=beta), silos, 3)
        models[beta] = networks.backbone["trunk.head.weight"].detach().numpy().tobytes()
    assert len(set(models.values())) == 3


def test_with_beta_one_the_sub_network_stands_still(silos: tuple[Silo, ...]) -> None:
    config = changed(BASE, beta=1.0, weight_decay=0.0)
    before, _ = learnt(config, silos, 1)
    after, _ = learnt(config, silos, 3)
    for name in before.names.parameters:
        assert torch.equal(before.sub[name], after.sub[name])


def test_dropout_depends_on_the_silo_and_not_on_its_company(silos: tuple[Silo, ...]) -> None:
    config = changed(BASE, dropout=0.5, scenario="local")
    together, _ = learnt(config, silos, 1)
    network = network_of(config)
    alone = networks_of(config, network, 1)
    Learner(config, network, alone, Site((2,), (silos[2].train,))).train(0, 1, lambda t: np.eye(1))
    for name in alone.names.parameters:
        assert torch.equal(alone.backbone[name][0], together.backbone[name][2])


def test_training_leaves_the_global_generator_alone(silos: tuple[Silo, ...]) -> None:
    before = torch.random.get_rng_state()
    learnt(changed(BASE, dropout=0.5), silos, 2)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_silo_that_joins_late_copies_its_backbone_first(silos: tuple[Silo, ...]) -> None:
    """Whoever missed the first mixing steps has no theta^s yet: nothing is contrasted with the initial network."""
    config = changed(BASE, loss="kl")
    network, site = network_of(config), Site((0, 1, 2), tuple(s.train for s in silos))
    late, plain = (
        networks_of(config, network, 3),
        networks_of(changed(BASE, loss="none"), network, 3),
    )
    terms = Learner(config, network, late, site).train(3, 1, lambda t: RING)
    Learner(changed(BASE, loss="none"), network, plain, site).train(3, 1, lambda t: RING)
    assert not late.distance().any() and not terms["cd-plus"].any()
    assert all(torch.equal(late.backbone[name], plain.backbone[name]) for name in plain.backbone)


@pytest.mark.slow
def test_state_survives_the_disk(silos: tuple[Silo, ...]) -> None:
    """Two steps, stored, restored elsewhere and gone on with, equal four steps in one go."""
    config = changed(BASE, dropout=0.5, batch_norm="local")
    whole, _ = learnt(config, silos, 4)
    network = network_of(config)
    site = Site((0, 1, 2), tuple(s.train for s in silos))
    first = networks_of(config, network, 3)
    Learner(config, network, first, site).train(0, 3, lambda t: RING)
    second = networks_of(config, network, 3)
    from fedsuite.driving.topology.mixing import mix

    second.load_private_arrays({k: v.copy() for k, v in first.private_arrays().items()})
    second.load_backbone(mix(first.backbone_arrays(), RING))
    Learner(config, network, second, site).train(3, 1, lambda t: RING)
    for name in whole.backbone:
        assert torch.equal(whole.backbone[name], second.backbone[name]), name
    for name in whole.sub:
        assert torch.equal(whole.sub[name], second.sub[name]), name


@pytest.mark.slow
def test_fedprox_pulls_back_from_the_second_update_on(silos: tuple[Silo, ...]) -> None:
    """With one update between mixings its gradient is zero: FedProx is FedAvg there."""

    def trained(scenario: str, updates: int, mu: float) -> np.ndarray:
        config = changed(
            BASE, loss="none", scenario=scenario, local_updates=updates, proximal_mu=mu
        )
        networks, _ = learnt(config, silos, 1)
        return networks.backbone["trunk.head.weight"].detach().numpy()

    assert np.array_equal(trained("fedprox", 1, 10.0), trained("fedavg", 1, 10.0))
    start = module_arrays(network_of(BASE))["trunk.head.weight"]
    far = np.abs(trained("fedavg", 6, 0.0) - start).sum()
    near = np.abs(trained("fedprox", 6, 30.0) - start).sum()
    assert near < 0.9 * far


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "kl"])
def test_it_learns(silos: tuple[Silo, ...], kind: str) -> None:
    config = changed(BASE, loss=kind, batch_size=8, num_rounds=60)
    network = network_of(config)
    networks = networks_of(config, network, 3)
    site = Site((0, 1, 2), tuple(s.train for s in silos))
    learner = Learner(config, network, networks, site)
    early = learner.train(0, 5, lambda t: RING)["regression-loss"].mean()
    learner.train(5, 50, lambda t: RING)
    late = learner.train(55, 5, lambda t: RING)["regression-loss"].mean()
    assert late < 0.3 * early


def test_sizes_of_the_pair() -> None:
    """Do et al. 2024 count two complete ResNet-8; their release shares the stem."""
    sizes = {}
    for share in (False, True):
        config = changed(BASE, image_size=200, share_stem=share)
        network = network_of(config)
        networks = networks_of(config, network, 1)
        both = {**networks.backbone, **{f"sub.{k}": v for k, v in networks.sub.items()}}
        trained = [
            v for k, v in both.items() if k.removeprefix("sub.") in networks.names.parameters
        ]
        sizes[share] = sum(v[0].numel() for v in trained)
    assert sizes == {False: 629_314, True: 628_482}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("fadnet", 40),
        ("fadnet_plus", 40),
        ("mobilenet_v2", 40),
        ("vgg16", 40),
        ("inception_v3", 80),
    ],
)
def test_any_network_can_be_a_pair(model: str, size: int) -> None:
    """Two mixing steps: both networks move, the backbone by its own and the sub-network by the contrastive term."""
    config = changed(BASE, model=model, image_size=size, batch_size=2)
    network = initial_network(config)
    networks = networks_of(config, network, 1)
    site = Site((0,), (bar_frames(0, 8, size),))
    learner = Learner(config, network, networks, site)
    learner.train(0, 1, lambda t: np.eye(1))
    assert networks.distance()[0] == 0
    before = {k: v.detach().clone() for k, v in networks.sub.items()}
    terms = learner.train(1, 1, lambda t: np.eye(1))
    assert all(np.isfinite(v).all() for v in terms.values())
    assert networks.distance()[0] > 0
    trained = networks.names.parameters
    assert any(not torch.equal(networks.sub[n], before[n]) for n in trained)
