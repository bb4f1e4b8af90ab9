"""Which tensors a steering network has, and which of them its silo mixes with others."""

from dataclasses import dataclass

import torch

from fedsuite.driving.topology.mixing import batch_norm_names


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
