"""Contrastive losses: closed gradients, golden numbers, who receives gradient, weights.

Where a number is given without another word: mu_b = 0.1, mu_s = -0.2, T = 0.5.
"""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fedsuite.driving.contrast import ContrastiveSettings
from fedsuite.driving.model.networks import Output
from fedsuite.driving.training.contrastive import (
    Terms,
    contrastive_terms,
    influence,
    noise_shape,
    regression_loss,
    total_loss,
)
from fedsuite.errors import InputError

KL = ContrastiveSettings()
CD = ContrastiveSettings(kind="cd_k", angle_limit=50.0)
RELEASE = ContrastiveSettings(kind="kl_release")
DIVERGENCES = [
    KL,
    replace(KL, direction="literal"),
    replace(KL, space="feature", temperature=1.0),
    replace(KL, space="feature", temperature=1.0, direction="literal"),
    replace(KL, space="gaussian"),
]
DETACHED = [*DIVERGENCES, CD, replace(CD, space="feature"), replace(CD, metropolis=True)]


def name_of(settings: ContrastiveSettings) -> str:
    return f"{settings.kind}-{settings.space}-{settings.direction}-{settings.metropolis}"


def outputs(
    seed: int, batch: int = 5, features: int = 7, dtype: torch.dtype = torch.float64
) -> Output:
    generator = torch.Generator().manual_seed(seed)
    return Output(
        (0.3 * torch.randn(batch, generator=generator, dtype=dtype)).requires_grad_(),
        torch.randn(batch, features, generator=generator, dtype=dtype).relu().requires_grad_(),
    )


def scalar(mu: float) -> Output:
    return Output(torch.tensor([mu], requires_grad=True), torch.zeros(1, 1))


def noise_for(settings: ContrastiveSettings, output: Output, seed: int = 9) -> Tensor | None:
    shape = noise_shape(settings, *output.features.shape)
    if shape is None:
        return None
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=output.features.dtype)


def compared(settings: ContrastiveSettings, output: Output) -> Tensor:
    return output.features if settings.space == "feature" else output.predictions


def slope(loss: Tensor, at: Tensor) -> float:
    return float(torch.autograd.grad(loss, at)[0].sum())


# --- KL ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("temperature", "expected"), [(1.0, 0.075), (0.5, 0.297), (0.1, 6.12)])
def test_closed_gradient_of_the_bernoulli_divergence(temperature: float, expected: float) -> None:
    b, s = scalar(0.1), scalar(-0.2)
    plus, minus = contrastive_terms(replace(KL, temperature=temperature), b, s)
    gap = (
        1 / (1 + math.exp(-0.1 / temperature)) - 1 / (1 + math.exp(0.2 / temperature))
    ) / temperature
    assert gap == pytest.approx(expected, rel=5e-3)
    assert slope(plus, b.predictions) == pytest.approx(gap, rel=1e-5)
    assert slope(minus, s.predictions) == pytest.approx(-gap, rel=1e-5)


def test_value_of_the_bernoulli_divergence_in_both_directions() -> None:
    q_b, q_s = (1 / (1 + math.exp(-mu / 0.5)) for mu in (0.1, -0.2))

    def divergence(p: float, q: float) -> float:
        return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))

    first = contrastive_terms(KL, scalar(0.1), scalar(-0.2))
    literal = contrastive_terms(replace(KL, direction="literal"), scalar(0.1), scalar(-0.2))
    assert first.plus.item() == pytest.approx(divergence(q_s, q_b), abs=1e-6)
    assert first.minus.item() == pytest.approx(divergence(q_b, q_s), abs=1e-6)
    assert literal.plus.item() == pytest.approx(divergence(q_b, q_s), abs=1e-6)
    assert literal.minus.item() == pytest.approx(divergence(q_s, q_b), abs=1e-6)


def test_gaussian_divergence_in_units_of_the_variance() -> None:
    b = scalar(0.1)
    plus, minus = contrastive_terms(replace(KL, space="gaussian"), b, scalar(-0.2))
    assert plus.item() == pytest.approx(0.045) == pytest.approx(minus.item())
    assert slope(plus, b.predictions) == pytest.approx(0.3)


