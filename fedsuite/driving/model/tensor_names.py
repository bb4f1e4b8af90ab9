"""Which tensors a steering network has, and which of them its silo mixes with others."""

from dataclasses import dataclass

import torch

from fedsuite.averaging.exchange import WORDS, Exchange, named_share
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.topology.mixing import batch_norm_names

SHARE = "federation.share"


@dataclass(frozen=True)
class TensorNames:
    """Names of a network's state, in its order. local: what a silo does not mix (`batch_norm = "local"`, `share`)."""

    parameters: tuple[str, ...]
    buffers: tuple[str, ...]
    local: frozenset[str]

    @property
    def mixed(self) -> tuple[str, ...]:
        """What travels to neighbours."""
        return tuple(n for n in (*self.parameters, *self.buffers) if n not in self.local)


def names_of(network: torch.nn.Module, config: CDLConfig) -> TensorNames:
    """Parameters, buffers, and those of them that stay at home: BatchNorm's, if that is local (FedBN: Li et al. 2021,
    2102.07623), and what the run's share leaves out (FedPer: Arivazhagan et al. 2019, 1912.00818).

    InputError where the share names what the network does not have.
    """
    parameters = tuple(n for n, _ in network.named_parameters())
    buffers = tuple(n for n, _ in network.named_buffers())
    names, share = (*parameters, *buffers), named_share(SHARE, config.federation.share, WORDS)
    Exchange(share).check(SHARE, names)
    local = batch_norm_names(names) if config.network.batch_norm == "local" else frozenset[str]()
    return TensorNames(parameters, buffers, local | {n for n in names if not share.covers(n)})
