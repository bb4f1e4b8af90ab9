"""The silos of one client side by side: every tensor of a network carries a leading silo axis.

    backbone  theta^b, name -> [S, ...]: parameters and BatchNorm buffers; what neighbours mix and what steers
    sub       theta^s, the same names (without the stem if it is shared); never leaves its silo; {} without CDL
    moments   of both optimizers, name -> [S, ...]; never leave their silo

Optimizers work elementwise, so one optimizer over stacked tensors makes the same steps as one per silo. All silos of
a client make the same number of updates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.mixing import batch_norm_names

BACKBONE, SUB = "backbone.", "sub."
STEM = "stem."
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class TensorNames:
    """Names of a network's state, in its order. local: what a silo does not mix (`batch_norm = "local"`)."""

    parameters: tuple[str, ...]
    buffers: tuple[str, ...]
    local: frozenset[str]

    @property
    def mixed(self) -> tuple[str, ...]:
        """What travels to neighbours."""
        return tuple(n for n in (*self.parameters, *self.buffers) if n not in self.local)


def names_of(network: torch.nn.Module, batch_norm: str) -> TensorNames:
    """Parameters, buffers, and those of them that stay at home: BatchNorm's, if `batch_norm` is "local"."""
    parameters = tuple(n for n, _ in network.named_parameters())
    buffers = tuple(n for n, _ in network.named_buffers())
    local = batch_norm_names((*parameters, *buffers)) if batch_norm == "local" else frozenset[str]()
    return TensorNames(parameters, buffers, local)


class Fleet:
    """State of S silos. `initial`: one network's arrays; every silo and its sub-network start from them."""

    def __init__(
        self, config: CDLConfig, names: TensorNames, initial: Arrays, num_silos: int, device: str
    ) -> None:
        self.config, self.names, self.num_silos, self.device = config, names, num_silos, device
        self.backbone = _stacked(initial, num_silos, device)
        self.sub: Tensors = {}
        if config.contrastive:
            kept = {k: v for k, v in initial.items() if not self._is_shared(k)}
            self.sub = _stacked(kept, num_silos, device)
        self.optimizers = {BACKBONE: self._optimizer(self.backbone)}
        if self.sub:
            self.optimizers[SUB] = self._optimizer(self.sub)

    def backbone_arrays(self) -> Arrays:
        """What is mixed: name -> [S, ...]."""
        return {k: self.backbone[k].detach().cpu().numpy().copy() for k in self.names.mixed}

    def load_backbone(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over mixed backbones, name -> [S, ...]."""
        _load(self.backbone, arrays)

    def copy_backbone_to_sub(self) -> None:
        """theta^s := theta^b by value, once, after the locally learnt first round (optimizer moments stay)."""
        with torch.no_grad():
            for name, target in self.sub.items():
                target.copy_(self.backbone[name])

    def private_arrays(self) -> Arrays:
        """All that stays with the silos: sub-networks, moments, local BatchNorm tensors."""
        arrays = {f"{SUB}{k}": v.detach().cpu().numpy() for k, v in self.sub.items()}
        arrays |= {
            f"{BACKBONE}{k}": self.backbone[k].detach().cpu().numpy()
            for k in sorted(self.names.local)
        }
        for prefix, optimizer in self.optimizers.items():
            tensors = self.backbone if prefix == BACKBONE else self.sub
            arrays |= with_prefix(_moments(optimizer, self._trained(tensors)), f"moments.{prefix}")
        return arrays

    def load_private_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what `private_arrays` gave."""
        _load(self.backbone, under_prefix(arrays, BACKBONE))
        _load(self.sub, under_prefix(arrays, SUB))
        for prefix, optimizer in self.optimizers.items():
            tensors = self.backbone if prefix == BACKBONE else self.sub
            _load_moments(
                optimizer, self._trained(tensors), under_prefix(arrays, f"moments.{prefix}")
            )

    def distance(self) -> np.ndarray:
        """||theta_i^b - theta_i^s|| over parameters [S] float64; zeros without sub-networks."""
        squares = torch.zeros(self.num_silos, dtype=torch.float64)
        for name in self.names.parameters:
            if name in self.sub:
                gap = (self.backbone[name] - self.sub[name]).detach().flatten(1).double()
                squares += gap.square().sum(1).cpu()
        return np.asarray(squares.sqrt().numpy())

    def _trained(self, tensors: Tensors) -> Sequence[str]:
        return [n for n in self.names.parameters if n in tensors]

    def _is_shared(self, name: str) -> bool:
        return self.config.share_stem and name.startswith(STEM)

    def _optimizer(self, tensors: Tensors) -> torch.optim.Optimizer:
        c = self.config
        trained = [tensors[n].requires_grad_() for n in self._trained(tensors)]
        if c.optimizer == "sgd":
            return torch.optim.SGD(trained, c.learning_rate, weight_decay=c.weight_decay)
        return torch.optim.Adam(trained, c.learning_rate, weight_decay=c.weight_decay, fused=True)


def _stacked(arrays: Mapping[str, np.ndarray], num_silos: int, device: str) -> Tensors:
    return {
        k: torch.from_numpy(np.repeat(v[None], num_silos, axis=0)).to(device)
        for k, v in arrays.items()
    }


def _load(tensors: Tensors, arrays: Mapping[str, np.ndarray]) -> None:
    with torch.no_grad():
        for name, array in arrays.items():
            if tensors[name].shape != array.shape:
                raise ValueError(
                    f"{name}: expected shape {tuple(tensors[name].shape)}, got {array.shape}"
                )
            tensors[name].copy_(torch.tensor(array))


def _moments(optimizer: torch.optim.Optimizer, names: Sequence[str]) -> Arrays:
    """State of the optimizer by parameter and kind; {} before its first step."""
    parameters = optimizer.param_groups[0]["params"]
    return {
        f"{kind}.{name}": value.detach().cpu().numpy()
        for name, parameter in zip(names, parameters, strict=True)
        for kind, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def _load_moments(
    optimizer: torch.optim.Optimizer, names: Sequence[str], arrays: Mapping[str, np.ndarray]
) -> None:
    optimizer.state.clear()
    parameters = optimizer.param_groups[0]["params"]
    for name, parameter in zip(names, parameters, strict=True):
        own = {k.partition(".")[0]: v for k, v in arrays.items() if k.partition(".")[2] == name}
        if own:
            # Adam counts its steps in a scalar on the parameter's device when it is fused.
            optimizer.state[parameter] = {
                kind: torch.tensor(value, device=parameter.device) for kind, value in own.items()
            }
