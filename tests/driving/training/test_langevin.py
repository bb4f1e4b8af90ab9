"""Langevin chains against theory: mean and spread of their gradient, their law, reflection, and the sign of descent.

mu_b = 0.1, mu_s = -0.2 and eta = 0.5; the mean gradient of 4e5 chains is known to 4e-4.
"""

import math
from dataclasses import replace
from statistics import NormalDist

import pytest
import torch
from torch import Tensor

from fedsuite.driving.config import ObjectiveSettings
from fedsuite.driving.model.networks import Output
from fedsuite.driving.training.contrastive import (
    FEATURE_LIMIT,
    Terms,
    chain_of,
    contrastive_terms,
    noise_shape,
)
from fedsuite.driving.training.langevin import Chain, reflected, sample, surrogate_loss

KL = ObjectiveSettings()
CD = ObjectiveSettings(loss="cd_k")


def outputs(seed: int, batch: int, features: int) -> Output:
    generator = torch.Generator().manual_seed(seed)
    return Output(
        torch.randn(batch, generator=generator),
        torch.randn(batch, features, generator=generator).relu(),
    )


def scalar(mu: float) -> Output:
    return Output(torch.tensor([mu], requires_grad=True), torch.zeros(1, 1))


def slope(loss: Tensor, at: Tensor) -> float:
    return float(torch.autograd.grad(loss, at)[0].sum())


def terms_of(settings: ObjectiveSettings, own: Output, other: Output) -> Terms:
    """One chain a frame without noise, from the other's output."""
    chain = chain_of(settings, 50.0)
    shape = noise_shape(replace(settings, chain_samples=1), chain, *own.features.shape)
    return contrastive_terms(settings, chain, own, other, torch.zeros(shape))


SAMPLES = 400_000


def mean_gradient(steps: int, limit: float, metropolis: bool = False) -> float:
    b = scalar(0.1)
    chain = chain_of(replace(CD, chain_steps=steps, metropolis=metropolis), limit)
    noise = torch.randn(
        (chain.draws, SAMPLES, 1, 1), generator=torch.Generator().manual_seed(steps)
    )
    loss = surrogate_loss(chain, b.predictions[:, None], torch.tensor([[-0.2]]), noise)
    return slope(loss, b.predictions)


@pytest.mark.parametrize("limit", [50.0, 1.0])
@pytest.mark.parametrize(("steps", "expected"), [(1, 0.150), (2, 0.225), (5, 0.2906), (20, 0.300)])
def test_mean_gradient_of_chains(steps: int, expected: float, limit: float) -> None:
    assert mean_gradient(steps, limit) == pytest.approx(expected, abs=1.5e-3)


@pytest.mark.parametrize("steps", [1, 2, 5, 40])
def test_chains_without_noise_are_exact(steps: int) -> None:
    b, s = scalar(0.1), scalar(-0.2)
    plus, minus = terms_of(replace(CD, chain_steps=steps), b, s)
    expected = (1 - 0.5**steps) * 0.3
    assert slope(plus, b.predictions) == pytest.approx(expected, rel=1e-5)
    assert slope(minus, s.predictions) == pytest.approx(-expected, rel=1e-5)


def test_long_chains_have_the_gradient_of_the_gaussian_divergence() -> None:
    b = scalar(0.1)
    gaussian = terms_of(replace(KL, loss_space="gaussian"), b, scalar(-0.2))[0]
    assert slope(gaussian, b.predictions) == pytest.approx(0.3, abs=1e-6)
    b = scalar(0.1)
    exact = terms_of(replace(CD, chain_steps=60), b, scalar(-0.2))
    assert slope(exact[0], b.predictions) == pytest.approx(0.3, abs=1e-6)
    assert mean_gradient(20, 50.0, metropolis=True) == pytest.approx(0.3, abs=3e-3)


