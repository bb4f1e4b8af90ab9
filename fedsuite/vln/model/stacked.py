"""The agents of S houses side by side: their decisions are taken as one batch, every house's rows by its own weights.

Rows of a stacked batch stand house by house, B for each: N = S B. Products have weights [S, O, I]; all else that is done is
of single rows. A house's critic, mini-batches and streams of random numbers stay its own, and so do its weights: a stack has
copies, through which gradients go back. So a house learns what it learns alone, but for the order of sums.
"""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fedsuite.vln.model.agent import Agent
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.products import stacked
from fedsuite.vln.model.stacked_batch import StackedDropout
from fedsuite.vln.model.stacked_words import encode_stacked


class StackedAgent:
    """Agents of S houses; `decoder`: theirs as one, with weights [S, ..] as they are now."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        self.agents = agents
        self.decoder = _stacked([agent.decoder for agent in agents])

    def encoder(
        self, tokens: Tensor, length: Tensor, dropout: Dropout
    ) -> tuple[SharedContext, Tensor, Tensor]:
        """As LanguageEncoder's, of N rows; length [N] is 0 where a house has fewer episodes than B."""
        assert isinstance(dropout, StackedDropout)
        return encode_stacked([agent.encoder for agent in self.agents], tokens, length, dropout)

    def values(self, hidden: Tensor, counts: Sequence[int], dropout: StackedDropout) -> Tensor:
        """V [M] by each house's own critic, of so many rows of each, house by house: hidden [M, H]."""
        each = zip(self.agents, hidden.split(list(counts)), dropout.own, strict=True)
        return torch.cat([agent.critic(rows, own) for agent, rows, own in each])


def _stacked(modules: Sequence[nn.Module]) -> nn.Module:
    """A module of the same kind with every parameter [S, ..], from which gradients flow to those of the modules."""
    # With its parameters, which are not to be copied, taken as copied already.
    shell = copy.deepcopy(modules[0], {id(p): p for p in modules[0].parameters()})
    for name, _ in list(shell.named_parameters()):
        where, _, last = name.rpartition(".")
        owner = shell.get_submodule(where)
        del owner._parameters[last]
        setattr(owner, last, stacked([m.get_parameter(name) for m in modules]))
    return shell
