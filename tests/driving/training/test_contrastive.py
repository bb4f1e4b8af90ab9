"""Contrastive losses: closed gradients, golden numbers, who receives gradient, weights.

Where a number is given without another word: mu_b = 0.1, mu_s = -0.2, T = 0.5.
"""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fedsuite.driving.checks import validate
from fedsuite.driving.config import CDLConfig, ObjectiveSettings
from fedsuite.driving.model.networks import Output
from fedsuite.driving.training.contrastive import (
    REGRESSION_LOSSES,
    Terms,
    chain_of,
    contrastive_terms,
    influence,
    noise_shape,
    total_loss,
)
from fedsuite.errors import InputError

KL = ObjectiveSettings()
CD = ObjectiveSettings(loss="cd_k")
RELEASE = ObjectiveSettings(loss="kl_release")
LIMIT = 50.0
DIVERGENCES = [
    KL,
    replace(KL, kl_direction="literal"),
    replace(KL, loss_space="feature", temperature=1.0),
    replace(KL, loss_space="feature", temperature=1.0, kl_direction="literal"),
    replace(KL, loss_space="gaussian"),
]
DETACHED = [*DIVERGENCES, CD, replace(CD, loss_space="feature"), replace(CD, metropolis=True)]


def name_of(settings: ObjectiveSettings) -> str:
    return f"{settings.loss}-{settings.loss_space}-{settings.kl_direction}-{settings.metropolis}"


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


def noise_for(settings: ObjectiveSettings, output: Output, seed: int = 9) -> Tensor | None:
    if settings.loss != "cd_k":
        return None
    shape = noise_shape(settings, chain_of(settings, LIMIT), *output.features.shape)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=output.features.dtype)


def terms_of(
    settings: ObjectiveSettings, b: Output, s: Output, noise: Tensor | None = None
) -> Terms:
    return contrastive_terms(settings, chain_of(settings, LIMIT), b, s, noise)


def compared(settings: ObjectiveSettings, output: Output) -> Tensor:
    return output.features if settings.loss_space == "feature" else output.predictions


def slope(loss: Tensor, at: Tensor) -> float:
    return float(torch.autograd.grad(loss, at)[0].sum())


# --- KL ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("temperature", "expected"), [(1.0, 0.075), (0.5, 0.297), (0.1, 6.12)])
def test_closed_gradient_of_the_bernoulli_divergence(temperature: float, expected: float) -> None:
    b, s = scalar(0.1), scalar(-0.2)
    plus, minus = terms_of(replace(KL, temperature=temperature), b, s)
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

    first = terms_of(KL, scalar(0.1), scalar(-0.2))
    literal = terms_of(replace(KL, kl_direction="literal"), scalar(0.1), scalar(-0.2))
    assert first[0].item() == pytest.approx(divergence(q_s, q_b), abs=1e-6)
    assert first[1].item() == pytest.approx(divergence(q_b, q_s), abs=1e-6)
    assert literal[0].item() == pytest.approx(divergence(q_b, q_s), abs=1e-6)
    assert literal[1].item() == pytest.approx(divergence(q_s, q_b), abs=1e-6)


def test_gaussian_divergence_in_units_of_the_variance() -> None:
    b = scalar(0.1)
    plus, minus = terms_of(replace(KL, loss_space="gaussian"), b, scalar(-0.2))
    assert plus.item() == pytest.approx(0.045) == pytest.approx(minus.item())
    assert slope(plus, b.predictions) == pytest.approx(0.3)


@pytest.mark.parametrize("settings", DIVERGENCES, ids=name_of)
def test_divergence_is_zero_at_agreement_with_zero_gradient(settings: ObjectiveSettings) -> None:
    b, s = outputs(1), outputs(1)
    plus, minus = terms_of(settings, b, s)
    for term, mine in ((plus, b), (minus, s)):
        assert term.item() == pytest.approx(0.0, abs=1e-12)
        gradient = torch.autograd.grad(term, compared(settings, mine))[0]
        assert gradient.abs().max() < 1e-12


@pytest.mark.parametrize("settings", DIVERGENCES, ids=name_of)
@pytest.mark.parametrize("seed", range(5))
def test_divergence_is_positive_elsewhere(settings: ObjectiveSettings, seed: int) -> None:
    terms = terms_of(settings, outputs(seed), outputs(seed + 100))
    assert all(t.item() > 1e-6 for t in terms)


def test_features_are_compared_without_their_scale_and_offset() -> None:
    settings = replace(KL, loss_space="feature")
    b, s = outputs(2, features=50), outputs(3, features=50)
    moved = Output(b.predictions, 40.0 * b.features + 3.0)
    torch.testing.assert_close(
        terms_of(settings, moved, s)[0],
        terms_of(settings, b, s)[0],
        rtol=1e-3,
        atol=0,
    )


def test_constant_features_stay_finite() -> None:
    b = Output(torch.zeros(2), torch.zeros(2, 9, requires_grad=True))
    plus, _ = terms_of(replace(KL, loss_space="feature"), b, outputs(1, 2, 9, torch.float32))
    assert torch.autograd.grad(plus, b.features)[0].isfinite().all()