@pytest.mark.parametrize(("samples", "std"), [(1, 0.165), (8, 0.059), (32, 0.030)])
def test_spread_of_the_gradient_of_one_step(samples: int, std: float) -> None:
    """Every image is one independent estimate of the gradient from `samples` chains."""
    images = 20_000
    chain = chain_of(CD, 50.0)
    mu = torch.full((images, 1), 0.1, requires_grad=True)
    noise = torch.randn(
        (chain.draws, samples, images, 1), generator=torch.Generator().manual_seed(samples)
    )
    loss = surrogate_loss(chain, mu, torch.full((images, 1), -0.2), noise)
    gradients = images * torch.autograd.grad(loss, mu)[0]
    assert float(gradients.std()) == pytest.approx(std, rel=0.03)


@pytest.mark.parametrize("metropolis", [False, True])
def test_law_of_long_chains(metropolis: bool) -> None:
    chain = Chain(steps=30, rate=0.5, std=0.15, limit=50.0, metropolis=metropolis)
    noise = torch.randn((chain.draws, 40_000, 1, 1), generator=torch.Generator().manual_seed(1))
    first, last = sample(chain, torch.tensor([[0.1]]), torch.tensor([[-0.2]]), noise)
    assert (float(first.mean()), float(first.std())) == pytest.approx((-0.2, 0.15), abs=3e-3)
    # The uncorrected chain is wider than its energy says: variance 2 s^2 / (2 - eta).
    std = 0.15 if metropolis else 0.15 * math.sqrt(2 / 1.5)
    assert (float(last.mean()), float(last.std())) == pytest.approx((0.1, std), abs=3e-3)


def test_metropolis_chains_follow_the_truncated_gaussian() -> None:
    chain = Chain(steps=40, rate=0.3, std=0.15, limit=0.2, metropolis=True)
    noise = torch.randn((chain.draws, 40_000, 1, 1), generator=torch.Generator().manual_seed(2))
    _, last = sample(chain, torch.tensor([[0.15]]), torch.tensor([[-0.1]]), noise)
    grid = torch.linspace(-0.2, 0.2, 20_001)
    weight = torch.exp(-((grid - 0.15) ** 2) / (2 * 0.15**2))
    mean = float((grid * weight).sum() / weight.sum())
    std = math.sqrt(float(((grid - mean) ** 2 * weight).sum() / weight.sum()))
    assert last.abs().max() <= 0.2
    assert (float(last.mean()), float(last.std())) == pytest.approx((mean, std), abs=2e-3)


def test_metropolis_decides_once_per_sample_of_several_components() -> None:
    chain = Chain(steps=1, rate=1.0, std=0.5, limit=50.0, metropolis=True)
    noise = torch.randn((chain.draws, 2_000, 1, 3), generator=torch.Generator().manual_seed(3))
    first, last = sample(chain, torch.zeros(1, 3), torch.full((1, 3), 0.4), noise)
    moved = (first != last).sum(-1)
    assert set(moved.flatten().tolist()) == {0, 3}


def one_chain(chain: Chain, mu: float, other: float, noise: list[float]) -> tuple[float, float]:
    """z_0 and z_k of one number: the start takes the first of the noise, every step the next, acceptances the rest."""

    def bounded(x: float) -> float:
        return max(-chain.limit, min(chain.limit, x))

    def energy(x: float) -> float:
        return (x - mu) ** 2 / (2 * chain.std**2)

    def logged(x: float, y: float) -> float:
        """log of the density of a step from x to y, but for what all have."""
        return -((y - x + chain.rate * (x - bounded(mu))) ** 2) / (4 * chain.rate * chain.std**2)

    starts, steps, uniform = noise[0], noise[1 : chain.steps + 1], noise[chain.steps + 1 :]
    first = z = bounded(other + chain.std * starts)
    for k, drawn in enumerate(steps):
        y = z + chain.rate * (bounded(mu) - z) + math.sqrt(2 * chain.rate) * chain.std * drawn
        if chain.metropolis:
            ratio = energy(z) - energy(y) + logged(y, z) - logged(z, y)
            inside = abs(y) <= chain.limit
            z = y if inside and math.log(NormalDist().cdf(uniform[k])) < ratio else z
        else:
            z = y
            while abs(z) > chain.limit:  # one wall after another
                z = math.copysign(2 * chain.limit, z) - z
    return first, z


