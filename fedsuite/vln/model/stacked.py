"""The agents of S houses side by side: their decisions are taken as one batch, every house's rows by its own weights.

Rows of a stacked batch stand house by house, B for each: N = S B. Products have weights [S, O, I]; all else that is done is
of single rows. A house's critic, mini-batches and streams of random numbers stay its own, and so do its weights: a stack has
copies, through which gradients go back. So a house learns what it learns alone, but for the order of sums.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fedsuite.vln.environment import World
from fedsuite.vln.model.agent import ActionDecoder, Agent, Decided
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.gathered import Gathered
from fedsuite.vln.model.products import stacked
from fedsuite.vln.model.recording import Recordings
from fedsuite.vln.model.replayed import ReplayedDecoder, stacked_decoder
from fedsuite.vln.model.replayed_turns import Turn
from fedsuite.vln.model.stacked_dropout import StackedDropout, StackedPolicy
from fedsuite.vln.model.stacked_words import encode_stacked
from fedsuite.vln.model.walkers import Acted, Walkers


class StackedAgent:
    """Agents of S houses; `decoder`: theirs as one, with weights [S, ..] as they are now."""

    def __init__(self, agents: Sequence[Agent], recordings: Recordings | None = None) -> None:
        """recordings: of decisions and words, to be replayed (recording.py); None launches every kernel by itself."""
        self.agents, self.recordings, first = agents, recordings, agents[0].decoder
        weights = {
            name: stacked([agent.decoder.get_parameter(name) for agent in agents])
            for name, _ in first.named_parameters()
        }
        if recordings is None or not isinstance(first, ActionDecoder):
            self.decoder: Callable[..., Decided] = stacked_decoder(first, weights)
        else:
            self.decoder = ReplayedDecoder(first, weights, recordings.begin())

    def turn(
        self,
        world: World,
        at: Walkers,
        policy: Callable[..., Tensor],
        dropout: Dropout,
        gathered: Gathered,
    ) -> tuple[Decided, Acted] | None:
        """What they decide and where it takes them, where that is replayed as a whole; else None: then they are to look, to
        decide and to act one after another."""
        decoder, wanted = self.decoder, torch.is_grad_enabled() and at.factor is None
        if not (wanted and isinstance(decoder, ReplayedDecoder)):
            return None
        if any(size % 8 for size in (world.views.shape[2], *decoder.dropped)):
            return None
        assert self.recordings is not None
        assert isinstance(policy, StackedPolicy) and isinstance(dropout, StackedDropout)
        turn = Turn(self.recordings, world, at, policy, dropout, decoder.dropped)
        return decoder.turn(turn, at, gathered)

    def encoder(
        self, tokens: Tensor, length: Tensor, dropout: Dropout
    ) -> tuple[SharedContext, Tensor, Tensor]:
        """As LanguageEncoder's, of N rows; length [N] is 0 where a house has fewer episodes than B."""
        assert isinstance(dropout, StackedDropout)
        encoders = [agent.encoder for agent in self.agents]
        return encode_stacked(encoders, tokens, length, dropout, self.recordings)

    def values(self, hidden: Tensor, counts: Sequence[int], dropout: StackedDropout) -> Tensor:
        """V [M] by each house's own critic, of so many rows of each, house by house: hidden [M, H]."""
        each = zip(self.agents, hidden.split(list(counts)), dropout.own, strict=True)
        return torch.cat([agent.critic(rows, own) for agent, rows, own in each])
