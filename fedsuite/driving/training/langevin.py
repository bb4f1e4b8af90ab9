"""Contrastive divergence by a k-step Langevin chain (Do et al. 2024, after Hinton 2002) for a Gaussian energy.

A network with output mu(I) for an image I has the energy E(z; I) = (z - mu)^2 / (2 s^2) on [-L, L]. Samples z_0 of the
other network's distribution, Normal(mu_other, s^2) clipped to the interval, take k steps toward this network's:

    z <- z - eta (z - mu') + sqrt(2 eta) s xi,   xi ~ Normal(0, 1),   reflected at the ends

mu' is mu brought into [-L, L]. Toward a mu far outside, steps would overshoot the interval many times and be folded
to anywhere in it: from 4 L on the gradient then has the wrong sign, and the network runs away.

The paper gives the update direction mean_{z_0} dE/dtheta - mean_{z_k} dE/dtheta with the opposite sign, which ascends.
The loss here descends it, with the samples held fixed and times s^2, so that its gradient is of a prediction's size:

    L = mean over images, samples and components of [(z_0 - mu)^2 - (z_k - mu)^2] / 2

Away from the ends the expected dL/dmu is (1 - (1 - eta)^k) (mu - mu_other): the gradient of the KL divergence of the two
Gaussians (times s^2), shrunk by a factor that tends to 1 with k.

Metropolis steps make the chain exact for the truncated Gaussian. Without them its variance is 2 s^2 / (2 - eta).

Shapes: B images, D components (1 for an angle), M samples per image.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Chain:
    """Langevin chains: steps k; rate eta, in (0, 1]; std s and limit L, unit of z; metropolis: accept or reject."""

    steps: int
    rate: float
    std: float
    limit: float
    metropolis: bool

    @property
    def draws(self) -> int:
        """Standard normal numbers that one component of one sample uses: start, steps, and acceptances."""
        return 1 + self.steps * (2 if self.metropolis else 1)


def surrogate_loss(chain: Chain, mu: Tensor, mu_other: Tensor, noise: Tensor) -> Tensor:
    """L, a scalar whose gradient goes to `mu` only; mu, mu_other: [B, D]; noise: standard normal [draws, M, B, D]."""
    first, last = sample(chain, mu.detach(), mu_other.detach(), noise)
    return 0.5 * ((first - mu).square() - (last - mu).square()).mean()


def sample(chain: Chain, mu: Tensor, mu_other: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """z_0 and z_k, both [M, B, D]."""
    first = (mu_other + chain.std * noise[0]).clamp(-chain.limit, chain.limit)
    z, goal = first, mu.clamp(-chain.limit, chain.limit)
    for k in range(chain.steps):
        proposal = (
            z - chain.rate * (z - goal) + (2.0 * chain.rate) ** 0.5 * chain.std * noise[1 + k]
        )
        if chain.metropolis:
            z = _accepted(chain, mu, goal, z, proposal, noise[1 + chain.steps + k])
        else:
            z = reflected(proposal, chain.limit)
    return first, z


def reflected(z: Tensor, limit: float) -> Tensor:
    """z folded back into [-limit, limit], as often as needed."""
    folded = limit - ((z + limit).remainder(4.0 * limit) - 2.0 * limit).abs()
    # Folding costs digits, which samples inside keep.
    return torch.where(z.abs() <= limit, z, folded)


def _accepted(
    chain: Chain, mu: Tensor, goal: Tensor, z: Tensor, proposal: Tensor, normal: Tensor
) -> Tensor:
    """The proposal with the Metropolis-Hastings probability, else z; one decision per sample of D components.

    goal: where steps lead, mu brought into the interval.
    """
    variance = chain.std**2
    energy = ((z - mu).square() - (proposal - mu).square()) / (2.0 * variance)
    there = (proposal - z + chain.rate * (z - goal)).square()
    back = (z - proposal + chain.rate * (proposal - goal)).square()
    log_ratio = (energy + (there - back) / (4.0 * chain.rate * variance)).sum(-1, keepdim=True)
    # The target has no mass outside: such proposals are turned down rather than reflected.
    inside = (proposal.abs() <= chain.limit).all(-1, keepdim=True)
    # The distribution function of a normal number is uniform, so one kind of noise serves all.
    log_uniform = torch.log(0.5 * torch.erfc(-normal[..., :1] / math.sqrt(2.0)))
    return torch.where(inside & (log_uniform < log_ratio), proposal, z)