@pytest.mark.parametrize("metropolis", [False, True])
def test_every_step_has_noise_of_its_own(metropolis: bool) -> None:
    chain = Chain(4, 0.4, 0.5, 1.0, metropolis)
    noise = torch.randn(
        (chain.draws, 300, 1, 1), generator=torch.Generator().manual_seed(7)
    ).double()
    first, last = sample(
        chain, torch.tensor([[0.7]]).double(), torch.tensor([[-0.6]]).double(), noise
    )
    slow = [one_chain(chain, 0.7, -0.6, noise[:, i, 0, 0].tolist()) for i in range(300)]
    torch.testing.assert_close(first[:, 0, 0], torch.tensor([a for a, _ in slow]).double())
    torch.testing.assert_close(last[:, 0, 0], torch.tensor([b for _, b in slow]).double())


def test_reflection() -> None:
    z = torch.tensor([-1.0, 1.0, 0.3, 1.2, -1.2, 3.1, -3.3, 7.0])
    expected = torch.tensor([-1.0, 1.0, 0.3, 0.8, -0.8, -0.9, 0.7, -1.0])
    torch.testing.assert_close(reflected(z, 1.0), expected)


def test_samples_stay_within_the_limit() -> None:
    chain = Chain(steps=3, rate=0.5, std=0.4, limit=0.5, metropolis=False)
    noise = torch.randn((chain.draws, 1000, 1, 1), generator=torch.Generator().manual_seed(4))
    for z in sample(chain, torch.tensor([[0.9]]), torch.tensor([[-0.9]]), noise):
        assert z.abs().max() <= 0.5


@pytest.mark.parametrize(("sign", "converges"), [(1.0, True), (-1.0, False)])
def test_descent_reaches_the_soft_label_and_the_papers_sign_runs_away(
    sign: float, converges: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    b = torch.tensor([0.1], requires_grad=True)
    for _ in range(60):
        noise = torch.randn((2, 2, 400, 1, 1), generator=generator)
        features = torch.zeros(1, 1)
        own, other = Output(b, features), Output(torch.tensor([-0.2]), features)
        plus, _ = contrastive_terms(CD, chain_of(CD, 50.0), own, other, noise)
        (gradient,) = torch.autograd.grad(sign * plus, b)
        with torch.no_grad():
            b -= 0.2 * gradient
    if converges:
        assert b.item() == pytest.approx(-0.2, abs=0.02)
    else:
        assert b.item() > 3.0


def test_the_limit_is_that_of_what_is_compared() -> None:
    assert chain_of(replace(CD, loss_space="prediction"), 0.7).limit == 0.7
    assert chain_of(replace(CD, loss_space="feature"), 0.7).limit == FEATURE_LIMIT > 3


def test_features_move_in_their_own_unit_whatever_their_size() -> None:
    """Chains in feature space see standardised features, so the loss does not grow with the network's scale or D."""
    settings = replace(CD, loss_space="feature")
    values = []
    for scale, features in ((1.0, 300), (50.0, 300), (1.0, 3000)):
        b, s = outputs(6, 20, features), outputs(7, 20, features)
        b, s = (o._replace(features=scale * o.features) for o in (b, s))
        values.append(terms_of(settings, b, s)[0].item())
    assert values[1] == pytest.approx(values[0], rel=1e-3)
    assert values[2] == pytest.approx(values[0], rel=0.1)


@pytest.mark.parametrize("metropolis", [False, True])
@pytest.mark.parametrize("far", [0.9, 1.5, 3.0, 5.0, 20.0, 150.0, -5.0, -150.0])
def test_a_network_that_has_left_the_interval_is_called_back(far: float, metropolis: bool) -> None:
    """However far out it predicts, it is pulled toward the other's prediction, 0, by about L."""
    chain = Chain(steps=5, rate=0.5, std=0.15, limit=1.0, metropolis=metropolis)
    noise = torch.randn(chain.draws, 8, 256, 1, generator=torch.Generator().manual_seed(0))
    mu = torch.full((256, 1), far, requires_grad=True)
    surrogate_loss(chain, mu, torch.zeros(256, 1), noise).backward()
    assert mu.grad is not None
    assert 0.6 < mu.grad.sum().item() * math.copysign(1.0, far) < 1.0