@pytest.mark.parametrize("settings", DIVERGENCES, ids=name_of)
def test_divergence_is_zero_at_agreement_with_zero_gradient(settings: ContrastiveSettings) -> None:
    b, s = outputs(1), outputs(1)
    plus, minus = contrastive_terms(settings, b, s)
    for term, mine in ((plus, b), (minus, s)):
        assert term.item() == pytest.approx(0.0, abs=1e-12)
        gradient = torch.autograd.grad(term, compared(settings, mine))[0]
        assert gradient.abs().max() < 1e-12


@pytest.mark.parametrize("settings", DIVERGENCES, ids=name_of)
@pytest.mark.parametrize("seed", range(5))
def test_divergence_is_positive_elsewhere(settings: ContrastiveSettings, seed: int) -> None:
    terms = contrastive_terms(settings, outputs(seed), outputs(seed + 100))
    assert all(t.item() > 1e-6 for t in terms)


def test_features_are_compared_without_their_scale_and_offset() -> None:
    settings = replace(KL, space="feature")
    b, s = outputs(2, features=50), outputs(3, features=50)
    moved = Output(b.predictions, 40.0 * b.features + 3.0)
    torch.testing.assert_close(
        contrastive_terms(settings, moved, s).plus,
        contrastive_terms(settings, b, s).plus,
        rtol=1e-3,
        atol=0,
    )


def test_constant_features_stay_finite() -> None:
    b = Output(torch.zeros(2), torch.zeros(2, 9, requires_grad=True))
    plus, _ = contrastive_terms(replace(KL, space="feature"), b, outputs(1, 2, 9, torch.float32))
    assert torch.autograd.grad(plus, b.features)[0].isfinite().all()


# --- who receives gradient, and whether it is right ----------------------------------------------


@pytest.mark.parametrize("settings", DETACHED, ids=name_of)
def test_each_term_reaches_its_own_network_only(settings: ContrastiveSettings) -> None:
    for index in (0, 1):
        pair = outputs(1), outputs(2)
        contrastive_terms(settings, *pair, noise_for(settings, pair[0]))[index].backward()
        own, other = compared(settings, pair[index]), compared(settings, pair[1 - index])
        assert own.grad is not None
        assert own.grad.abs().max() > 0
        assert other.grad is None


@pytest.mark.parametrize("settings", [replace(KL, detach=False), RELEASE], ids=["kl", "release"])
def test_without_detaching_both_terms_reach_both_networks(settings: ContrastiveSettings) -> None:
    for index in (0, 1):
        b, s = outputs(1), outputs(2)
        contrastive_terms(settings, b, s)[index].backward()
        assert all(o.predictions.grad is not None for o in (b, s))
        assert all(float(o.predictions.grad.abs().max()) > 0 for o in (b, s))  # type: ignore[union-attr]


@pytest.mark.parametrize("settings", DIVERGENCES, ids=name_of)
def test_gradient_by_numerical_differentiation(settings: ContrastiveSettings) -> None:
    b, s = outputs(4), outputs(5)
    field = "features" if settings.space == "feature" else "predictions"

    def plus(x: Tensor) -> Tensor:
        return contrastive_terms(settings, b._replace(**{field: x}), s).plus

    def minus(x: Tensor) -> Tensor:
        return contrastive_terms(settings, b, s._replace(**{field: x})).minus

    assert torch.autograd.gradcheck(plus, compared(settings, b).detach().requires_grad_())
    assert torch.autograd.gradcheck(minus, compared(settings, s).detach().requires_grad_())


# --- the released formula ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("b", "s", "beta", "expected"),
    [
        (0.0, 0.0, 1.0, -0.5966),
        (0.3, 0.3, 1.0, -0.6484),
        (-0.3, -0.3, 1.0, -0.5447),
        (0.3, -0.3, 1.0, -0.6080),
        (0.3, -0.3, 0.5, -0.5855),
    ],
)
def test_released_formula(b: float, s: float, beta: float, expected: float) -> None:
    settings = replace(RELEASE, beta=beta)
    terms = contrastive_terms(settings, scalar(b), scalar(s))
    loss = total_loss(settings, torch.tensor(0.0), terms, 1.0)
    assert loss.item() == pytest.approx(expected, abs=5e-5)


def test_released_formula_pushes_the_backbone_up_even_at_agreement() -> None:
    b, s = scalar(0.0), scalar(0.0)
    plus, _ = contrastive_terms(RELEASE, b, s)
    to_b, to_s = torch.autograd.grad(plus, (b.predictions, s.predictions))
    assert float(to_b) == pytest.approx(-0.125)  # -q_s q_b (1 - q_b)
    assert float(to_s) == pytest.approx(0.25 * (math.log(0.5) + 1 - 0.5))


