"""The silos of one client side by side: every tensor of a network carries a leading silo axis.

    backbone  theta^b, name -> [S, ...]: parameters and BatchNorm buffers; what neighbours mix and what steers
    sub       theta^s, the same names (without the stem if it is shared); never leaves its silo; {} without CDL
    moments   of both optimizers, name -> [S, ...]; never leave their silo

Optimizers work elementwise, so one optimizer over stacked tensors makes the same steps as one per silo. All silos of
a client make the same number of updates.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.model.tensor_names import TensorNames
from fedsuite.optimizer_state import load_optimizer_arrays, optimizer_arrays

BACKBONE, SUB = "backbone.", "sub."
STEM = "stem."
Tensors = dict[str, Tensor]


class SiloNetworks:
    """State of S silos. `initial`: one network's arrays; every silo and its sub-network start from them."""

    def __init__(
        self, config: CDLConfig, names: TensorNames, initial: Arrays, num_silos: int, device: str
    ) -> None:
        self.config, self.names, self.num_silos, self.device = config, names, num_silos, device
        self.backbone = _stacked(initial, num_silos, device)
        self.sub: Tensors = {}
        if config.objective.contrastive:
            shared = STEM if config.network.share_stem else ()
            kept = {k: v for k, v in initial.items() if not k.startswith(shared)}
            self.sub = _stacked(kept, num_silos, device)
        self.stacks = {BACKBONE: self.backbone, SUB: self.sub}
        self.optimizers = {k: self._optimizer(own) for k, own in self.stacks.items() if own}

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
            moments = optimizer_arrays(optimizer, self._trained(self.stacks[prefix]))
            arrays |= with_prefix(moments, f"moments.{prefix}")
        return arrays

    def load_private_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        _load(self.backbone, under_prefix(arrays, BACKBONE))
        _load(self.sub, under_prefix(arrays, SUB))
        for prefix, optimizer in self.optimizers.items():
            moments = under_prefix(arrays, f"moments.{prefix}")
            load_optimizer_arrays(optimizer, self._trained(self.stacks[prefix]), moments)

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

    def _optimizer(self, tensors: Tensors) -> torch.optim.Optimizer:
        trained = [tensors[n].requires_grad_() for n in self._trained(tensors)]
        rate, decay = self.config.training.learning_rate, self.config.training.weight_decay
        if self.config.training.optimizer == "sgd":
            return torch.optim.SGD(trained, rate, weight_decay=decay)
        return torch.optim.Adam(trained, rate, weight_decay=decay, fused=True)


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
