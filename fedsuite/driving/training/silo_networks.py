"""The silos of one client side by side: every tensor of a network carries a leading silo axis.

    backbone  theta^b, name -> [S, ...]: parameters and BatchNorm buffers; what neighbours mix and what steers
    sub       theta^s, the same names (without the stem if it is shared); never leaves its silo; {} without CDL
    moments   of both optimizers, name -> [S, ...]; never leave their silo, except those that the backbone's optimizer has
              mixed with it (gradient-tracking: under `tracker.`); a sub-network that is not trained has none

Optimizers work elementwise, so one optimizer over stacked tensors makes the same steps as one per silo. All silos of
a client make the same number of updates.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.averaging.exchange import RESIDUAL
from fedsuite.averaging.optimizer_state import load_optimizer_arrays, optimizer_arrays
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.model.tensor_names import TensorNames
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS, RuleOptimizer
from fedsuite.driving.topology.device_mixing import mix_tensors
from fedsuite.driving.topology.mixing import mix
from fedsuite.driving.training.sub_networks import SUB_NETWORKS

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
        self.rule = SUB_NETWORKS[config.objective.sub_network]
        self.stacks = {BACKBONE: self.backbone, SUB: self.sub}
        method = LOCAL_OPTIMIZERS[config.training.optimizer]
        beside = LOCAL_OPTIMIZERS[method.beside or config.training.optimizer]
        makers = {BACKBONE: method.make, SUB: beside.make}
        self.optimizers = {
            k: makers[k](self._leaves(own), config.training)
            for k, own in self.stacks.items()
            if own and (k == BACKBONE or self.rule.trained)
        }
        mixed = [n for n in self._trained(self.backbone) if n in names.mixed]
        # Name in a message -> (kind of state, parameter).
        self.sent = {f"{kind}.{n}": (kind, n) for kind in method.sent for n in mixed}
        self.control: Arrays = {}  # SCAFFOLD's c_k of every silo [S, ...]; {} without
        self.residual: Arrays = {}  # what a codec left out of the silos' changes so far [S, ...]
        self.under_way: Arrays = {}  # messages between these silos, rows of what is mixed
        self.copied = False  # whether theta^s was copied: after the first mixing step in which these silos took part

    def backbone_arrays(self) -> Arrays:
        """What is mixed: name -> [S, ...], with what the optimizer has mixed beside it; then the messages under way."""
        rows = self._rows()
        return {k: np.concatenate([v, self.under_way.get(k, v[:0])]) for k, v in rows.items()}

    def _rows(self) -> Arrays:
        """What is mixed of these silos; on the CPU in the memory of the networks."""
        return {k: v.detach().cpu().numpy() for k, v in self._mixed_tensors().items()}

    def _mixed_tensors(self) -> Tensors:
        state = self.optimizers[BACKBONE].state
        tensors = {k: self.backbone[k] for k in self.names.mixed}
        for key, (kind, name) in self.sent.items():
            own = self.backbone[name]
            tensors[key] = state[own].get(kind, torch.zeros_like(own))
        return tensors

    def mix(self, a: np.ndarray) -> None:
        """One mixing step among these silos; a: float64 [S, S], or as wide as they and the messages under way."""
        if self.device == "cpu" or self.under_way:
            self.load_backbone(mix(self.backbone_arrays() if self.under_way else self._rows(), a))
            return
        mixed, state = mix_tensors(self._mixed_tensors(), a), self.optimizers[BACKBONE].state
        with torch.no_grad():
            for name, tensor in mixed.items():
                if name in self.sent:
                    kind, parameter = self.sent[name]
                    state[self.backbone[parameter]][kind] = tensor
                else:
                    self.backbone[name].copy_(tensor)

    def load_backbone(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over mixed backbones, name -> [S, ...], what was mixed beside them, and messages in rows behind theirs."""
        self.under_way = {
            k: v[self.num_silos :] for k, v in arrays.items() if len(v) > self.num_silos
        }
        arrays = {k: v[: self.num_silos] for k, v in arrays.items()}
        _load(self.backbone, {k: v for k, v in arrays.items() if k not in self.sent})
        state = self.optimizers[BACKBONE].state
        for key, (kind, name) in self.sent.items():
            own = self.backbone[name]
            state[own][kind] = torch.empty_like(own)
            _load({key: state[own][kind]}, {key: arrays[key]})

    def begin_mixing_step(self) -> None:
        """Before the first update after a mixing: optimizers that look across mixings and sub-networks see it."""
        optimizer = self.optimizers[BACKBONE]
        if isinstance(optimizer, RuleOptimizer):
            optimizer.begin()
        with torch.no_grad():
            for name, own in self.sub.items():
                self.rule.begin(own, self.backbone[name], self.config.objective)

    def copy_backbone_to_sub(self) -> None:
        """theta^s := theta^b by value, once, after the locally learnt first round (optimizer moments stay)."""
        self.copied = True
        with torch.no_grad():
            for name, target in self.sub.items():
                target.copy_(self.backbone[name])

    def private_arrays(self) -> Arrays:
        """All that stays with the silos: sub-networks, moments, local BatchNorm tensors, control variates, residuals."""
        arrays = {f"{SUB}{k}": v.detach().cpu().numpy() for k, v in self.sub.items()}
        arrays |= {
            f"{BACKBONE}{k}": self.backbone[k].detach().cpu().numpy()
            for k in sorted(self.names.local)
        }
        for prefix, optimizer in self.optimizers.items():
            moments = optimizer_arrays(optimizer, self._trained(self.stacks[prefix]))
            if prefix == BACKBONE:
                moments = {k: v for k, v in moments.items() if k not in self.sent}
            arrays |= with_prefix(moments, f"moments.{prefix}")
        return arrays | with_prefix(self.control, CONTROL) | with_prefix(self.residual, RESIDUAL)

    def load_private_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what `private_arrays` gave after a mixing step."""
        self.copied = True
        self.control = under_prefix(arrays, CONTROL)
        self.residual = under_prefix(arrays, RESIDUAL)
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

    def _leaves(self, tensors: Tensors) -> list[Tensor]:
        return [tensors[n].requires_grad_() for n in self._trained(tensors)]


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
            writable = np.require(
                array, requirements="W"
            )  # what torch wants of memory that it shares
            tensors[name].copy_(torch.from_numpy(writable))