# --- who receives gradient, and whether it is right ----------------------------------------------


@pytest.mark.parametrize("settings", DETACHED, ids=name_of)
def test_each_term_reaches_its_own_network_only(settings: ObjectiveSettings) -> None:
    for index in (0, 1):
        pair = outputs(1), outputs(2)
        terms_of(settings, *pair, noise_for(settings, pair[0]))[index].backward()
        own, other = compared(settings, pair[index]), compared(settings, pair[1 - index])
        assert own.grad is not None
        assert own.grad.abs().max() > 0
        assert other.grad is None


def test_both_terms_of_the_released_formula_reach_both_networks() -> None:
    for index in (0, 1):
        b, s = outputs(1), outputs(2)
        terms_of(RELEASE, b, s)[index].backward()
        assert all(o.predictions.grad is not None for o in (b, s))
        assert all(float(o.predictions.grad.abs().max()) > 0 for o in (b, s))  # type: ignore[union-attr]


@pytest.mark.parametrize("settings", DIVERGENCES, ids=name_of)
def test_gradient_by_numerical_differentiation(settings: ObjectiveSettings) -> None:
    b, s = outputs(4), outputs(5)
    field = "features" if settings.loss_space == "feature" else "predictions"

    def plus(x: Tensor) -> Tensor:
        return terms_of(settings, b._replace(**{field: x}), s)[0]

    def minus(x: Tensor) -> Tensor:
        return terms_of(settings, b, s._replace(**{field: x}))[1]

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
    terms = terms_of(settings, scalar(b), scalar(s))
    loss = total_loss(settings, torch.tensor(0.0), terms, 1.0)
    assert loss.item() == pytest.approx(expected, abs=5e-5)


def test_released_formula_pushes_the_backbone_up_even_at_agreement() -> None:
    b, s = scalar(0.0), scalar(0.0)
    plus, _ = terms_of(RELEASE, b, s)
    to_b, to_s = torch.autograd.grad(plus, (b.predictions, s.predictions))
    assert float(to_b) == pytest.approx(-0.125)  # -q_s q_b (1 - q_b)
    assert float(to_s) == pytest.approx(0.25 * (math.log(0.5) + 1 - 0.5))


@pytest.mark.slow
def test_released_formula_has_its_fixed_point_above_the_target() -> None:
    b = torch.zeros(1, requires_grad=True)
    s = torch.zeros(1, requires_grad=True)
    for _ in range(3000):
        features = torch.zeros(1, 1)
        settings = replace(RELEASE, beta=1.0)
        terms = terms_of(settings, Output(b, features), Output(s, features))
        loss = total_loss(settings, b.square().mean(), terms, 1.0)
        gradients = torch.autograd.grad(loss, (b, s))
        with torch.no_grad():
            b -= 0.05 * gradients[0]
            s -= 0.05 * gradients[1]
    assert b.item() == pytest.approx(0.077, abs=2e-3)


# --- weights, schedules, regression --------------------------------------------------------------


def test_total_loss_weighs_by_beta_and_influence() -> None:
    terms = torch.tensor(3.0), torch.tensor(5.0)
    regression = torch.tensor(1.0)
    assert float(total_loss(replace(KL, beta=0.25), regression, terms, 1.0)) == pytest.approx(5.5)
    assert float(total_loss(replace(KL, beta=0.25), regression, terms, 0.1)) == pytest.approx(1.45)
    assert float(total_loss(replace(KL, apply_beta=False), regression, terms, 0.5)) == 5.0


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1.0, 1.0, 1.0, 1.0]),
        ("linear", [1.0, 0.625, 0.25, 0.25]),
        ("exponential", [1.0, 0.5, 0.25, 0.25]),
    ],
)
def test_influence(schedule: str, expected: list[float]) -> None:
    objective = replace(KL, influence=schedule, influence_floor=0.25)
    values = [influence(objective, t, 11) for t in (0, 5, 10, 20)]
    assert values == pytest.approx(expected)
    assert influence(objective, 0, 1) == 1.0


def test_regression_losses() -> None:
    predictions, angles = torch.tensor([0.0, 0.35, -0.04]), torch.tensor([0.0, 0.05, 0.0])
    assert float(REGRESSION_LOSSES["mse"](predictions, angles)) == pytest.approx(
        (0.09 + 0.0016) / 3
    )
    assert float(REGRESSION_LOSSES["mae"](predictions, angles)) == pytest.approx(0.34 / 3)
    huber = 0.1 * (0.3 - 0.05) + 0.5 * 0.0016
    assert float(REGRESSION_LOSSES["huber"](predictions, angles)) == pytest.approx(huber / 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"loss": "cd_k", "loss_space": "gaussian"},
            "gaussian, but cd_k has no such form; set it to prediction or feature",
        ),
        (
            {"loss": "kl_release", "loss_space": "feature"},
            "feature, but kl_release has no such form; set it to prediction",
        ),
    ],
)
def test_losses_that_cannot_be_computed(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        validate(CDLConfig(objective=replace(KL, **changes)))  # type: ignore[arg-type]


def test_missing_noise_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected chain noise"):
        terms_of(CD, outputs(1), outputs(2))
