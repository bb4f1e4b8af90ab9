"""EnvDrop's decoder with two prompts, vectors that are learnt anew in every round and tell clients apart.

Source: "Navigation as Attackers Wish?" (NAACL 2024). One prompt is added to every word of the language context C, the other
to h_t. They are 0 when a round begins, where the agent is EnvDrop's, and the server merges by them: `federation.merge = pba`
(fedsuite/averaging/prompts.py).
"""

import torch
from torch import Tensor, nn

from fedsuite.vln.model.agent import ActionDecoder, AgentSizes
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.model.products import per_row


class Prompts(nn.Module):
    """language, state [H]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.language = nn.Parameter(torch.zeros(hidden))
        self.state = nn.Parameter(torch.zeros(hidden))


class PromptedDecoder(ActionDecoder):
    """The same draws at the start as EnvDrop's, whose arrays it has, and `prompt.language`, `prompt.state` beside them."""

    def __init__(self, sizes: AgentSizes) -> None:
        super().__init__(sizes)
        self.prompt = Prompts(sizes.hidden)

    def updated(self, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cell = super().updated(gates, cell)
        return hidden + per_row(self.prompt.state, hidden), cell

    def read(self, language: SharedContext, query: Tensor) -> Tensor:
        """A vector p added to all words moves no word's weight, softmax(C q + p q) = softmax(C q), and what is read by p."""
        return super().read(language, query) + per_row(self.prompt.language, query)
