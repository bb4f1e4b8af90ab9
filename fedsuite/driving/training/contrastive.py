"""Losses of a silo: regression, the two contrastive divergence terms and their weights (Do et al. 2024, CDL).

A silo owns a backbone theta^b and a sub-network theta^s; mu_b, mu_s [B] are their predictions for the same images:

    loss = L_lr(theta^b) + w (beta L_cd+ + (1 - beta) L_cd-)       w: influence of the sub-network

L_cd+ pulls the backbone toward the sub-network, L_cd- the sub-network toward the backbone; the other side is a soft
label of the same step and receives no gradient, so one backward pass serves both. The paper leaves the distribution f
of H(yhat, y) = sum f(yhat) log(f(yhat) / f(y)), the sampling chain and beta open. What can be chosen:

    kl, prediction   Bernoulli distributions with success probability sigmoid(mu / T)
    kl, feature      softmax over a sample's D features, standardised to mean 0 and variance 1, over T
    kl, gaussian     Normal(mu, s^2), KL times s^2 as in cd_k: (mu_b - mu_s)^2 / 2, whatever s
    cd_k             k-step Langevin chains between the two networks, see fedsuite.driving.training.langevin
    kl_release       what the public code computes: mean of q_s (log q_s - q_b), q = sigmoid(mu), with gradients to both
                     networks from both terms. It is no divergence: it is not zero at agreement and always pushes
                     mu_b up. Use it only to compare with published runs.

"target_first" is KL(soft label || prediction), the direction of the paper's derivation; "literal" is its formula.
Everything here works on one silo and runs under torch.vmap over stacked silos.
"""

import math
from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsuite.driving.contrast import ContrastiveSettings
from fedsuite.driving.model.layers import Output
from fedsuite.driving.training.langevin import surrogate_loss
from fedsuite.errors import InputError

Regression = Literal["mse", "mae", "huber"]
Schedule = Literal["constant", "linear", "exponential"]

FEATURE_EPS = (
    1e-5  # variance added when features are standardised, so that constant ones stay finite
)
HUBER_DELTA = (
    0.1  # radians; the usual 1 exceeds nearly all steering angles and would leave half the MSE
)


class Terms(NamedTuple):
    """L_cd+ and L_cd-, scalars: means over the batch, before beta."""

    plus: Tensor
    minus: Tensor


def noise_shape(settings: ContrastiveSettings, batch: int, features: int) -> tuple[int, ...] | None:
    """Shape of the standard normal numbers of one step: [2, draws, M, B, D], D = 1 for predictions; None: none needed."""
    if settings.kind != "cd_k" or not settings.chain_noise:
        return None
    components = features if settings.space == "feature" else 1
    return (2, settings.chain.draws, settings.chain_samples, batch, components)


def contrastive_terms(
    settings: ContrastiveSettings, backbone: Output, sub: Output, noise: Tensor | None = None
) -> Terms:
    """L_cd+ (gradient to the backbone only) and L_cd- (gradient to the sub-network only).

    noise: standard normal numbers of `noise_shape`, drawn by the caller from the silo's own stream.
    """
    if settings.kind == "none":
        zero = torch.zeros_like(backbone.predictions).sum()
        return Terms(zero, zero)
    if settings.kind == "kl_release":
        b, s = backbone.predictions, sub.predictions
        return Terms(_release_term(b, s), _release_term(s, b))
    own, other = _represented(settings, backbone), _represented(settings, sub)
    if settings.kind == "kl":
        return Terms(_divergence(settings, own, other), _divergence(settings, other, own))
    if (noise is None) == settings.chain_noise:
        raise ValueError(f"noise: expected {'' if settings.chain_noise else 'no '}chain noise")
    plus_noise, minus_noise = (None, None) if noise is None else (noise[0], noise[1])
    return Terms(
        surrogate_loss(settings.chain, own, other, plus_noise),
        surrogate_loss(settings.chain, other, own, minus_noise),
    )


def total_loss(
    settings: ContrastiveSettings, regression: Tensor, terms: Terms, influence: float
) -> Tensor:
    """L_lr + w (beta L_cd+ + (1 - beta) L_cd-), or without beta."""
    if settings.kind == "none":
        return regression
    plus, minus = (settings.beta, 1.0 - settings.beta) if settings.apply_beta else (1.0, 1.0)
    return regression + influence * (plus * terms.plus + minus * terms.minus)


def influence(schedule: Schedule, round: int, total_rounds: int, floor: float) -> float:
    """w in [floor, 1]: 1 in round 0, `floor` in round total_rounds - 1 and later ("constant": 1 throughout).

    The paper reduces the sub-network's influence "once synchronised" and gives no schedule.
    """
    progress = min(max(round / max(total_rounds - 1, 1), 0.0), 1.0)
    if schedule == "constant":
        return 1.0
    if schedule == "linear":
        return 1.0 - (1.0 - floor) * progress
    if schedule == "exponential":
        if floor <= 0.0:
            raise InputError(
                f"influence-floor = {floor}: an exponential schedule never gets there; set it above 0"
            )
        return math.pow(floor, progress)
    raise InputError(f"influence = {schedule!r}: expected one of {', '.join(get_args(Schedule))}")


def regression_loss(kind: Regression, predictions: Tensor, angles: Tensor) -> Tensor:
    """L_lr, a scalar: mean over the batch of predictions [B] against angles [B]; no rounding of labels."""
    if kind == "mse":
        return F.mse_loss(predictions, angles)
    if kind == "mae":
        return F.l1_loss(predictions, angles)
    if kind == "huber":
        return F.huber_loss(predictions, angles, delta=HUBER_DELTA)
    raise InputError(f"regression = {kind!r}: expected one of {', '.join(get_args(Regression))}")


def _represented(settings: ContrastiveSettings, output: Output) -> Tensor:
    """What is compared, [B, D]: predictions (D = 1), or every sample's features with mean 0 and variance 1."""
    if settings.space != "feature":
        return output.predictions.unsqueeze(-1)
    return F.layer_norm(output.features, output.features.shape[-1:], eps=FEATURE_EPS)


def _divergence(settings: ContrastiveSettings, own: Tensor, other: Tensor) -> Tensor:
    """Mean KL over the batch between `own` [B, D] and the soft label `other` [B, D]."""
    label = other.detach() if settings.detach else other
    if settings.space == "gaussian":
        return 0.5 * (own - label).square().mean()
    own_log, label_log = (_log_probabilities(settings, x) for x in (own, label))
    first, second = (
        (label_log, own_log) if settings.direction == "target_first" else (own_log, label_log)
    )
    return (first.exp() * (first - second)).sum(-1).mean()


def _log_probabilities(settings: ContrastiveSettings, x: Tensor) -> Tensor:
    """[B, D] -> [B, outcomes]: a softmax over features; the two outcomes of a Bernoulli variable for predictions."""
    x = x / settings.temperature
    if settings.space == "feature":
        return F.log_softmax(x, dim=-1)
    return F.logsigmoid(torch.cat([x, -x], dim=-1))


def _release_term(own: Tensor, other: Tensor) -> Tensor:
    """mean of q_other (log q_other - q_own): KLDivLoss, given a probability where it takes its logarithm."""
    return (torch.sigmoid(other) * (F.logsigmoid(other) - torch.sigmoid(own))).mean()
