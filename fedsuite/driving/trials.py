"""Contrastive losses and networks of one's own, made and used once on tiny arrays before any training."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fedsuite.averaging.beside import check_names
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.model.layers import Output
from fedsuite.driving.model.networks import STEERING_NETWORKS
from fedsuite.driving.plan import initial_network
from fedsuite.driving.training.contrastive import (
    CONTRASTIVE_LOSSES,
    ContrastiveLoss,
    Pair,
    chain_of,
    loss_of,
    noise_shape,
)
from fedsuite.errors import InputError
from fedsuite.settings.values import shown, tried

FRAMES, FEATURES = 3, 4


def tried_loss(config: CDLConfig) -> ContrastiveLoss:
    """The loss of a run; InputError if one of one's own does not give two terms as it says."""
    loss = loss_of(config.objective)
    if config.objective.loss not in CONTRASTIVE_LOSSES:
        check_loss(config, loss)
    return loss


def check_loss(config: CDLConfig, loss: ContrastiveLoss) -> None:
    """Two scalars, finite, whose gradients go where `soft_labels` says."""
    key, name = "objective.loss", config.objective.loss
    chain = chain_of(config.objective, config.data.angle_end)

    def terms(both: Tensor, noise: Tensor | None) -> Any:
        """both: [2, B, 1 + D], of backbone and sub-network."""
        backbone, sub = (Output(own[:, 0], own[:, 1:]) for own in both)
        return loss.terms(Pair(config.objective, chain, backbone, sub, noise))

    size = (2, FRAMES, 1 + FEATURES)
    both = torch.linspace(0.0, 0.5, 2 * FRAMES * (1 + FEATURES)).view(size).requires_grad_()
    shape = noise_shape(config.objective, chain, FRAMES, FEATURES)
    noise = torch.zeros(shape) if loss.noisy else None
    with tried(key, name):
        found = terms(both, noise)
        if not _are_scalars(found):
            raise InputError(
                f"{key}: {shown(name)} gives {_told(found)}, expected two finite scalars as tensors, L_cd+ and L_cd-"
            )
        if loss.soft_labels:
            for term, label, other in zip(found, (1, 0), ("sub-network", "backbone"), strict=True):
                if _moves(term, both, label):
                    raise InputError(
                        f"{key}: {shown(name)}: L_cd{'+-'[1 - label]} has a gradient to the {other}; detach it, or say "
                        "soft_labels=False"
                    )
    if _stacked(config):
        axes = (0, None if noise is None else 0)
        with tried(f"{key}, with training.stacked", name):
            torch.vmap(terms, in_dims=axes)(both[None], None if noise is None else noise[None])


def tried_network(config: CDLConfig) -> torch.nn.Module:
    """The network of a run before training; InputError if one of one's own does not steer."""
    key, name = "network.model", config.network.model
    if name in STEERING_NETWORKS:
        return initial_network(config)
    with tried(key, name):
        network = initial_network(config)
        check_names(network.state_dict(), f"{key}: {shown(name)}")
        side = config.data.image_size
        frames = torch.zeros(FRAMES, config.data.channels, side, side)
        with torch.no_grad():
            check_output(key, name, network.eval()(frames))
    if _stacked(config):
        with tried(f"{key}, with training.stacked", name), torch.no_grad():
            _call_stacked(network.train(), frames)
    return network.train()


def check_output(key: str, name: str, output: object) -> None:
    """InputError unless it is Output(predictions [B], features [B, D])."""
    if not isinstance(output, Output):
        told = f"a {type(output).__name__}"
    elif output.predictions.shape != (FRAMES,) or output.features.shape[:-1] != (FRAMES,):
        shapes = [list(part.shape) for part in output]
        told = f"predictions {shapes[0]} and features {shapes[1]} for {FRAMES} frames"
    elif any(part.dtype != torch.float32 for part in output):
        told = f"numbers of type {output.predictions.dtype} and {output.features.dtype}"
    else:
        return
    raise InputError(
        f"{key}: {shown(name)} gives {told}, expected Output(predictions [B], features [B, D]), float32, of "
        "fedsuite.driving.model.layers"
    )


def _stacked(config: CDLConfig) -> bool:
    """Whether silos may be trained as one stacked network (`Learner.is_stacked`)."""
    stacked = config.training.stacked
    return stacked == "yes" or (stacked == "auto" and config.device != "cpu")


def _call_stacked(network: torch.nn.Module, frames: Tensor) -> None:
    call: Callable[..., Any] = partial(torch.func.functional_call, network)
    tensors = {k: v[None].clone() for k, v in network.state_dict().items()}
    with torch.random.fork_rng(devices=[]):
        torch.vmap(call, randomness="different")(tensors, frames[None])


def _are_scalars(found: object) -> bool:
    return (
        isinstance(found, tuple)
        and len(found) == 2
        and all(isinstance(t, Tensor) and t.shape == () and bool(t.isfinite()) for t in found)
    )


def _told(found: object) -> str:
    parts = found if isinstance(found, tuple) else (found,)
    return shown(", ".join(f"{type(p).__name__} {p}" for p in parts)).strip('"') or "nothing"


def _moves(term: Tensor, both: Tensor, which: int) -> bool:
    """Whether a term has a gradient to output `which` of the two."""
    if not term.requires_grad:
        return False
    (gradient,) = torch.autograd.grad(term, both, retain_graph=True, allow_unused=True)
    return gradient is not None and bool(gradient[which].any())
