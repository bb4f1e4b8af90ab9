"""What becomes of the sub-network, against a slow twin in float64 that shares neither learner, losses nor optimizers."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsuite.arrays import Arrays, module_arrays
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.batches import stacked_batch
from fedsuite.driving.data.frames import Silo
from fedsuite.driving.model.layers import Output
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network
from fedsuite.driving.topology.mixing import mix
from fedsuite.driving.training.contrastive import chain_of, noise_shape
from fedsuite.driving.training.langevin import surrogate_loss
from fedsuite.driving.training.learner import Learner, Site
from fedsuite.driving.training.silo_networks import SiloNetworks
from fedsuite.driving.training.sub_networks import SUB_NETWORKS
from fedsuite.randomness import torch_generator_for
from fedsuite.settings.config import limits_of
from tests.harness import changed

pytestmark = pytest.mark.slow

MIXING = np.array([[0.6, 0.4], [0.3, 0.7]])
STEPS, UPDATES, RATE, DECAY, MOMENTUM = 3, 2, 0.003, 0.01, 0.8
TOLERANCE = 1e-6  # of float32 against float64
BASE = changed(
    CDLConfig(), image_size=40, batch_size=4, dropout=0.0, num_rounds=STEPS, seed=5, optimizer="sgd", learning_rate=RATE,
    weight_decay=DECAY, local_updates=UPDATES, beta=0.6, temperature=0.1, sub_network_momentum=MOMENTUM,
)  # fmt: skip
LOSSES: dict[str, dict[str, Any]] = {
    "kl": {"loss": "kl"},
    "feature": {"loss": "kl", "loss_space": "feature", "temperature": 1.0},
    "cd_k": {"loss": "cd_k", "chain_steps": 2},
}
Ends = list[tuple[Arrays, Arrays]]  # each silo's backbone and sub-network
UNTRAINED = [name for name, rule in SUB_NETWORKS.items() if not rule.trained]


def parts_of(config: CDLConfig, silos: tuple[Silo, ...]) -> tuple[SiloNetworks, Learner]:
    """Networks of the first two silos before training, and their learner."""
    network = initial_network(config)
    names = names_of(network, config)
    networks = SiloNetworks(config, names, module_arrays(network), 2, "cpu")
    site = Site((0, 1), tuple(s.train for s in silos[:2]))
    return networks, Learner(config, network, networks, site)


def learnt(config: CDLConfig, silos: tuple[Silo, ...], matrix: np.ndarray = MIXING) -> SiloNetworks:
    networks, learner = parts_of(config, silos)
    learner.train(0, STEPS, lambda t: matrix)
    return networks


# --- the slow twin -------------------------------------------------------------------------------


def bernoulli(own: Output, other: Output, t: float) -> Tensor:
    p, q = torch.sigmoid(other.predictions.detach() / t), torch.sigmoid(own.predictions / t)
    return (p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()).mean()


def standardised(x: Tensor) -> Tensor:
    return (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()


def softmaxed(own: Output, other: Output, t: float) -> Tensor:
    p = torch.softmax(standardised(other.features.detach()) / t, 1)
    q = torch.softmax(standardised(own.features) / t, 1)
    return (p * (p / q).log()).sum(1).mean()


def chains(config: CDLConfig, number: int, silo: int) -> list[Callable[..., Tensor]]:
    """L_cd+ and L_cd- of this update, with the silo's own noise."""
    chain = chain_of(config.objective, config.data.angle_end)
    shape = noise_shape(config.objective, chain, config.training.batch_size, 0)
    noise = torch.randn(shape, generator=torch_generator_for(config.seed, "chains", number, silo))

    def loss(own: Output, other: Output, t: float, half: Tensor) -> Tensor:
        mu, mu_other = own.predictions[:, None], other.predictions[:, None]
        return surrogate_loss(chain, mu, mu_other, half.double())

    return [lambda *args, half=half: loss(*args, half=half) for half in noise]


def descend(network: torch.nn.Module, loss: Tensor) -> None:
    parameters = list(network.parameters())
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
    with torch.no_grad():
        for p, g in zip(parameters, gradients, strict=True):
            if g is not None:
                p -= RATE * (g + DECAY * p)


def blend(target: torch.nn.Module, other: torch.nn.Module, share: float) -> None:
    """target <- (1 - share) target + share other."""
    with torch.no_grad():
        for own, new in zip(target.parameters(), other.parameters(), strict=True):
            own.copy_((1 - share) * own + share * new)


def slow(config: CDLConfig, value: str, silos: tuple[Silo, ...]) -> Ends:
    """Backbones and sub-networks of two silos after three mixing steps, without the last one's mixing."""
    backbones = [initial_network(config).double().train() for _ in range(2)]
    subs = [copy.deepcopy(b) for b in backbones]
    objective = config.objective
    fixed = softmaxed if objective.loss_space == "feature" else bernoulli
    for t in range(STEPS):
        for i, (backbone, sub) in enumerate(zip(backbones, subs, strict=True)):
            if t > 0 and value in ("average", "reset"):
                blend(sub, backbone, 1.0 if value == "reset" else 1 - MOMENTUM)
            for number in range(t * UPDATES, (t + 1) * UPDATES):
                images, labels = stacked_batch([silos[i].train], (i,), number, 4, 5, False)
                x, y = torch.from_numpy(images[0]).double(), torch.from_numpy(labels[0]).double()
                out, other = backbone(x), sub(x)
                regression, alone = (((o.predictions - y) ** 2).mean() for o in (out, other))
                if t == 0:
                    descend(backbone, regression)
                    continue
                plus, minus = chains(config, number, i) if objective.loss == "cd_k" else [fixed] * 2
                to_sub = (1 - 0.6) * minus(other, out, objective.temperature)
                pull = 0.6 * plus(out, other, objective.temperature)
                descend(backbone, regression + pull)
                if value == "trained":
                    descend(sub, to_sub)
                elif value == "own":
                    descend(sub, alone + to_sub)
            if t == 0:
                blend(sub, backbone, 1.0)
        if t < STEPS - 1:
            before = [copy.deepcopy(b) for b in backbones]
            for i, backbone in enumerate(backbones):
                blend(backbone, before[i], 1.0)
                blend(backbone, before[1 - i], MIXING[i, 1 - i])
    return [(module_arrays(b), module_arrays(s)) for b, s in zip(backbones, subs, strict=True)]


