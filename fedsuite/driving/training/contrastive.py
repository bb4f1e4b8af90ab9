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

Each is a row of `CONTRASTIVE_LOSSES`; `objective.loss = "module:NAME"` names a ContrastiveLoss of one's own.

"target_first" is KL(soft label || prediction), the direction of the paper's derivation; "literal" is its formula.
Everything here works on one silo and runs under torch.vmap over stacked silos.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsuite.averaging.penalties import Penalty, Proximal
from fedsuite.driving.config import ObjectiveSettings
from fedsuite.driving.federation_settings import FederationSettings
from fedsuite.driving.model.layers import Output
from fedsuite.driving.training.langevin import Chain, surrogate_loss
from fedsuite.errors import InputError
from fedsuite.settings.values import check_callable, chosen, shown

Terms = tuple[Tensor, Tensor]  # L_cd+ and L_cd-, scalars: means over the batch
FEATURE_EPS = 1e-5  # added to the variance of features, so that constant ones stay finite
FEATURE_LIMIT = 10.0  # chains in feature space move standardised features, and s is in their unit
# radians; the usual 1 exceeds nearly all steering angles and would leave half the MSE
HUBER_DELTA = 0.1
# L_lr, a scalar: mean over the batch of predictions [B] against angles [B]; labels are not rounded.
REGRESSION_LOSSES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": F.mse_loss,
    "mae": F.l1_loss,
    "huber": partial(F.huber_loss, delta=HUBER_DELTA),
}


@dataclass(frozen=True)
class Pair:
    """What a contrastive loss gets: what one silo's two networks make of the same B images.

    noise: standard normal numbers of `noise_shape` from the silo's own stream, if the loss is `noisy`; chain: the sampler
    of `cd_k`.
    """

    objective: ObjectiveSettings
    chain: Chain
    backbone: Output
    sub: Output
    noise: Tensor | None = None

    @property
    def own(self) -> Tensor:
        """What is compared of the backbone, [B, D]."""
        return _represented(self.objective, self.backbone)

    @property
    def other(self) -> Tensor:
        """The same of the sub-network."""
        return _represented(self.objective, self.sub)


@dataclass(frozen=True)
class ContrastiveLoss:
    """A value of `objective.loss`. terms: L_cd+ and L_cd-, before beta and the influence; works under torch.vmap too.

    spaces: values of `objective.loss-space` that it can compare; noisy: it draws from `Pair.noise`; soft_labels: L_cd+ has
    no gradient to the sub-network, and L_cd- none to the backbone.
    """

    terms: Callable[[Pair], Terms]
    spaces: tuple[str, ...] = ("prediction", "feature", "gaussian")
    noisy: bool = False
    soft_labels: bool = True


def loss_of(objective: ObjectiveSettings) -> ContrastiveLoss:
    """The loss that `objective.loss` names."""
    key, name = "objective.loss", objective.loss
    loss: ContrastiveLoss = chosen(key, name, CONTRASTIVE_LOSSES)
    if not isinstance(loss, ContrastiveLoss):
        raise InputError(
            f"{key}: {shown(name)} is a {type(loss).__name__}, expected a ContrastiveLoss of {__name__}"
        )
    check_callable(key, name, loss.terms, ("pair",))
    return loss


def chain_of(objective: ObjectiveSettings, angle_limit: float) -> Chain:
    """The sampler of `cd_k`."""
    o, limit = objective, FEATURE_LIMIT if objective.loss_space == "feature" else angle_limit
    return Chain(o.chain_steps, o.chain_rate, o.energy_std, limit, o.metropolis)


def noise_shape(
    objective: ObjectiveSettings, chain: Chain, batch: int, features: int
) -> tuple[int, ...]:
    """Shape of the standard normal numbers of one step of `cd_k`: [2, draws, M, B, D], D = 1 for predictions."""
    components = features if objective.loss_space == "feature" else 1
    return (2, chain.draws, objective.chain_samples, batch, components)


def contrastive_terms(
    objective: ObjectiveSettings,
    chain: Chain,
    backbone: Output,
    sub: Output,
    noise: Tensor | None = None,
) -> Terms:
    """L_cd+ (gradient to the backbone only) and L_cd- (gradient to the sub-network only), before beta.

    noise: of `cd_k`, standard normal numbers of `noise_shape`, drawn by the caller from the silo's own stream.
    """
    return loss_of(objective).terms(Pair(objective, chain, backbone, sub, noise))