def test_released_formula_has_its_fixed_point_above_the_target() -> None:
    b = torch.zeros(1, requires_grad=True)
    s = torch.zeros(1, requires_grad=True)
    for _ in range(3000):
        features = torch.zeros(1, 1)
        settings = replace(RELEASE, beta=1.0)
        terms = contrastive_terms(settings, Output(b, features), Output(s, features))
        loss = total_loss(settings, b.square().mean(), terms, 1.0)
        gradients = torch.autograd.grad(loss, (b, s))
        with torch.no_grad():
            b -= 0.05 * gradients[0]
            s -= 0.05 * gradients[1]
    assert b.item() == pytest.approx(0.077, abs=2e-3)


# --- weights, schedules, regression --------------------------------------------------------------


def test_total_loss_weighs_by_beta_and_influence() -> None:
    terms = Terms(torch.tensor(3.0), torch.tensor(5.0))
    regression = torch.tensor(1.0)
    assert float(total_loss(replace(KL, beta=0.25), regression, terms, 1.0)) == pytest.approx(5.5)
    assert float(total_loss(replace(KL, beta=0.25), regression, terms, 0.1)) == pytest.approx(1.45)
    assert float(total_loss(replace(KL, apply_beta=False), regression, terms, 0.5)) == 5.0
    assert float(total_loss(replace(KL, kind="none"), regression, terms, 1.0)) == 1.0


def test_none_has_no_terms() -> None:
    terms = contrastive_terms(replace(KL, kind="none"), outputs(1), outputs(2))
    assert (terms.plus.item(), terms.minus.item()) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1.0, 1.0, 1.0, 1.0]),
        ("linear", [1.0, 0.625, 0.25, 0.25]),
        ("exponential", [1.0, 0.5, 0.25, 0.25]),
    ],
)
def test_influence(schedule: str, expected: list[float]) -> None:
    values = [influence(schedule, t, 11, 0.25) for t in (0, 5, 10, 20)]  # type: ignore[arg-type]
    assert values == pytest.approx(expected)
    assert influence(schedule, 0, 1, 0.25) == 1.0  # type: ignore[arg-type]


def test_regression_losses() -> None:
    predictions, angles = torch.tensor([0.0, 0.35, -0.04]), torch.tensor([0.0, 0.05, 0.0])
    assert float(regression_loss("mse", predictions, angles)) == pytest.approx((0.09 + 0.0016) / 3)
    assert float(regression_loss("mae", predictions, angles)) == pytest.approx(0.34 / 3)
    huber = 0.1 * (0.3 - 0.05) + 0.5 * 0.0016
    assert float(regression_loss("huber", predictions, angles)) == pytest.approx(huber / 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "js"}, "kind = 'js': expected one of none, kl"),
        ({"space": "pixels"}, "space = 'pixels'"),
        ({"direction": "up"}, "direction = 'up'"),
        ({"beta": 1.1}, r"beta = 1.1: expected a weight in \[0, 1\]"),
        ({"temperature": 0.0}, "temperature = 0.0: expected a number above 0"),
        ({"chain_rate": 1.5}, "chain-rate = 1.5"),
        ({"chain_steps": 0}, "chain-steps = 0"),
        ({"kind": "cd_k", "space": "gaussian"}, "cd_k is Gaussian already"),
        ({"kind": "cd_k", "detach": False}, "detach = false"),
        ({"kind": "kl_release", "space": "feature"}, "kl_release compares predictions"),
        ({"kind": "cd_k", "metropolis": True, "chain_noise": False}, "Metropolis steps need it"),
    ],
)
def test_bad_settings(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(KL, **changes)  # type: ignore[arg-type]


def test_bad_schedules_and_losses() -> None:
    with pytest.raises(InputError, match="influence = 'cosine': expected one of constant"):
        influence("cosine", 0, 10, 0.1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"influence-floor = 0.0: an exponential schedule"):
        influence("exponential", 0, 10, 0.0)
    with pytest.raises(InputError, match="regression = 'l3': expected one of mse"):
        regression_loss("l3", torch.zeros(1), torch.zeros(1))  # type: ignore[arg-type]


def test_missing_noise_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected chain noise"):
        contrastive_terms(CD, outputs(1), outputs(2))