Twin = Callable[[str, str], Ends]


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, str], Ends]:
    return {}


@pytest.fixture
def twin(silos: tuple[Silo, ...], known: dict[tuple[str, str], Ends]) -> Twin:
    """`twin(value, loss)`, trained once."""

    def ends(value: str, loss: str) -> Ends:
        if (value, loss) not in known:
            known[value, loss] = slow(changed(BASE, **LOSSES[loss]), value, silos)
        return known[value, loss]

    return ends


@pytest.mark.parametrize("stacked", ["no", "yes"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("value", SUB_NETWORKS)
def test_equals_the_slow_twin(
    silos: tuple[Silo, ...], twin: Twin, value: str, loss: str, stacked: str
) -> None:
    networks = learnt(changed(BASE, sub_network=value, stacked=stacked, **LOSSES[loss]), silos)
    for i, expected in enumerate(twin(value, loss)):
        for tensors, arrays in zip((networks.backbone, networks.sub), expected, strict=True):
            for name, tensor in tensors.items():
                found = tensor[i].detach().numpy()
                np.testing.assert_allclose(
                    found, arrays[name], atol=TOLERANCE, rtol=1e-6, err_msg=name
                )


@pytest.mark.parametrize("loss", LOSSES)
def test_the_twins_tell_the_values_apart(twin: Twin, loss: str) -> None:
    """In both networks, by much more than what is tolerated between learner and twin."""
    ends = {value: twin(value, loss)[0] for value in SUB_NETWORKS}
    for one, other in itertools.combinations(SUB_NETWORKS, 2):
        for a, b in zip(ends[one], ends[other], strict=True):
            assert max(np.abs(a[k] - b[k]).max() for k in a) > 8 * TOLERANCE, (one, other)


# --- what the values mean ------------------------------------------------------------------------


def test_the_settings_offer_what_there_is() -> None:
    assert limits_of(CDLConfig)["objective.sub-network"].choices == tuple(SUB_NETWORKS)


def test_own_is_what_the_silo_alone_would_have_become(silos: tuple[Silo, ...]) -> None:
    """Without L_cd-, theta^s makes the steps of a backbone that nobody mixes and nothing pulls."""
    mixed = learnt(changed(BASE, sub_network="own", beta=1.0), silos)
    alone = learnt(changed(BASE, loss="none"), silos, np.eye(2))
    for name in mixed.names.parameters:
        one, other = (t.detach().numpy() for t in (mixed.sub[name], alone.backbone[name]))
        np.testing.assert_allclose(one, other, atol=1e-6, err_msg=name)
    assert (mixed.distance() > 1e-3).all()


@pytest.mark.parametrize("updates", [1, 2])
def test_reset_acts_from_the_second_update_on(silos: tuple[Silo, ...], updates: int) -> None:
    """With one update between mixings both networks are equal when the gradient is taken: plain training, to the byte."""
    common = {"local_updates": updates, "loss_space": "gaussian"}
    pulled = learnt(changed(BASE, sub_network="reset", **common), silos).backbone
    plain = learnt(changed(BASE, loss="none", **common), silos).backbone
    assert all(torch.equal(pulled[n], plain[n]) for n in plain) == (updates == 1)


def test_reset_is_an_average_without_memory(silos: tuple[Silo, ...]) -> None:
    reset = learnt(changed(BASE, sub_network="reset"), silos)
    average = learnt(changed(BASE, sub_network="average", sub_network_momentum=0.0), silos)
    for name in reset.sub:
        assert torch.equal(reset.sub[name], average.sub[name])
        assert torch.equal(reset.backbone[name], average.backbone[name])


@pytest.mark.parametrize("value", SUB_NETWORKS)
def test_only_a_trained_sub_network_has_an_optimizer(silos: tuple[Silo, ...], value: str) -> None:
    arrays = learnt(changed(BASE, sub_network=value, optimizer="adam"), silos).private_arrays()
    moments = {k.split(".")[1] for k in arrays if k.startswith("moments.")}
    assert moments == ({"backbone"} if value in UNTRAINED else {"backbone", "sub"})
    assert any(k.startswith("sub.") for k in arrays)


@pytest.mark.parametrize("norm", ["group", "average", "local"])
@pytest.mark.parametrize("value", SUB_NETWORKS)
def test_state_survives_the_disk(silos: tuple[Silo, ...], value: str, norm: str) -> None:
    """Two mixing steps, stored, restored elsewhere and gone on with, equal three in one go."""
    config = changed(BASE, sub_network=value, batch_norm=norm, dropout=0.5, optimizer="adam")
    whole = learnt(config, silos)
    first, learner = parts_of(config, silos)
    learner.train(0, 2, lambda t: MIXING)
    second, learner = parts_of(config, silos)
    second.load_private_arrays({k: v.copy() for k, v in first.private_arrays().items()})
    second.load_backbone(mix(first.backbone_arrays(), MIXING))
    learner.train(2, 1, lambda t: MIXING)
    for name in whole.backbone:
        assert torch.equal(whole.backbone[name], second.backbone[name]), name
        assert torch.equal(whole.sub[name], second.sub[name]), name