def total_loss(
    objective: ObjectiveSettings, regression: Tensor, terms: Terms, influence: float
) -> Tensor:
    """L_lr + w (beta L_cd+ + (1 - beta) L_cd-), or without beta."""
    plus, minus = (objective.beta, 1.0 - objective.beta) if objective.apply_beta else (1.0, 1.0)
    return regression + influence * (plus * terms[0] + minus * terms[1])


def influence(objective: ObjectiveSettings, round: int, total_rounds: int) -> float:
    """w in [floor, 1]: 1 in round 0, `influence_floor` in round total_rounds - 1 and later ("constant": 1 throughout).

    The paper reduces the sub-network's influence "once synchronised" and gives no schedule.
    """
    progress = min(max(round / max(total_rounds - 1, 1), 0.0), 1.0)
    if objective.influence == "linear":
        return 1.0 - (1.0 - objective.influence_floor) * progress
    if objective.influence == "exponential":
        return math.pow(objective.influence_floor, progress)
    return 1.0


def penalty_of(federation: FederationSettings) -> Penalty | None:
    """The local penalty of a run: FedProx's, or none."""
    return Proximal(federation.proximal_mu) if federation.scenario == "fedprox" else None


def _divergences(pair: Pair) -> Terms:
    own, other = pair.own, pair.other
    return _divergence(pair.objective, own, other), _divergence(pair.objective, other, own)


def _chains(pair: Pair) -> Terms:
    if pair.noise is None:
        raise ValueError("noise: expected chain noise")
    plus, minus = pair.noise
    own, other = pair.own, pair.other
    return surrogate_loss(pair.chain, own, other, plus), surrogate_loss(
        pair.chain, other, own, minus
    )


def _released(pair: Pair) -> Terms:
    b, s = pair.backbone.predictions, pair.sub.predictions
    return _release_term(b, s), _release_term(s, b)


def _nothing(pair: Pair) -> Terms:
    """Of silos without a sub-network."""
    return pair.own.new_zeros(()), pair.own.new_zeros(())


def _represented(objective: ObjectiveSettings, output: Output) -> Tensor:
    """What is compared, [B, D]: predictions (D = 1), or every sample's features with mean 0 and variance 1."""
    if objective.loss_space != "feature":
        return output.predictions.unsqueeze(-1)
    return F.layer_norm(output.features, output.features.shape[-1:], eps=FEATURE_EPS)


def _divergence(objective: ObjectiveSettings, own: Tensor, other: Tensor) -> Tensor:
    """Mean KL over the batch between `own` [B, D] and the soft label `other` [B, D]."""
    label = other.detach()
    if objective.loss_space == "gaussian":
        return 0.5 * (own - label).square().mean()
    own_log, label_log = (_log_probabilities(objective, x) for x in (own, label))
    first, second = (
        (label_log, own_log) if objective.kl_direction == "target_first" else (own_log, label_log)
    )
    return (first.exp() * (first - second)).sum(-1).mean()


def _log_probabilities(objective: ObjectiveSettings, x: Tensor) -> Tensor:
    """[B, D] -> [B, outcomes]: a softmax over features; the two outcomes of a Bernoulli variable for predictions."""
    x = x / objective.temperature
    if objective.loss_space == "feature":
        return F.log_softmax(x, dim=-1)
    return F.logsigmoid(torch.cat([x, -x], dim=-1))


def _release_term(own: Tensor, other: Tensor) -> Tensor:
    """mean of q_other (log q_other - q_own): KLDivLoss, given a probability where it takes its logarithm."""
    return (torch.sigmoid(other) * (F.logsigmoid(other) - torch.sigmoid(own))).mean()


CONTRASTIVE_LOSSES: Mapping[str, ContrastiveLoss] = {
    "kl": ContrastiveLoss(_divergences),
    "cd_k": ContrastiveLoss(_chains, ("prediction", "feature"), noisy=True),
    "kl_release": ContrastiveLoss(_released, ("prediction",), soft_labels=False),
    "none": ContrastiveLoss(_nothing),
}
